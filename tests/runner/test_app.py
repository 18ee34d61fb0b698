import asyncio
import contextlib
import importlib.util
import json
import os
import shutil
import socket
import threading
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import EnvironmentCheckError, SoulsGuiError
from soulsgui.runner import app
from soulsgui.runner.api import client_commands
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run import manager
from soulsgui.runner.run.library import Library
from soulsgui.runner.run.services import RunServices
from soulsgui.runner.run.start import Told
from soulsgui.runner.server import disk_guard
from soulsgui.runner.server.reader import Turn
from soulsgui.runner.server.redis_server import RedisServer, ensure_server
from soulsgui.runner.services.outcome import RestartLimits
from soulsgui.runner.services.service import Health
from soulsgui.runner.services.supervisor import Supervisor
from soulsgui.system import process_identity
from soulsgui.wire.control import COMMANDS, CheckpointInfo, ClientStatus, ErrorCode, ServiceStatus
from soulsgui.wire.keys import TELEMETRY
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.node import Reject, Rejects
from soulsgui.wire.messages.session import (
    LINE_FIELD,
    MOST_PICTURE_BYTES,
    GamePicture,
    Grant,
    SentLine,
    Wish,
)
from tests.faults.waiting import LIMIT_S
from tests.runner.children import kill
from tests.runner.running import ONE_CLIENT, call, fake_probe, following, new_runner, opened, until


def service(runner: Runner, name: str) -> ServiceStatus:
    return next(one for one in runner.status().services if one.name == name)


def service_states(runner: Runner) -> dict[str, str]:
    return {one.name: one.state for one in runner.supervisor.statuses()}


def client_states(runner: Runner) -> dict[str, str]:
    return {client.id: client.state for client in runner.status().clients}


def run_is(runner: Runner, state: str) -> bool:
    return runner.status().run.state == state


async def begun(runner: Runner, **params: Any) -> RunFolder:
    return RunFolder(Path((await call(runner, "run.start", **params))["run_dir"]))


def say(run: RunFolder, file: str = "says", /, **fields: Any) -> None:
    """Let the trainer of a run say this, too, or telemetry its verdict."""
    aside = run.root / f"{file}.tmp"
    aside.write_text(json.dumps(fields))
    aside.replace(run.root / f"{file}.json")


async def test_a_runner_says_who_it_is_keeps_others_out_and_ends_when_asked(runner: Runner) -> None:
    hello = await call(runner, "server.hello")
    assert (hello["role"], hello["server_id"]) == ("server", runner.control.server_id)
    assert hello["data_dir"] == str(runner.folders.data)
    of_client_mode = {name for name in COMMANDS if name.startswith(("servers.", "rules."))}
    assert set(hello["capabilities"]) == set(COMMANDS) - of_client_mode
    with pytest.raises(SoulsGuiError, match=f"process {os.getpid()}"):
        await new_runner(runner.folders).open()

    async def look() -> None:
        runner.memory.words = "memory 52 % full: clients wait"

    runner.memory.look = look  # type: ignore[method-assign]
    await until(lambda: runner.status().server.memory_limit_bytes == runner.settings.redis.max_memory)
    await until(lambda: service(runner, "redis").detail == "memory 52 % full: clients wait")
    with pytest.raises(Refused, match="at once"):  # a server pauses at once or not at all
        await call(runner, "clients.pause", client="somebody", after_episode=True)
    assert await call(runner, "server.shutdown", save=False) == {}
    assert runner.closing.is_set()
    assert not runner.save_at_end


@pytest.mark.allow_warnings
async def test_a_taken_port_or_a_full_disk_is_told_before_anything_starts_with_what_to_do(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SoulsGuiError, match=f"Port {port}"):
            await new_runner(folders, {"control.port": port}).open()
    assert not (folders.server / "control.json").exists()

    def without_room(*arguments: Any) -> RedisServer:
        words = ("sh", "-c", "echo write: No space left on device; exit 1")  # it has said so within the limit
        return replace(ensure_server(*arguments), argv=words)

    monkeypatch.setattr(app, "ensure_server", without_room)
    monkeypatch.setattr(app, "_REDIS_LIMIT_S", 2.0)
    with pytest.raises(SoulsGuiError, match="Redis can't be started: the disk") as refused:
        await new_runner(folders).open()
    assert "Free some space" in refused.value.remedy


@pytest.mark.allow_warnings
async def test_refused_chunks_and_the_log_of_a_client_elsewhere_are_shown_whatever_is_read_next(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert (await call(runner, "clients.rejects"))["rejects"] == []
    keys, names = runner.bus.keys, ("a", "b")
    rejects = [
        Reject(client=name, entry="1-1", reason="shape", time=1.0, size=5, head="ff") for name in names
    ]
    kept = Rejects(run_id="run-1", rejects=rejects).to_json()
    line = SentLine(level="error", text="the game crashed").to_json()

    def write(connection: Any) -> None:
        connection.hset(keys.clients, mapping=dict.fromkeys(names, "{}"))
        connection.set(keys.rejects, kept)
        connection.xadd(keys.log("a"), {LINE_FIELD: line})

    await runner.bus.call(write)
    await until(lambda: "a" in runner.roster)
    assert [one["client"] for one in (await call(runner, "clients.rejects"))["rejects"]] == ["a", "b"]
    (only,) = (await call(runner, "clients.rejects", client="b"))["rejects"]
    assert (only["client"], only["reason"], only["head"]) == ("b", "shape", "ff")
    told = await call(runner, "clients.log", client="a")
    assert (told["whole"], [one["text"] for one in told["lines"]]) == (False, ["the game crashed"])
    for command in ("clients.rejects", "clients.log", "clients.release"):
        with pytest.raises(Refused, match="There is no client “nobody”"):
            await call(runner, command, client="nobody")

    # Watching goes on after a reading that broke.
    broke = asyncio.Event()

    def broken(_look: bool) -> Turn:
        loop.call_soon_threadsafe(broke.set)
        raise ZeroDivisionError

    loop = asyncio.get_running_loop()
    with monkeypatch.context() as patched:
        patched.setattr(runner._reader, "turn", broken)
        await asyncio.wait_for(broke.wait(), LIMIT_S)
        await until(lambda: not runner.supervisor.context.server_up)
    await until(lambda: runner.supervisor.context.server_up)

    # Nobody's signs of life arrive while the server's memory is full.
    before = await runner.bus.call(lambda connection: connection.config_get("maxmemory"))
    await runner.bus.call(lambda connection: connection.config_set("maxmemory", 1))
    await until(lambda: not runner.supervisor.context.server_up)
    await runner.bus.call(lambda connection: connection.config_set("maxmemory", before["maxmemory"]))
    await until(lambda: runner.supervisor.context.server_up)


async def test_what_can_not_begin_is_refused_at_once(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SoulsGuiError, match=r"ppo\.gamma"):
        await call(runner, "run.start", overrides={"ppo.gama": 0.9})
    find = importlib.util.find_spec
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name, *more: None if name == "torch" else find(name, *more)
    )
    with pytest.raises(Refused, match="set up to play only") as refused:
        await call(runner, "run.start")
    assert "python3 packaging/bootstrap.py setup" in refused.value.remedy
    assert (runner.status().run.id, runner.library.folders()) == ("", [])
    assert list(service_states(runner)) == ["redis"]


async def test_an_environment_that_does_not_work_leaves_nothing(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(_settings: object, _told: object) -> dict[str, Any]:
        raise EnvironmentCheckError("It raised in reset.")

    async def never(_services: RunServices) -> None:
        raise AssertionError("a service was started")

    async with opened(new_runner(folders, probe=broken)) as runner:
        # Where it may not fit the algorithm, or is in real time, nobody else starts it meanwhile.
        for overrides in ({}, {"algorithm": "sac"}, {"client.step_seconds": 0.1}):
            with monkeypatch.context() as patched:
                if overrides:
                    patched.setattr(RunServices, "start", never)
                with pytest.raises(EnvironmentCheckError, match=r"^It raised in reset\.$"):
                    await call(runner, "run.start", overrides=overrides)
            assert list(folders.runs.iterdir()) == []
            assert list(service_states(runner)) == ["redis"]
            assert run_is(runner, "none")


async def test_a_run_whose_telemetry_is_late_has_begun(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_time = Supervisor.wait_ready

    async def late(supervisor: Supervisor, name: str, _limit_s: float) -> bool | None:
        return False if name == TELEMETRY else await in_time(supervisor, name, LIMIT_S)

    monkeypatch.setattr(Supervisor, "wait_ready", late)
    async with opened(new_runner(folders)) as runner:
        place = await call(runner, "run.start")
        assert place["run_id"] == runner.status().run.id


async def test_a_slow_check_is_told_of_while_it_goes_on_with_its_end_and_can_be_stopped(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = asyncio.Event()

    async def slow(_settings: object, told: Told) -> dict[str, Any]:
        told("step 3")
        await over.wait()
        raise EnvironmentCheckError("It raised in step 4.")

    checking = "checking the environment: step 3"
    async with opened(new_runner(folders, probe=slow)) as runner:
        with monkeypatch.context() as patched:
            patched.setattr(manager, "OPEN_LIMIT_S", 0.1)
            with pytest.raises(Refused, match="it is still starting") as caught:
                await call(runner, "run.start", name="by hand")
        assert caught.value.code is ErrorCode.NO_ANSWER
        await until(lambda: runner.status().run.detail == checking)
        over.set()
        await until(lambda: run_is(runner, "none"))
        event = runner.events.newest(1)[0]
        assert (event.level, event.what) == ("error", "Run “by hand” could not be started")
        assert event.cause == "It raised in step 4."

        over.clear()
        starting = asyncio.create_task(call(runner, "run.start"))
        await until(lambda: runner.status().run.detail == checking)
        await call(runner, "run.stop")
        with pytest.raises(Refused, match="before it had started"):
            await starting

        asked = []
        for _ in range(3):  # each takes the place of the one before, which is told so
            before = (None, runner.run_manager.session)
            asked.append(asyncio.create_task(call(runner, "run.start", if_active="stop")))
            await until(lambda before=before: runner.run_manager.session not in before)
            await until(lambda: runner.status().run.detail == checking)
        await call(runner, "run.stop")
        answers = await asyncio.gather(*asked, return_exceptions=True)
        assert [str(answer) for answer in answers] == ["The run was stopped before it had started."] * 3
        assert list(service_states(runner)) == ["redis"]
        assert list(folders.runs.iterdir()) == []


async def test_nobody_waits_while_all_runs_are_looked_through(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await begun(runner, name="first")
    looked, folders = list[threading.Thread](), Library.folders

    def noted(library: Library) -> list[RunFolder]:
        looked.append(threading.current_thread())
        return folders(library)

    monkeypatch.setattr(Library, "folders", noted)
    second = await call(runner, "run.start", if_active="stop")
    await call(runner, "run.resume", run="first", if_active="stop")
    await call(runner, "run.stop")
    await call(runner, "run.resume")
    assert runner.run_manager.run == first
    await call(runner, "run.start", if_active="queue")
    await call(runner, "run.stop")
    await until(lambda: runner.run_manager.active is not None)
    await call(runner, "run.stop")
    await call(runner, "runs.trash", run=runner.run_manager.record.id)
    assert looked
    assert threading.main_thread() not in looked
    looked.clear()
    assert runner.status().allowed["run.resume"] == ""
    await call(runner, "runs.show", run=second["run_id"])
    assert looked == [], "what is known by its id is found without a look at the others"


async def test_of_two_that_replace_a_run_at_once_one_is_refused_and_leaves_nothing(runner: Runner) -> None:
    first = await begun(runner)
    with pytest.raises(Refused, match=first.run_id):
        await call(runner, "run.start")
    starts = [call(runner, "run.start", if_active="stop") for _ in range(2)]
    outcomes = await asyncio.gather(*starts, return_exceptions=True)
    (second,) = (one for one in outcomes if isinstance(one, dict))
    (refused,) = (one for one in outcomes if isinstance(one, Refused))
    assert "same moment" in refused.message
    assert {run.run_id for run in runner.library.folders()} == {first.run_id, second["run_id"]}
    assert runner.library.record(first).state == "stopped"
    assert runner.run_manager.run.run_id == second["run_id"]
    await call(runner, "run.resume", run=first.run_id, if_active="stop")
    assert runner.run_manager.run.run_id == first.run_id
    assert runner.library.record(runner.library.find(second["run_id"])).state == "stopped"


async def test_a_run_goes_from_start_to_stop_and_leaves_its_record_logs_and_events(runner: Runner) -> None:
    with_all = ONE_CLIENT | {"evaluation.every_updates": 20}
    run = await begun(runner, name="first try", overrides=with_all | {"seed": 7})
    assert run.run_id.endswith("_first-try")
    assert json.loads(run.config.read_text())["seed"] == 7
    assert json.loads(run.spaces.read_text()) == (await fake_probe(runner.settings, print))["spaces"]
    await until(lambda: run_is(runner, "running") and client_states(runner) == {"client-1": "online"})
    names = ("redis", "trainer", "telemetry", "evaluator", "client-1")
    await until(lambda: service_states(runner) == dict.fromkeys(names, "running"))
    pids = [one.pid for one in runner.supervisor.statuses() if one.name != "redis"]

    saved = (await call(runner, "checkpoint.save", note="so far so good"))["checkpoint"]
    assert (saved["kind"], saved["valid"], saved["note"]) == ("manual", True, "so far so good")
    assert saved in (await call(runner, "checkpoint.list", run=run.run_id))["checkpoints"]
    better = {"run": run.run_id, "path": saved["id"], "note": "better than I thought"}
    edited = (await call(runner, "checkpoint.edit", **better))["checkpoint"]
    assert (edited["note"], edited["valid"]) == ("better than I thought", True)
    renamed = await call(runner, "runs.edit", run=run.run_id, name="new", note="while")
    assert (renamed["name"], renamed["note"]) == ("new", "while")
    assert (await call(runner, "history.query"))["row"] == []
    assert (await call(runner, "history.query", client="nobody", missing_ok=True))["row"] == []
    for params, said in (({"client": "nobody"}, "no client “nobody”"), ({"run": "1999"}, "no run")):
        with pytest.raises(Refused, match=said):
            await call(runner, "history.query", **params)

    assert (await call(runner, "run.stop"))["run_id"] == run.run_id

    assert all(process_identity(pid or 0) is None for pid in pids)
    assert service_states(runner)["redis"] == "running"
    record = runner.library.record(run)
    assert (record.state, record.reached, record.seed) == ("stopped", "stopped", 7)
    assert record.env_steps > 0
    assert record.restarts == dict.fromkeys(names[1:], 0)
    assert run.checkpoint.is_dir()
    await until(lambda: client_states(runner) == {"client-1": "left"})
    await call(runner, "runs.edit", run=run.run_id, note="after")
    listed = (await call(runner, "runs.list"))["runs"][0]
    assert (listed["name"], listed["note"], listed["resumable"]) == ("new", "after", True)
    assert runner.status().run.name == "new"

    logs = await call(runner, "history.logs", service="trainer")
    assert "start of trainer" in logs["lines"][0]["text"]
    assert logs["first"] == 1
    everything = await call(runner, "history.logs")
    assert {"trainer", "telemetry", "redis"} <= {line["service"] for line in everything["lines"]}
    with pytest.raises(Refused, match="no log"):
        await call(runner, "history.logs", service="oven")
    of_client = await call(runner, "clients.log", client="client-1")
    assert of_client["whole"] is True
    assert "start of client-1" in of_client["lines"][0]["text"]
    events = (await call(runner, "history.events"))["events"]
    assert [event["number"] for event in events] == list(range(1, len(events) + 1))
    assert "was started" in events[0]["what"]
    assert "was stopped" in events[-1]["what"]
    assert (await call(runner, "history.events", since=events[-1]["number"]))["events"] == []


async def test_what_nodes_and_clients_say_is_told_once_and_shown(runner: Runner) -> None:
    run = await begun(runner)

    def told(before: int = 0) -> list[tuple[str, str]]:
        events = runner.events.since(before)
        assert {event.run_id for event in events} <= {run.run_id}
        return [(event.level, event.what) for event in events]

    before = runner.events.last_number
    say(run, trouble="The round is waiting for b (paused)")
    await until(lambda: told(before))
    say(run)
    await until(lambda: len(told(before)) > 1)
    assert told(before) == [
        ("warning", "The round is waiting for b (paused)"),
        ("info", "The run is no longer waiting."),
    ]

    words = "The training diverged at update 3: loss is nan. It continues from update 2 (restore 1 of 3)"
    say(run, diverged=words, learner_waits=0.38, clients_wait=0.0)
    await until(lambda: ("error", words) in told())
    await until(lambda: service(runner, "trainer").detail == "waits for samples 38 %")
    assert (runner.status().run.learner_waits, runner.status().run.clients_wait) == (0.38, 0.0)
    say(run)
    await until(lambda: ("info", "The training has passed the point where it diverged") in told())

    before, names = runner.events.last_number, ["a", "b", "c", "d", "e"]
    news = iter([(["gamer-01"], []), (names, ["gamer-01"])])
    runner.roster.news_of_lost = lambda now: next(news, ([], []))  # type: ignore[method-assign]
    await until(lambda: len(told(before)) >= 3)
    assert told(before) == [
        ("warning", "gamer-01 is lost."),
        ("warning", "a, b, c and 2 more are lost."),
        ("info", "gamer-01 is back."),
    ]

    before, counts = runner.events.last_number, {"a": 3, "b": 2}
    failing = [ClientStatus(id=one, name=one, env_restarts=often) for one, often in counts.items()]
    for _ in range(2):
        runner._tell_of_failing(failing)
    assert told(before) == [("warning", "a is making the environment again and again: it fails.")]

    asked: list[str] = []
    ask = runner.bus.ask

    async def listen(node: str, command: Any, timeout_s: float) -> Any:
        asked.append(command.args.get("kind", command.command))
        return await ask(node, command, timeout_s)

    runner.bus.ask = listen  # type: ignore[method-assign]
    say(run, "verdict", best_model_id=-1, best_score=1.0)  # a model that is gone is asked for once
    await until(lambda: asked)
    await call(runner, "run.stop")
    assert asked.count("best") == 1
    assert runner.status().run.learner_waits is None


async def test_a_paused_run_rests_until_it_is_told_to_go_on(runner: Runner) -> None:
    run = await begun(runner)
    for _ in range(2):  # said twice, it is one pause
        assert await call(runner, "run.pause") == {"done": True}
    await until(lambda: run_is(runner, "paused"))
    assert runner.status().run.detail == "by request"
    assert runner.status().run.env_steps_per_s == 0, "though its trainer's last word was 100"
    assert runner.status().run.wished_pause
    assert run.paused.exists()  # a trainer that is started meanwhile rests, too
    assert await call(runner, "run.continue") == {"done": True}
    await until(lambda: run_is(runner, "running") and runner.status().run.env_steps_per_s == 100)
    told = [event.what.partition(run.run_id)[2] for event in runner.events.since(0)]
    assert [words for words in told if "pause" in words] == [" was paused", " continues after a pause"]
    await call(runner, "run.pause")
    await call(runner, "run.stop")
    assert not runner.status().run.wished_pause
    assert not run.paused.exists()  # what is resumed goes on


async def test_a_run_is_saved_and_rests_while_the_disk_is_nearly_full(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = [50 * 10**9]
    monkeypatch.setattr(app, "free_disk_bytes", lambda _: free[0])
    monkeypatch.setattr(app, "_DISK_EVERY_S", 0.05)
    monkeypatch.setattr(disk_guard, "_WAIT_S", 3.0)  # longer than a busy machine looks away
    monkeypatch.setattr(disk_guard, "_ANSWER_S", LIMIT_S)
    async with opened(new_runner(folders)) as runner:
        run = await begun(runner)
        await until(lambda: run_is(runner, "running"))
        assert not run.checkpoint.exists()
        free[0] = 2 * 10**9
        await until(lambda: "2.0 GB are free" in runner.events.newest(1)[0].what)
        assert run_is(runner, "running")
        free[0] = 10**8
        await until(lambda: run_is(runner, "paused"))
        assert runner.status().run.detail == "the disk is nearly full: 100.0 MB are free"
        await until(lambda: run.checkpoint.exists())
        await until(lambda: "is saved and rests" in runner.events.newest(1)[0].what)
        free[0] = 50 * 10**9
        await until(lambda: run_is(runner, "running"))
        assert runner.events.newest(1)[0].what.startswith("There is enough space again")


async def test_a_server_that_refuses_a_row_of_what_is_used_is_told_in_a_line(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(app, "_RESOURCES_LOOK_S", 0.05)
    monkeypatch.setattr(app, "STREAM_LENGTH", -1)  # no server takes that
    async with opened(new_runner(folders)) as runner:
        await begun(runner, overrides={"telemetry.resources_every_s": 0.01})
        told = ("is not on the curves: ", "resources broke off")
        await until(lambda: any(words in caplog.text for words in told))
        assert told[1] not in caplog.text


async def test_jobs_are_listed_and_a_checkpoint_is_pinned_thrown_away_and_put_back(runner: Runner) -> None:
    run = await begun(runner)
    await until(lambda: run_is(runner, "running"))
    saved = (await call(runner, "checkpoint.save", note="mine"))["checkpoint"]
    job = await call(runner, "checkpoint.verify")
    await until(lambda: runner.jobs.get(job["id"]).state == "done")
    (listed, *_) = (await call(runner, "job.list"))["jobs"]
    assert [info["id"] for info in listed["result"]["checkpoints"]] == [saved["id"]]
    assert (await call(runner, "job.cancel", job=job["id"]))["job"]["state"] == "done"
    pinned = await call(runner, "checkpoint.edit", path=saved["id"], pin=True)
    assert (pinned["checkpoint"]["pinned"], pinned["checkpoint"]["note"]) == (True, "mine")
    with pytest.raises(Refused, match="is pinned"):
        await call(runner, "checkpoint.trash", path=saved["id"])
    await call(runner, "checkpoint.edit", path=saved["id"], pin=False)
    await call(runner, "checkpoint.trash", path=saved["id"])
    trashed = await call(runner, "checkpoint.list", trashed=True)
    assert [info["id"] for info in trashed["checkpoints"]] == [saved["id"]]
    assert (await call(runner, "checkpoint.restore", path=saved["id"]))["checkpoint"]["valid"]
    await call(runner, "checkpoint.trash", path=saved["id"])
    assert (await call(runner, "checkpoint.purge"))["freed_bytes"] >= saved["size_bytes"]
    with pytest.raises(Refused, match="is active"):
        await call(runner, "runs.trash", run=run.run_id)
    await call(runner, "run.stop")
    shown = await call(runner, "runs.show")
    assert shown["settings"]["env.id"] == shown["run"]["env_id"] == "CartPole-v1"
    await call(runner, "runs.edit", run="latest", name="kept", pin=True)
    assert (await call(runner, "runs.list"))["runs"][0]["pinned"]
    await call(runner, "runs.edit", run="kept", pin=False)
    assert (await call(runner, "runs.trash", run="kept"))["id"] == run.run_id
    assert runner.status().run.id == ""
    assert (await call(runner, "runs.list", trashed=True))["runs"][0]["name"] == "kept"
    copy = shutil.copytree(runner.bin.runs.root / run.run_id, f"{run.root}-2")
    with pytest.raises(Refused, match="There is no run"):  # that was it, and no beginning of another
        await call(runner, "runs.trash", run=run.run_id)
    assert (await call(runner, "runs.restore", run=run.run_id))["id"] == run.run_id
    shutil.move(copy, runner.bin.runs.root)
    with pytest.raises(Refused, match="runs list --trashed"):
        await call(runner, "runs.purge", run=run.run_id)


async def test_the_status_tells_of_the_newest_run_of_the_library(runner: Runner) -> None:
    runs = []
    for _ in range(2):
        runs.append((await begun(runner)).run_id)
        await call(runner, "run.stop")
    for number, command in ((1, "trash"), (0, "trash"), (0, "restore"), (1, "restore")):
        await call(runner, f"runs.{command}", run=runs[number])
        told = runner.status().run.id
        assert told == {"trash": ["", runs[0]], "restore": runs}[command][number]


async def test_what_is_being_purged_is_not_put_back(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    run = await begun(runner)
    await call(runner, "run.stop")
    await call(runner, "runs.trash", run=run.run_id)
    purging, go_on, remove = threading.Event(), threading.Event(), runner.bin._remove

    def slowly(folders: Sequence[Path]) -> int:
        purging.set()
        go_on.wait(LIMIT_S)
        return remove(folders)

    monkeypatch.setattr(runner.bin, "_remove", slowly)
    purge = asyncio.create_task(call(runner, "runs.purge"))
    await asyncio.to_thread(purging.wait, LIMIT_S)
    restore = asyncio.create_task(call(runner, "runs.restore", run=run.run_id))
    await asyncio.wait({restore}, timeout=0.2)
    go_on.set()
    await purge
    with pytest.raises(Refused, match="There is no run"):
        await restore
    assert not run.root.exists()


async def test_a_run_that_is_thrown_away_while_one_of_its_checkpoints_is_leaves_nothing(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = await begun(runner)
    await until(lambda: run_is(runner, "running"))
    saved = (await call(runner, "checkpoint.save"))["checkpoint"]
    await call(runner, "run.stop")
    reading, go_on, get = threading.Event(), threading.Event(), runner.library.checkpoints.get

    def slowly(run: RunFolder, checkpoint: str) -> CheckpointInfo:
        found = get(run, checkpoint)
        reading.set()
        go_on.wait(LIMIT_S)
        return found

    monkeypatch.setattr(runner.library.checkpoints, "get", slowly)
    params = {"run": run.run_id, "path": saved["id"]}
    checkpoint = asyncio.create_task(call(runner, "checkpoint.trash", **params))
    await asyncio.to_thread(reading.wait, LIMIT_S)
    thrown = asyncio.create_task(call(runner, "runs.trash", run=run.run_id))
    await asyncio.wait({thrown}, timeout=0.2)
    go_on.set()
    await asyncio.gather(checkpoint, thrown, return_exceptions=True)
    assert not run.root.exists()


async def test_services_are_stopped_and_started_but_not_beyond_the_end_of_the_run(runner: Runner) -> None:
    await begun(runner)
    pid = runner.supervisor.pid_of("telemetry")
    async with following(runner) as told:
        await call(runner, "service.restart", name="telemetry")
        await until(lambda: any("start of telemetry" in text for text in told if '"log"' in text))
    assert runner.supervisor.pid_of("telemetry") not in (None, pid)
    await call(runner, "service.stop", name="trainer")
    await until(lambda: runner.status().run.detail == "the trainer is stopped")
    assert runner.status().run.env_steps_per_s == 0
    await call(runner, "service.start", name="trainer")
    await until(lambda: run_is(runner, "running"))
    with pytest.raises(Refused, match="no service"):
        await call(runner, "service.stop", name="oven")
    restarting = asyncio.create_task(call(runner, "service.restart", name="trainer"))
    await until(lambda: service_states(runner)["trainer"] == "starting")
    await call(runner, "service.stop", name="trainer")
    with pytest.raises(Refused, match="trainer was stopped or restarted meanwhile"):
        await restarting
    await call(runner, "service.start", name="trainer")
    restarting = asyncio.create_task(call(runner, "service.restart", name="trainer"))
    await until(lambda: service_states(runner)["trainer"] == "stopping")
    stopping = asyncio.create_task(call(runner, "run.stop"))
    async with asyncio.timeout(LIMIT_S):
        await stopping
        with pytest.raises(SoulsGuiError):
            await restarting
    assert service_states(runner)["trainer"] == "stopped"


@pytest.mark.allow_warnings
async def test_a_run_outlives_its_trainer_and_its_server(runner: Runner) -> None:
    run = await begun(runner, name="lunar 2", overrides=ONE_CLIENT)
    await until(lambda: run_is(runner, "running"))
    kill(service(runner, "trainer").pid)
    await until(lambda: run_is(runner, "starting"))
    await until(lambda: run_is(runner, "running") and service(runner, "trainer").restarts == 1)

    def told() -> list[str]:
        return [event.what for event in runner.events.since(0) if event.run_id == run.run_id]

    kill(service(runner, "redis").pid)
    # The stand-ins don't come back by themselves; the runner starts them again.
    await until(lambda: "redis runs again" in told() and service(runner, "trainer").restarts > 1)
    await until(lambda: run_is(runner, "running") and client_states(runner).get("client-1") == "online")
    assert told()[0] == "Run “lunar 2” was started"
    assert "redis ended unexpectedly" in told()
    await call(runner, "service.restart", name="redis")
    # What the stand-in of a trainer learned is lost with the server.
    with contextlib.suppress(Refused):
        await call(runner, "run.stop")
    assert told()[-1] == "Run “lunar 2” was stopped"
    assert runner.run_manager.record.restarts["trainer"] > 1


@pytest.mark.allow_warnings
async def test_full_disk_makes_the_run_wait_and_an_end_that_can_not_be_written_down_is_an_end(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    await begun(runner, name="before")
    await until(lambda: run_is(runner, "running"))
    health = Health(ready=True, disk_full=True)
    monkeypatch.setattr(runner._pinger, "health", lambda: health)
    await until(lambda: runner.status().run.detail == "disk full")
    assert not runner.supervisor.context.server_up
    health = Health(ready=True)
    await until(lambda: run_is(runner, "running"))
    assert runner.supervisor.context.server_up
    told = [event for event in runner.events.newest(9) if event.service == "redis"]
    assert [event.level for event in told] == ["error", "info"]
    assert told[0].remedy == "Free some space; training continues by itself."

    def broken(*_: object) -> None:
        raise ValueError("can't be encoded")

    monkeypatch.setattr(runner.library, "write_record", broken)
    monkeypatch.setattr(manager, "remember_active", broken)
    with pytest.raises(ValueError, match="encoded"):
        await call(runner, "runs.edit", run="latest", name="after")
    assert runner.status().run.name == "before"
    async with asyncio.timeout(LIMIT_S):
        await call(runner, "run.stop")
    assert runner.run_manager.over.is_set()


async def test_local_clients_do_as_they_are_told(runner: Runner) -> None:
    await begun(runner, overrides=ONE_CLIENT)
    assert await call(runner, "service.local_clients", count=3) == {"count": 3}
    names = {f"client-{number}" for number in (1, 2, 3)}
    await until(lambda: client_states(runner) == dict.fromkeys(names, "online"))
    await call(runner, "service.local_clients", count=1)
    await until(lambda: client_states(runner) == {"client-1": "online"})
    assert "client-3" not in service_states(runner)

    def client() -> Any:
        return runner.status().clients[0]

    await call(runner, "clients.pause", client="client-1")
    await until(lambda: client().state == "paused")
    assert client().wish == "pause"
    await call(runner, "clients.resume", client="client-1")
    await until(lambda: client().state == "online")
    await call(runner, "clients.stop", client="client-1")
    assert service_states(runner)["client-1"] == "stopped"
    await call(runner, "clients.resume", client="client-1")
    await until(lambda: client().state == "online")
    await call(runner, "clients.drain", client="client-1")
    await until(lambda: client().state == "left" and service_states(runner)["client-1"] == "stopped")
    await until(lambda: client().wish == "run")
    await call(runner, "clients.forget", client="client-1")
    await until(lambda: client_states(runner) == {})
    with pytest.raises(Refused, match="no client"):
        await call(runner, "clients.pause", client="client-1")


async def test_client_that_is_released_or_resumed_while_it_leaves_plays_again(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_commands, "_HEAR_LIMIT_S", LIMIT_S)  # who is only slow does answer
    await begun(runner, overrides=ONE_CLIENT)
    await until(lambda: client_states(runner) == {"client-1": "online"})
    with pytest.raises(Refused, match="client-1 is online"):
        await call(runner, "clients.release", client="client-1")
    keys, beat = runner.bus.keys, runner.roster.beat("client-1")
    grant = Grant(session=beat.session, status="quarantined", reason="NaN")
    await runner.bus.call(lambda connection: connection.set(keys.grant("client-1"), grant.to_json()))
    await until(lambda: client_states(runner) == {"client-1": "quarantined"})
    assert await call(runner, "clients.release", client="client-1") == {}  # the trainer has answered
    await runner.bus.call(lambda connection: connection.delete(keys.grant("client-1")))
    for delay_s in (0.0, 0.1, 0.3, 0.6):  # another moment of its way out each time
        await call(runner, "clients.drain", client="client-1")
        await asyncio.sleep(delay_s)
        await call(runner, "clients.resume", client="client-1")
        pid = runner.supervisor.pid_of("client-1")
        assert pid is not None
        await until(lambda: client_states(runner) == {"client-1": "online"})
        assert runner.supervisor.pid_of("client-1") == pid, "the one that was there when the command ended"


async def test_a_run_ends_at_its_steps_by_telemetrys_verdict_or_as_its_trainer_wishes(runner: Runner) -> None:
    await begun(runner, overrides={"stop.env_steps": 300})
    assert "evaluator" not in service_states(runner)
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    record = runner.run_manager.record
    assert (record.state, record.reached) == ("finished", "env_steps")
    assert record.env_steps >= 300
    assert (await call(runner, "runs.list"))["runs"][0]["state"] == "finished"

    run = await begun(runner)
    say(run, "verdict", best_model_id=5, best_score=1.5)
    await until(run.best_model.is_dir)
    say(run, "verdict", best_model_id=9, best_score=2.5, reached=True)
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    assert runner.run_manager.record.reached == "mean_return"
    best = next(info for info in runner.library.checkpoints.list(run) if info.kind == "best")
    assert (best.model_id, best.score) == (9, 2.5)

    run = await begun(runner)
    await runner.bus.call(lambda connection: connection.set(runner.bus.keys.config, "a run"))
    reason = "The round lost b (paused) (ppo.lost_member: stop)"
    say(run, stop_reason=reason)
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    record = runner.run_manager.record
    assert (record.state, record.reached, record.error) == ("stopped", "stopped", reason)
    assert run.checkpoint.is_dir(), "saved, as at every stop"
    last = runner.events.newest(1)[0]
    assert (last.level, last.what, last.cause) == ("warning", f"Run {run.run_id} was stopped", reason)
    # Clients that live on elsewhere are told that no run is active.
    assert not await runner.bus.call(lambda connection: connection.exists(runner.bus.keys.config))


async def test_damage_of_a_checkpoint_is_found_within_a_day_also_where_nothing_tells_that_its_file_changed(
    folders: Folders, fake_services: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_VERIFY_FIRST_S", 0.2)
    monkeypatch.setattr(app, "_VERIFY_EVERY_S", 0.2)
    async with opened(new_runner(folders)) as runner:
        run = await begun(runner)
        await until(lambda: runner.status().run.env_steps > 0)
        saved = (await call(runner, "checkpoint.save"))["checkpoint"]["id"]
        assert runner.library.checkpoints.get(run, saved).valid
        path = run.root / saved / "weights.safetensors"
        before, data = path.stat(), bytearray(path.read_bytes())
        data[-1] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        def told() -> bool:
            words = f"The checkpoint {saved} of {run.run_id} is damaged"
            return any(words in event.what for event in runner.events.since(0))

        await until(told)


@pytest.mark.allow_warnings
async def test_resume_goes_on_with_the_same_folder_and_with_other_values_once_it_begins(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def services_that_fail(_services: RunServices) -> None:
        raise SoulsGuiError("no program")

    run = await begun(runner)
    await until(lambda: runner.status().run.env_steps > 0)
    saved, damaged = [(await call(runner, "checkpoint.save"))["checkpoint"]["id"] for _ in range(2)]
    await call(runner, "run.stop")
    seconds, before = runner.run_manager.record.seconds, run.config.read_bytes()
    (run.root / damaged / "weights.safetensors").write_bytes(b"?" * 64)
    overrides = ONE_CLIENT | {"stop.env_steps": 10**9}
    for params, said in (
        ({"overrides": {"ppo.gamma": 0.5}}, r"ppo\.gamma"),
        ({"checkpoint": damaged}, "damaged"),
        ({"checkpoint": "manual_save/../../elsewhere"}, "no checkpoint"),
        ({"overrides": overrides}, "no program"),
    ):
        with monkeypatch.context() as broken:
            broken.setattr(RunServices, "start", services_that_fail)
            with pytest.raises(SoulsGuiError, match=said):
                await call(runner, "run.resume", **params)
        assert (run.config.read_bytes(), runner.run_manager.run) == (before, None)

    run.spaces.write_bytes(b"{torn")  # probed again
    resumed = await call(runner, "run.resume", checkpoint=saved, overrides=overrides)
    assert (resumed["run_id"], resumed["run_dir"]) == (run.run_id, str(run.root))
    assert json.loads(run.spaces.read_text()) == (await fake_probe(runner.settings, print))["spaces"]
    await until(lambda: run_is(runner, "running"))
    assert runner.status().run.seconds > seconds
    assert runner.status().run.goal_env_steps == 10**9
    assert runner.library.settings(run).clients.local == 1
    assert "client-1" in service_states(runner)
    told = (await call(runner, "history.events"))["events"][-1]["what"]
    changes = "stop.env_steps = 1000000000 (was none), clients.local = 1 (was 0)"
    assert told == f"Run {run.run_id} was resumed from {saved} with {changes}"
    # The trainer has saved nothing yet: started again, it must begin from the same one.
    assert run.chosen == run.root / saved
    with pytest.raises(Refused, match="about to continue"):
        await call(runner, "checkpoint.trash", path=saved)
    await call(runner, "checkpoint.save")
    await until(lambda: run.chosen is None)


@pytest.mark.allow_warnings
async def test_trainer_that_only_crashes_fails_a_run(runner: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runner.supervisor.context.limits = RestartLimits(first_delay_s=0.01, max_failures=2)
    create = runner.library.create

    def doomed(name: str, wall_time: float) -> RunFolder:
        run = create(name, wall_time)
        (run.root / "crash").touch()
        return run

    with monkeypatch.context() as patched:
        patched.setattr(runner.library, "create", doomed)
        with pytest.raises(Refused, match="fake: crash"):
            await call(runner, "run.start")
    await asyncio.wait_for(runner.run_manager.over.wait(), LIMIT_S)
    assert (runner.run_manager.record.state, runner.run_manager.record.reached) == ("failed", "failed")
    assert "exit 1" in runner.run_manager.record.error
    assert service_states(runner)["telemetry"] == "stopped"
    # What failed before is not held against the next one.
    await begun(runner)
    await until(lambda: run_is(runner, "running"))


async def test_a_game_is_looked_at_where_its_client_shows_it(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = runner.bus.keys
    wish = Wish(command_id="x", state="pause")

    def beat(shown: bool, counter: int) -> str:
        told = Heartbeat(client="a", instance=Instance(), counter=counter, phase="sampling", shown=shown)
        return told.to_json()

    def come(connection: Any) -> None:
        connection.hset(keys.clients, mapping={"a": "{}"})
        connection.set(keys.beat("a"), beat(False, 1), ex=EXPIRY_S)
        connection.set(keys.wish("a"), wish.to_json())

    await runner.bus.call(come)
    await until(lambda: runner.roster.beat("a") is not None)
    with pytest.raises(Refused, match="does not show its game") as refused:
        await call(runner, "clients.look", client="a")
    assert "Its owner allows it" in refused.value.remedy
    await runner.bus.call(lambda connection: connection.set(keys.beat("a"), beat(True, 2), ex=EXPIRY_S))
    await until(lambda: runner.roster.beat("a").shown)
    monkeypatch.setattr(client_commands, "_PICTURE_LIMIT_S", 0.2)
    old = GamePicture(look=1, width=1, height=1, rgb="AAAA")
    for left in (old.to_json(), "x" * 2 * MOST_PICTURE_BYTES):
        await runner.bus.call(lambda connection, left=left: connection.set(keys.picture("a"), left))
        with pytest.raises(Refused, match="No picture of a came"):
            await call(runner, "clients.look", client="a")
    monkeypatch.setattr(client_commands, "_PICTURE_LIMIT_S", LIMIT_S)
    asked = asyncio.create_task(call(runner, "clients.look", client="a"))

    def answer(connection: Any) -> bool:
        found = Wish.read(connection.get(keys.wish("a")))
        assert (found.command_id, found.state) == ("x", "pause"), "what it is wanted to do stays"
        connection.set(keys.picture("a"), old.model_copy(update={"look": found.look}).to_json())
        return True

    while not asked.done():
        await runner.bus.call(answer)
        await asyncio.sleep(0)
    assert (await asked)["rgb"] == "AAAA"
