import asyncio
import json
from dataclasses import replace

import pytest

from soulsgui.cli.main import run
from soulsgui.config.paths import Folders
from soulsgui.runner.app import Runner
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ClientStatus, ControlFile
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import GATEWAY, Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from tests.faults.waiting import LIMIT_S
from tests.runner.running import (
    address_of,
    call,
    can_ping,
    connected,
    following,
    is_let_in,
    new_runner,
    opened,
    until,
)

KEYS = Keys()


async def invite(runner: Runner, client: str, reissue: bool = False) -> Invitation:
    made = await call(runner, f"clients.invite.{'reissue' if reissue else 'create'}", client=client)
    await way_in(runner)
    invitation = Invitation.parse(made["link"])
    assert invitation == Invitation.parse(made["file_text"])
    assert (made["secret"], made["username"]) == (invitation.secret, f"client.{client}")
    assert made["addresses"] == [list(place) for place in invitation.addresses]
    return invitation


async def way_in(runner: Runner) -> None:
    await until(lambda: runner.supervisor.running(GATEWAY))


def client(runner: Runner, name: str) -> ClientStatus:
    return next(one for one in runner.status().clients if one.id == name)


def beat(invitation: Invitation) -> None:
    said = Heartbeat(client=invitation.client, instance=Instance(host="pc"), counter=1, phase="waiting")
    with connected(address_of(invitation)) as own:
        own.set(KEYS.beat(invitation.client), said.to_json(), ex=EXPIRY_S)


async def test_invited_seen_revoked_forgotten(runner: Runner, capsys: pytest.CaptureFixture[str]) -> None:
    invitation = await invite(runner, "pc")
    assert (client(runner, "pc").state, client(runner, "pc").age_s) == ("joining", None)
    assert client(runner, "pc").invited == invitation.created
    await asyncio.to_thread(beat, invitation)
    await until(lambda: client(runner, "pc").state == "waiting")
    places = ["--config-dir", str(runner.folders.config), "--data-dir", str(runner.folders.data)]
    for said in ("pc: pause requested\n", "pc: it was paused already\n"):
        assert await asyncio.to_thread(run, ["clients", "pause", "pc", *places]) == 0
        assert capsys.readouterr().out == said
        await until(lambda: client(runner, "pc").wish == "pause")
    with pytest.raises(Refused, match="could come back"):
        await call(runner, "clients.forget", client="pc")
    assert await call(runner, "clients.revoke", client="pc") == {"cut_off": True}
    assert client(runner, "pc").state == "revoked"
    assert not await asyncio.to_thread(is_let_in, invitation)
    for command in ("pause", "resume", "drain", "stop"):
        with pytest.raises(Refused, match="revoked"):
            await call(runner, f"clients.{command}", client="pc")
    await runner.server_state.next_turn(LIMIT_S)
    await runner.server_state.next_turn(LIMIT_S)
    assert client(runner, "pc").state == "revoked"
    assert client(runner, "pc").host == "pc"
    await call(runner, "clients.forget", client="pc")
    await until(lambda: [one.id for one in runner.status().clients] == [])
    assert not runner.folders.invited.read_text().count('"pc"')

    await invite(runner, "a")
    await invite(runner, "b")
    await call(runner, "clients.revoke", client="a")
    found = await call(runner, "clients.invite.list")
    assert (found["lan"], found["addresses"]) == (False, [["127.0.0.1", runner.bus.address.port]])
    assert [(one["client"], one["revoked"] is None) for one in found["invitations"]] == [
        ("a", False),
        ("b", True),
    ]
    for command, params, said in (
        ("clients.invite.create", {"client": "b"}, "already invited"),
        ("clients.invite.create", {"client": "client-1"}, "this server uses"),
        ("clients.invite.reissue", {"client": "c"}, "never invited"),
        ("clients.revoke", {"client": "c"}, "never invited"),
        ("clients.forget", {"client": "c"}, "no client"),
    ):
        with pytest.raises(Refused, match=said):
            await call(runner, command, **params)


@pytest.mark.allow_warnings
async def test_who_was_invited_comes_in_later_but_for_a_damaged_list_which_is_an_event(
    folders: Folders, fake_services: None
) -> None:
    async with opened(new_runner(folders)) as runner:
        first, control = await invite(runner, "a"), runner.control
        assert ControlFile.load(folders.server / "control.json") == control
    assert not (folders.server / "control.json").exists(), "nobody is led to a runner that has ended"
    async with opened(new_runner(folders)) as runner:
        assert runner.control.port == control.port
        assert runner.control.token != control.token
        await way_in(runner)
        assert await asyncio.to_thread(is_let_in, first)
        newer = await invite(runner, "a", reissue=True)
        assert (newer.server_id, newer.addresses) == (first.server_id, first.addresses)
    folders.invited.write_bytes(folders.invited.read_bytes()[:-9])
    async with opened(new_runner(folders)) as runner:
        event = next(event for event in runner.events.newest(20) if event.level == "error")
        assert "list of invited clients is lost" in event.what
        assert "clients.damaged-" in event.cause
        assert "soulsgui invite" in event.remedy
        assert await asyncio.to_thread(is_let_in, await invite(runner, "a"))
        assert not await asyncio.to_thread(is_let_in, newer)


async def test_a_secret_is_good_for_its_own_client_and_told_to_nobody_else(runner: Runner) -> None:
    async with following(runner) as heard:
        invitation = await invite(runner, "pc")
        for wrong in (  # the server's own password is none of a client
            replace(address_of(invitation), user=""),
            replace(address_of(invitation), user="", password=runner.bus.address.password),
            replace(address_of(invitation), user="client.other"),
        ):
            assert not await asyncio.to_thread(can_ping, wrong)
        await call(runner, "clients.revoke", client="pc")
        await until(lambda: any('"revoked"' in text for text in heard))
    answers = [await call(runner, "clients.invite.list"), await call(runner, "history.events")]
    told = [*heard, runner.status().to_json(), *(json.dumps(answer) for answer in answers)]
    payload = invitation.link.rpartition("/")[2]
    assert not [text for text in told if invitation.secret in text or payload in text]
