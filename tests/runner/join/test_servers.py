"""The servers that invited this computer: what joining means, going over from one to another, forgetting."""

import asyncio
import signal
import socket
import stat
import sys
from typing import Any

import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.runner.refusal import Refused
from soulsgui.system import free_port, process_identity, stop_signals
from soulsgui.wire.connection import Address
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.server_config import Execution
from tests.faults.waiting import LIMIT_S
from tests.runner.joining import NAME, SECRET, client, comes_to_be, describe_run, invitation_to, service
from tests.runner.running import call, opened, until

pytestmark = pytest.mark.usefixtures("fake_client")


async def test_a_look_tells_what_would_run_or_why_that_is_not_known_and_changes_nothing(
    idle: ClientRunner, invitation: Invitation, redis_client: redis.Redis, redis_address: Address
) -> None:
    async def look(text: str) -> dict[str, Any]:
        return await call(idle, "servers.look", invitation=text)

    seen = await look(invitation.file_text)
    assert (seen["runs"], seen["error"]) == (None, ""), "it has no run"
    game = {"env__num_envs": 3, "client__restart_hook": "toys:start", "client__workers": 2}
    describe_run(redis_client, redis_address.prefix, **game)
    seen = await look(invitation.link)
    assert (seen["runs"]["env_id"], seen["runs"]["restart_hook"]) == ("Toy-v0", "toys:start")
    assert (seen["runs"]["num_envs"], seen["runs"]["workers"]) == (3, 2)
    assert (seen["known"], seen["agreed"]) == (False, False)
    idle.saved.agree(invitation, Execution.model_validate(seen["runs"]).digest, always=False)
    assert (await look(invitation.link))["agreed"] is True
    describe_run(redis_client, redis_address.prefix, **(game | {"client__restart_hook": "os:abort"}))
    assert (await look(invitation.link))["agreed"] is False, "it is another one"
    assert (seen["address"], seen["error"]) == (f"127.0.0.1:{invitation.addresses[1][1]}", "")
    assert seen["server"]["server_name"] == "atelier"
    assert seen["round_trip_s"] > 0
    assert SECRET not in str(seen)
    describe_run(redis_client, redis_address.prefix, client__workers=-3)
    seen = await look(invitation.link)
    assert seen["error"].startswith("The server's configuration can't be used: client.workers = -3: ")
    assert (seen["address"], seen["runs"]) == ("", None)
    port = free_port()
    seen = await look(invitation_to(("127.0.0.1", port)).link)
    assert (seen["address"], seen["error"]) == ("", f"No answer from 127.0.0.1:{port} (connection refused).")
    revoked = invitation.model_copy(update={"secret": "another-secret-of-nobody"})
    seen = await look(revoked.link)
    assert "does not let this computer in" in seen["error"]
    for command in ("servers.look", "servers.join"):
        with pytest.raises(UsageError, match="damaged or cut off"):
            await call(idle, command, invitation="soulsgui://join/abc")
    assert (await call(idle, "servers.list")) == {"chosen": "", "servers": []}
    assert service(idle).state == "stopped"


async def test_who_joins_plays_under_its_invitation_goes_over_to_another_server_and_forgets_the_first(
    idle: ClientRunner, invitation: Invitation, folders: Folders, redis_address: Address
) -> None:
    seen: list[tuple[list[str], list[str]]] = []
    idle.publisher.clients(idle.status().clients)
    push = idle.feed.push
    idle.feed.push = lambda kind, **what: (  # type: ignore[method-assign]
        seen.append(([one.id for one in what.get("changed", [])], what.get("removed", []))),
        push(kind, **what),
    )[1]
    assert idle.status().server.round_trip_s is None
    assert await call(idle, "servers.join", invitation=invitation.link) == {"server_id": "server-1"}
    await comes_to_be(idle, "online")
    await until(lambda: idle.status().server.round_trip_s is not None)
    assert client(idle).id == NAME
    assert idle.status().server.name == "atelier"
    identity = process_identity(service(idle).pid or 0)
    assert NAME in identity["cmdline"]
    await call(idle, "servers.join", invitation=invitation.link)
    assert process_identity(service(idle).pid or 0) == identity, "it plays already"
    listed = await call(idle, "servers.list")
    assert (listed["chosen"], [one["client"] for one in listed["servers"]]) == ("server-1", [NAME])
    assert SavedInvitations(folders).chosen() == invitation
    # A window sees the former client go and the new one come.
    await until(lambda: any(removed == ["this-pc"] for _, removed in seen))
    await until(lambda: any(NAME in changed for changed, _ in seen))

    folders.server.mkdir(parents=True)
    redis_address.write(folders.server_address)
    await call(idle, "servers.choose", server_id="")
    assert process_identity(identity["pid"]) is None
    await comes_to_be(idle, "online")
    assert (client(idle).id, idle.status().server.name) == ("this-pc", "")
    assert SavedInvitations(folders).chosen() is None
    await call(idle, "service.stop", name="client")
    await call(idle, "servers.choose", server_id="server-1")
    await until(lambda: idle.status().server.reachable)
    assert (client(idle).id, service(idle).state) == (NAME, "stopped"), "off before, off after"

    await call(idle, "service.start", name="client")
    await comes_to_be(idle, "online")
    old = service(idle).pid
    await call(idle, "servers.forget", server_id="server-1")
    assert process_identity(old or 0) is None
    assert await call(idle, "servers.list") == {"chosen": "", "servers": []}
    assert not list(folders.servers.iterdir())
    assert service(idle).state == "stopped"
    for command in ("servers.forget", "servers.choose"):
        with pytest.raises(Refused, match="no invitation of a server"):
            await call(idle, command, server_id="server-1")


async def test_an_idle_runner_ends_with_its_window(folders: Folders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("soulsgui.runner.join.app._IDLE_TIMEOUT_S", 0.1)
    async with opened(ClientRunner(folders, NAME, unwatched_limit_s=3600.0, idle=True)) as idle:
        await asyncio.wait_for(idle.closing.wait(), LIMIT_S)


async def test_the_chosen_server_is_forgotten_also_where_the_machine_has_no_name_of_a_client(
    folders: Folders, saved: SavedInvitations, invitation: Invitation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(socket, "gethostname", lambda: "BÜRO-PC")
    saved.keep(invitation)
    saved.choose(invitation)
    async with opened(ClientRunner(folders, NAME, invitation=invitation, idle=True)) as idle:
        await call(idle, "servers.forget", server_id="server-1")
        assert client(idle).id == "BURO-PC"
        assert await call(idle, "servers.list") == {"chosen": "", "servers": []}


async def test_signals_mean_after_the_end_what_they_meant_before(folders: Folders) -> None:
    before = {number: signal.getsignal(number) for number in stop_signals()}
    idle = ClientRunner(folders, NAME, idle=True)
    idle.obey_signals()
    async with opened(idle):
        assert all(signal.getsignal(number) is not one for number, one in before.items())
    assert {number: signal.getsignal(number) for number in stop_signals()} == before


@pytest.fixture
def saved(folders: Folders) -> SavedInvitations:
    return SavedInvitations(folders)


def invited(**changes: str) -> Invitation:
    return invitation_to(("192.168.1.5", 6379), **changes)


def test_each_server_has_one_private_file_under_its_id(folders: Folders, saved: SavedInvitations) -> None:
    for one in (invited(), invited(server_id="server-2"), invited(secret="t" * 43)):
        saved.keep(one)
    files = sorted((folders.config / "servers").iterdir())
    assert [path.name for path in files] == ["server-1.soulsgui", "server-2.soulsgui"]
    assert Invitation.load(files[0]).secret == "t" * 43
    if sys.platform != "win32":
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        assert stat.S_IMODE(files[0].parent.stat().st_mode) == 0o700


@pytest.mark.allow_warnings
def test_the_choice_is_remembered_until_another_is_made_or_it_is_damaged_or_its_invitation_is_not_there(
    folders: Folders, saved: SavedInvitations, caplog: pytest.LogCaptureFixture
) -> None:
    assert saved.chosen() is None
    for one in (invited(server_id="server-2"), invited()):
        path = saved.keep(one)
        saved.choose(one)
        assert SavedInvitations(folders).chosen() == one
    path.write_text("{")
    assert saved.chosen() is None
    path.unlink()
    assert saved.chosen() is None
    damaged, gone = caplog.messages
    assert "is damaged or cut off" in damaged
    assert "There is no invitation in" in gone
    assert all("own server takes its place" in line for line in (damaged, gone))
    saved.keep(invited())
    (folders.client / "joined.json").write_text("[")
    assert saved.chosen() is None
    saved.choose(None)
    assert SavedInvitations(folders).chosen() is None
    assert caplog.messages == [damaged, gone], "no choice is no news"
