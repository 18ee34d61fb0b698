"""The runner of client mode with an invitation: for whom its client plays, and what is said when it can't."""

import asyncio
from pathlib import Path

import pytest
import redis

from soulsgui.cli.main import run
from soulsgui.config.paths import Folders
from soulsgui.runner.join.app import ClientRunner
from soulsgui.runner.join.servers import SavedInvitations
from soulsgui.system import free_port, is_private
from soulsgui.wire.access import user_of
from soulsgui.wire.connection import Address
from soulsgui.wire.control.states import Situation, situation
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.owner import ClientFolder
from tests.faults.waiting import LIMIT_S
from tests.runner.joining import (
    NAME,
    SECRET,
    client,
    comes_to_be,
    invitation_to,
    left_by_a_crash,
    let_in,
    service,
)
from tests.runner.running import opened, until

pytestmark = pytest.mark.usefixtures("fake_client")


@pytest.fixture
def good_address(invitation: Invitation) -> Address:
    return invitation.address(*invitation.addresses[1])


async def test_the_client_plays_for_the_inviting_server_wherever_that_is_found(
    folders: Folders, invitation: Invitation, good_address: Address
) -> None:
    # The server of this machine is another one, and left alone.
    folders.server.mkdir(parents=True)
    Address("127.0.0.1", free_port(), "own").write(folders.server_address)
    async with opened(ClientRunner(folders, NAME, invitation=invitation)) as runner:
        await comes_to_be(runner, "online")
        assert Address.read(runner.folder.server_address) == good_address
        assert is_private(runner.folder.server_address)
        server = runner.status().server
        assert (server.name, server.reachable, server.error) == ("atelier", True, "")
        assert server.url == f"rediss://127.0.0.1:{good_address.port}"
        told = [runner.status().to_json(), *(one.what for one in runner.events.newest(99))]
        assert not [text for text in told if SECRET in text]


@pytest.mark.allow_warnings
async def test_a_reissued_invitation_is_taken_over_and_a_revoked_client_is_shown_so_until_it_is_let_in(
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
    async with opened(ClientRunner(folders, NAME, invitation=invitation)) as runner:
        await comes_to_be(runner, "online")
        newer = invitation.model_copy(update={"secret": "another-secret-for-tests-0123"})
        let_in(redis_client, redis_address.prefix, newer.secret)
        newer.save(tmp_path / "gamer.soulsgui")
        places = ["--config-dir", str(folders.config), "--data-dir", str(folders.data)]
        assert await asyncio.to_thread(run, ["join", str(tmp_path / "gamer.soulsgui"), *places]) == 0
        assert "has taken over the invitation" in capsys.readouterr().out
        await comes_to_be(runner, "online")
        assert Address.read(runner.folder.server_address).password == newer.secret

        redis_client.acl_deluser(user_of(NAME))
        await comes_to_be(runner, "revoked")
        assert "no longer accepts this invitation" in client(runner).error
        assert "Ask its owner for a new one" in client(runner).error
        assert situation(runner.status()) is Situation.REVOKED, "and not as a server that is away"
        let_in(redis_client, redis_address.prefix, newer.secret)
        await comes_to_be(runner, "online")
        for said in ("it is paused", "it was paused already"):
            assert await asyncio.to_thread(run, ["join", "pause", *places]) == 0
            assert capsys.readouterr().out.startswith(said)


@pytest.mark.allow_warnings
async def test_tries_for_a_lost_server_are_told(folders: Folders, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    said = f"No answer from 127.0.0.1:{port} (connection refused)."
    async with opened(ClientRunner(folders, NAME, invitation=invitation_to(("127.0.0.1", port)))) as runner:
        await until(lambda: runner.status().server.error)
        server = runner.status().server
        assert (server.error, server.reachable, server.name) == (said, False, "atelier")
        assert f"{said} It is tried again." in caplog.messages
        assert (service(runner).state, service(runner).pid) == ("starting", None)


async def test_a_client_left_playing_for_another_server_is_ended_not_taken_over(
    folders: Folders, invitation: Invitation, good_address: Address
) -> None:
    left = await left_by_a_crash(folders, Address("127.0.0.1", free_port(), "own"), "run")
    async with opened(ClientRunner(folders, NAME, invitation=invitation)) as runner:
        assert left.wait(LIMIT_S) is not None
        await comes_to_be(runner, "online")
        assert service(runner).pid not in (None, left.pid)
        assert Address.read(runner.folder.server_address) == good_address


async def test_without_an_invitation_no_old_address_is_used(folders: Folders, good_address: Address) -> None:
    here = ClientFolder(folders.client)
    here.root.mkdir(parents=True)
    good_address.write(here.server_address)
    async with opened(ClientRunner(folders, NAME)) as runner:
        assert (service(runner).state, service(runner).pid) == ("starting", None)
        assert not here.server_address.exists()
        assert runner.status().server.name == ""
