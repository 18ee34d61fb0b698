"""What is allowed when: a command is refused in the words that the status told before."""

import asyncio
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.runner.app import Runner
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import Snapshot, StatusChange
from tests.runner.running import ONE_CLIENT, call, until

NO_RUN = "No run is active."
ENDING = "The run is being ended."
GOES_ON = "The run {run} is active."
NEEDED = "Everything needs Redis."
NOT_PAUSED = "Run {run} was not paused: it is running."
ONLINE = "client-1 is online: it would come back at once."
NOT_CUT_OFF = "{client} is {state}: only a client that was cut off can be released."

# By what is asked, about whom: why it is refused without a run, while one goes on, is paused, is being ended,
# and after it; empty where it is allowed.
STATES = ("none", "running", "paused", "saving", "stopped")
ALLOWED = {
    ("run.start", ""): ("", "", "", "", ""),
    ("run.resume", ""): ("There is no run yet.", GOES_ON, GOES_ON, GOES_ON, ""),
    ("run.stop", ""): (NO_RUN, "", "", "", NO_RUN),
    ("run.pause", ""): (NO_RUN, "", "", ENDING, NO_RUN),
    ("run.continue", ""): (NO_RUN, NOT_PAUSED, "", ENDING, NO_RUN),
    ("checkpoint.save", ""): (NO_RUN, "", "", ENDING, NO_RUN),
    ("service.local_clients", ""): (NO_RUN, "", "", ENDING, NO_RUN),
    ("service.start", "redis"): ("", "", "", "", ""),
    ("service.stop", "redis"): ("", NEEDED, NEEDED, NEEDED, ""),
    ("service.restart", "redis"): ("", "", "", ENDING, ""),
    ("service.start", "trainer"): (None, "", "", ENDING, NO_RUN),
    ("service.stop", "trainer"): (None, "", "", "", NO_RUN),
    ("service.restart", "trainer"): (None, "", "", ENDING, NO_RUN),
    ("clients.pause", "gamer-01"): ("", "", "", "", ""),
    ("clients.forget", "gamer-01"): ("gamer-01 is invited: it could come back at any time.",) * 5,
    ("clients.forget", "client-1"): (None, ONLINE, ONLINE, "", ""),
    ("clients.release", "client-1"): (None, NOT_CUT_OFF, NOT_CUT_OFF, NOT_CUT_OFF, NO_RUN),
    ("clients.purge", "client-1"): (None, "", "", "", NO_RUN),
}


def told(runner: Runner, command: str, about: str) -> str | None:
    """Why the status says that a command would be refused; None while there is nobody it is about."""
    status = runner.status()
    known = {"": status.allowed}
    known |= {one.name: one.allowed for one in status.services}
    known |= {one.id: defaultdict(str, one.allowed) for one in status.clients}
    return known[about][command] if about in known else None


async def check(runner: Runner, state: str) -> None:
    """Compare what is told to be refused in a state with the table, and with what is refused."""
    await until(lambda: runner.status().run.state == state)
    place = STATES.index(state)
    run, clients = runner.status().run.id, {one.id: one.state for one in runner.status().clients}
    for (command, about), reasons in ALLOWED.items():
        reason = reasons[place]
        why = reason and reason.format(run=run, client=about, state=clients.get(about))
        assert told(runner, command, about) == why, (state, command, about)
        if why:
            params: dict[str, Any] = {"count": 1} if command == "service.local_clients" else {}
            if about:
                params["client" if command.startswith("clients.") else "name"] = about
            with pytest.raises(Refused) as refused:
                await call(runner, command, **params)
            assert refused.value.message == why
    if run:
        assert await listed(runner) == {"run.resume": ALLOWED["run.resume", ""][place].format(run=run)}, state


async def listed(runner: Runner) -> dict[str, str]:
    return dict((await call(runner, "runs.list"))["runs"][0]["allowed"])


async def test_what_is_told_to_be_refused_is_refused_in_the_same_words(runner: Runner) -> None:
    await call(runner, "clients.invite.create", client="gamer-01")
    await check(runner, "none")
    follower = runner.feed.follow(None)
    assert Snapshot.read(await anext(follower)) is not None
    begun = await call(runner, "run.start", overrides=ONE_CLIENT)
    run = RunFolder(Path(begun["run_dir"]))
    await until(lambda: {one.id: one.state for one in runner.status().clients}.get("client-1") == "online")
    await check(runner, "running")
    # A window is told with the run what that allows.
    while not told_by(await anext(follower), run.run_id):
        pass
    await call(runner, "run.pause")
    await check(runner, "paused")
    (run.root / "deaf").touch()
    stopping = asyncio.create_task(call(runner, "run.stop"))
    await until(lambda: {one.id: one.state for one in runner.status().clients}["client-1"] == "left")
    await check(runner, "saving")
    (run.root / "deaf").unlink()
    await stopping
    await check(runner, "stopped")
    await call(runner, "clients.revoke", client="gamer-01")
    assert told(runner, "clients.forget", "gamer-01") == ""
    assert "revoked" in (told(runner, "clients.pause", "gamer-01") or "")
    runner.library.write_record(run, runner.library.record(run).model_copy(update={"reached": "env_steps"}))
    reached = await listed(runner)
    with pytest.raises(Refused, match="would end again at once") as refused:
        await call(runner, "run.resume")
    assert reached == {"run.resume": refused.value.message}
    await call(runner, "service.stop", name="redis")
    assert told(runner, "run.start", "") == "Redis is down."
    assert await listed(runner) == {"run.resume": "Redis is down."}


def told_by(text: str, run_id: str) -> bool:
    found = StatusChange.read(text)
    return found is not None and found.type == "status" and run_id in found.allowed.get("run.resume", "")


async def test_a_client_that_does_not_help_can_not_be_paused(idle: ClientRunner) -> None:
    (client,) = idle.status().clients
    assert client.allowed["clients.pause"] == "This computer does not help at present."
    with pytest.raises(Refused, match="does not help"):
        await call(idle, "clients.pause", client=client.id)
