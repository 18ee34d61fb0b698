"""The runner of client mode with an invitation: for whom its client plays, and what is said when it can't."""

import asyncio
import json
import subprocess
from pathlib import Path

import pytest
import redis

from soulsgui.cli.main import run
from soulsgui.config.paths import Folders
from soulsgui.runner.join import player
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.runner.services.processes import Identities
from soulsgui.system import free_port, is_private, process_identity
from soulsgui.wire.access import user_of
from soulsgui.wire.connection import Address
from soulsgui.wire.control.states import Situation, situation
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.owner import ClientFolder, OwnerWish
from tests.faults.waiting import LIMIT_S
from tests.runner.joining import NAME, SECRET, client, invitation_to, let_in, service
from tests.runner.running import until

pytestmark = pytest.mark.usefixtures("fake_client")


def good_address(invitation: Invitation) -> Address:
    return invitation.address(*invitation.addresses[1])


async def test_the_client_plays_for_the_inviting_server_wherever_that_is_found(
    folders: Folders, invitation: Invitation
) -> None:
    # The server of this machine is another one, and left alone.
    folders.server.mkdir(parents=True)
    Address("127.0.0.1", free_port(), "own").write(folders.server_address)
    runner = ClientRunner(folders, NAME, invitation=invitation)
    await runner.open()
    try:
        await until(lambda: client(runner).state == "online")
        assert Address.read(runner.folder.server_address) == good_address(invitation)
        assert is_private(runner.folder.server_address)
        server = runner.status().server
        assert (server.name, server.reachable, server.error) == ("atelier", True, "")
        assert server.url == f"redis://127.0.0.1:{invitation.addresses[1][1]}"
        argv = process_identity(service(runner).pid or 0)
        assert argv is not None
        assert SECRET not in " ".join(argv["cmdline"])
        told = runner.status().to_json() + json.dumps([one.what for one in runner.events.newest(99)])
        assert SECRET not in told
        for log in runner.folder.logs.iterdir():
            assert SECRET not in log.read_text()
    finally:
        await runner.close()


@pytest.mark.allow_warnings
async def test_a_reissued_invitation_is_taken_over_by_what_plays_here_already(
    folders: Folders,
    invitation: Invitation,
    redis_client: redis.Redis,
    redis_address: Address,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    saved = SavedInvitations(folders)
    saved.keep(invitation)
    saved.choose(invitation)
    runner = ClientRunner(folders, NAME, invitation=invitation)
    await runner.open()
    try:
        await until(lambda: client(runner).state == "online")
        newer = invitation.model_copy(update={"secret": "another-secret-for-tests-0123"})
        let_in(redis_client, redis_address.prefix, newer.secret)
        newer.save(tmp_path / "gamer.soulsgui")
        places = ["--config-dir", str(folders.config), "--data-dir", str(folders.data)]
        assert await asyncio.to_thread(run, ["join", str(tmp_path / "gamer.soulsgui"), *places]) == 0
        assert "has taken the invitation over" in capsys.readouterr().out
        await until(lambda: client(runner).state == "online")
        assert Address.read(runner.folder.server_address).password == newer.secret
        for said in ("it is paused", "it was paused already"):
            assert await asyncio.to_thread(run, ["join", "pause", *places]) == 0
            assert capsys.readouterr().out.startswith(said)
    finally:
        await runner.close()


@pytest.mark.allow_warnings
async def test_a_server_that_can_not_be_found_is_said_with_what_was_tried(
    folders: Folders, caplog: pytest.LogCaptureFixture
) -> None:
    port = free_port()
    runner = ClientRunner(folders, NAME, invitation=invitation_to(("127.0.0.1", port)))
    await runner.open()
    try:
        await until(lambda: runner.status().server.error)
        said = f"No answer from 127.0.0.1:{port} (connection refused)."
        server = runner.status().server
        assert (server.error, server.reachable, server.name) == (said, False, "atelier")
        assert f"{said} It is tried again." in [record.getMessage() for record in caplog.records]
        assert (service(runner).state, service(runner).pid) == ("starting", None)
    finally:
        await runner.close()


@pytest.mark.allow_warnings
async def test_a_revoked_client_is_shown_so_and_plays_again_when_it_is_let_in(
    folders: Folders,
    invitation: Invitation,
    redis_client: redis.Redis,
    redis_address: Address,
) -> None:
    runner = ClientRunner(folders, NAME, invitation=invitation)
    await runner.open()
    try:
        await until(lambda: client(runner).state == "online")
        redis_client.acl_deluser(user_of(NAME))
        await until(lambda: client(runner).state == "revoked")
        assert "no longer accepts this invitation" in client(runner).error
        assert "Ask its owner for a new one" in client(runner).error
        assert situation(runner.status()) is Situation.REVOKED, "and not as a server that is away"
        let_in(redis_client, redis_address.prefix)
        await until(lambda: client(runner).state == "online")
    finally:
        await runner.close()


async def test_a_client_left_playing_for_another_server_is_ended_not_taken_over(
    folders: Folders, invitation: Invitation
) -> None:
    here = ClientFolder(folders.client)
    here.root.mkdir(parents=True)
    Address("127.0.0.1", free_port(), "own").write(here.server_address)
    here.wish.write_text(OwnerWish().to_json())
    places = ["--server-file", str(here.server_address), "--state-dir", str(here.root)]
    argv = [*player.own_command("client"), "--name", NAME, *places]
    left = subprocess.Popen(argv, start_new_session=True)
    await until(here.state.exists)
    Identities(folders.client).write("client", argv, left.pid)
    runner = ClientRunner(folders, NAME, invitation=invitation)
    await runner.open()
    try:
        assert left.wait(LIMIT_S) is not None
        await until(lambda: client(runner).state == "online")
        assert service(runner).pid not in (None, left.pid)
        assert Address.read(here.server_address) == good_address(invitation)
    finally:
        await runner.close()


async def test_without_an_invitation_the_address_of_an_older_one_is_not_used(
    folders: Folders, invitation: Invitation
) -> None:
    here = ClientFolder(folders.client)
    here.root.mkdir(parents=True)
    good_address(invitation).write(here.server_address)
    runner = ClientRunner(folders, NAME)
    await runner.open()
    try:
        assert (service(runner).state, service(runner).pid) == ("starting", None)
        assert not here.server_address.exists()
        assert runner.status().server.name == ""
    finally:
        await runner.close()
