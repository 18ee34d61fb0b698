"""What may be changed about a server while its run goes on, and what it takes."""

import asyncio
import contextlib
import errno
from pathlib import Path
from typing import Any

import pytest

from soulsgui.errors import NotAllowedError, ServiceError
from soulsgui.runner import base
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.services import binding_of
from soulsgui.system import free_port
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.connection import AWAY, Address
from soulsgui.wire.control import ControlFile
from soulsgui.wire.invitation import Invitation
from tests.runner.children import until_now
from tests.runner.running import ONE_CLIENT, call, is_let_in, until


async def invitation(runner: Runner, command: str) -> Invitation:
    return Invitation.parse((await call(runner, f"clients.invite.{command}", client="gamer-01"))["link"])


async def comes_in(invited: Invitation) -> None:
    def let_in() -> bool:
        with contextlib.suppress(*AWAY):
            return is_let_in(invited)
        return False

    await asyncio.to_thread(until_now, let_in)


async def test_the_port_moves_while_the_run_goes_on_and_is_kept(runner: Runner) -> None:
    await call(runner, "run.start")
    before = await invitation(runner, "create")
    await comes_in(before)
    file = runner.folders.server_address
    bound, trainer = binding_of(file), runner.supervisor.pid_of("trainer")
    port = free_port()
    told = await call(runner, "server.set", port=port)
    assert (told["port"], told["reissue"]) == (port, ["gamer-01"])
    assert (Address.read(file).port, runner.access.addresses[0][1]) == (port, port)
    newer = await invitation(runner, "reissue")
    assert newer.addresses[0][1] == port
    await comes_in(newer)
    # What runs goes on, and a later runner takes it over.
    assert runner.supervisor.pid_of("trainer") == trainer
    assert binding_of(file) == bound
    assert f"port: {port}" in runner.folders.overrides.read_text()
    with pytest.raises(ServiceError, match="is taken"):
        await call(runner, "server.set", port=runner.control.port)


async def test_other_computers_are_let_in_and_kept_out(runner: Runner) -> None:
    with pytest.raises(Refused, match="Public addresses only work"):
        await call(runner, "server.set", public="on")
    assert (await call(runner, "server.set", lan="on"))["lan"] is True
    argv = runner.supervisor.spec_of("gateway").argv
    assert argv[-1] == "--lan"
    assert (await call(runner, "clients.invite.list"))["lan"] is True
    assert (await call(runner, "server.set", lan="off"))["lan"] is False
    assert "lan: false" in runner.folders.overrides.read_text()


async def test_changes_that_are_asked_for_at_once_are_made_one_after_another(runner: Runner) -> None:
    await call(runner, "clients.invite.create", client="gamer-01")
    port = free_port()
    asked: list[dict[str, Any]] = [{"lan": "on"}, {"port": port}, {"public": "off"}, {"lan": "on"}]
    await asyncio.gather(
        *(call(runner, "server.set", **one) for one in asked),
        call(runner, "clients.invite.create", client="gamer-02"),
    )
    server, argv = runner.access.server, runner.supervisor.spec_of("gateway").argv
    assert (server.lan, server.address.port, argv[-1]) == (True, port, "--lan")
    assert runner.supervisor.spec_of("gateway").port == port


async def test_an_older_token_ends_at_once(runner: Runner) -> None:
    file = runner.folders.server / CONTROL_FILE
    older = ApiClient(ControlFile.load(file))
    await asyncio.to_thread(older.status)
    await call(runner, "server.set", new_token=True)
    with pytest.raises(NotAllowedError):
        await asyncio.to_thread(older.status)
    await asyncio.to_thread(ApiClient(ControlFile.load(file)).status)


async def test_a_token_that_can_not_be_written_is_not_asked_for(
    runner: Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(path: Path, _data: bytes) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", str(path))

    known = ApiClient(ControlFile.load(runner.folders.server / CONTROL_FILE))
    with monkeypatch.context() as full:
        full.setattr(base, "write_private", fill)
        with pytest.raises(OSError, match="No space"):
            await call(runner, "server.set", new_token=True)
    await asyncio.to_thread(known.status)


async def test_what_takes_the_disk_and_the_memory_is_told(runner: Runner) -> None:
    begun = await call(runner, "run.start", overrides=ONE_CLIENT)
    await until(lambda: runner.roster.beat("client-1") is not None)
    (Path(begun["run_dir"]) / "replay").mkdir()
    (Path(begun["run_dir"]) / "replay" / "obs").write_bytes(b"x" * 1000)
    thrown = runner.folders.trash / "runs" / "one" / "config.json"
    thrown.parent.mkdir(parents=True)
    thrown.write_bytes(b"x" * 2000)
    await until(lambda: runner.server_state.server.memory_bytes > 0)
    told = await call(runner, "server.usage")
    (run,) = told["runs"]
    assert (run["id"], run["bytes"]["memory"]) == (begun["run_id"], 1000)
    assert run["bytes"]["other"] > 0
    assert (told["bin_bytes"], told["server_bytes"] > 0) == (2000, True)
    assert told["memory_bytes"] <= told["memory_limit_bytes"]
    assert [one["stored_bytes"] > 0 for one in told["clients"]] == [True]
