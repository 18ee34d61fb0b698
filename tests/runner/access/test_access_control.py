"""Who is let in, on each server program of this machine: live, after a restart, on private addresses."""

import asyncio
import errno
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
import redis

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import RedisSettings
from soulsgui.runner.access.access_control import AccessControl, LocalClients, local_address_file, user_lines
from soulsgui.runner.access.invitations import Invitations
from soulsgui.runner.events import EventLog
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.redis_server import RedisServer, ensure_server
from soulsgui.system import is_private
from soulsgui.wire.access import secret_hash, user_of
from soulsgui.wire.connection import Address
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import GATEWAY, Keys
from tests.faults.waiting import LIMIT_S
from tests.gateways import running_gateway
from tests.runner.children import until_now
from tests.runner.running import address_of, can_ping, connected, is_let_in, ping
from tests.wire.test_access import ALLOWED, OF_OTHERS, OF_THE_SERVER, OTHER, OWN, OWN_KEYS_MISUSED

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a server runs on Linux and macOS")

KEYS = Keys()
SERVER_ID = "0123abcd"


class House:
    """A server with its access control; the server can be ended and started again."""

    access: AccessControl

    def __init__(self, folder: Path, settings: RedisSettings) -> None:
        self.folders = Folders(folder / "config", folder / "data")
        self.folders.server.mkdir(parents=True)
        users = user_lines(Invitations(self.folders.invited).hashes, settings.prefix)
        self.server = ensure_server(self.folders, settings, users)
        self.bus = Bus(self.server.address)
        self.events = EventLog(self.folders.server / "events.jsonl", lambda event: None)
        self.process = start(self.server)
        self._closing = ExitStack()
        self._closing.enter_context(running_gateway(self.server.address, self.folders.server))

    def restart(self) -> None:
        self.end()
        self.process = start(self.server)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()

    async def new_runner(self) -> None:
        """Another runner takes this server over: it knows what stands in the files alone."""
        invitations = Invitations(self.folders.invited)
        local = LocalClients(self.folders.server, self.server.address)
        self.access = AccessControl(
            self.server, invitations, local, self.bus, self.events, lambda invited: None
        )
        await self.access.look()

    async def invite(self, client: str, reissue: bool = False) -> Invitation:
        return await self.access.invite(client, reissue, SERVER_ID)

    def close(self) -> None:
        self._closing.close()
        self.bus.close()
        self.end()


def start(server: RedisServer) -> "subprocess.Popen[bytes]":
    with (server.data_dir / "log").open("ab") as log:
        process = subprocess.Popen(server.argv, stdout=log, stderr=subprocess.STDOUT)
    until_now(lambda: ping(server.address).ready)
    return process


@pytest.fixture
async def house(tmp_path: Path, settings: RedisSettings) -> AsyncIterator[House]:
    built = House(tmp_path, settings)
    await built.new_runner()
    yield built
    built.close()


def connections_of(house: House, client: str) -> set[str]:
    """The server's numbers of them."""
    with connected(house.server.address) as admin:
        return {one["id"] for one in admin.client_list() if one["user"] == user_of(client)}


def users(house: House) -> set[str]:
    with connected(house.server.address) as admin:
        return {str(user) for user in admin.acl_users()}


async def test_a_revoked_client_is_cut_off_its_chunks_refused_and_others_go_on(house: House) -> None:
    revoked, other = await house.invite("a"), await house.invite("b")
    assert revoked.server_id == SERVER_ID
    assert revoked.addresses == (("127.0.0.1", house.server.address.port),)
    assert revoked.for_this_machine_only
    with connected(address_of(revoked)) as own, connected(address_of(other)) as beside:
        own.xadd(KEYS.chunks("a"), {"c": b"x"})
        with pytest.raises(redis.exceptions.NoPermissionError):
            own.xadd(KEYS.chunks("b"), {"c": b"x"})
        beside.ping()
        of_other = connections_of(house, "b")
        assert await house.access.revoke("a")
        until_now(lambda: not connections_of(house, "a"))
        with pytest.raises(redis.ConnectionError):
            own.xadd(KEYS.chunks("a"), {"c": b"x"})
        with pytest.raises(redis.AuthenticationError):
            own.xadd(KEYS.chunks("a"), {"c": b"x"})
        beside.ping()
        assert connections_of(house, "b") == of_other
        assert [(one.client, one.may_come) for one in house.access.invited] == [("a", False), ("b", True)]
        # A reissue ends the older secret, and who came in with it.
        newer = await house.invite("b", reissue=True)
        until_now(lambda: not connections_of(house, "b"))
    assert [is_let_in(one) for one in (revoked, other, newer)] == [False, False, True]


async def test_rules_that_were_lost_are_issued_again_and_a_subscription_outlives_that(house: House) -> None:
    other = await house.invite("b")
    with connected(address_of(await house.invite("a"))) as own:
        heard = own.pubsub()
        heard.subscribe(KEYS.weights_event)
        assert heard.get_message(timeout=LIMIT_S) is not None
        await house.bus.call(lambda admin: admin.acl_deluser(user_of("b")))
        assert not is_let_in(other)
        house.access.lost()
        await house.access.look()
        assert is_let_in(other)
        await house.bus.call(lambda admin: admin.publish(KEYS.weights_event, "1"))
        message = heard.get_message(timeout=LIMIT_S)
        assert message["data"] == b"1"
        heard.close()


async def test_a_new_runner_makes_an_adopted_server_as_the_list_says(house: House) -> None:
    stays, goes, older = [await house.invite(name) for name in ("a", "b", "d")]
    with connected(address_of(older)) as own:
        own.ping()
        # What the last runner wrote down, and could not tell the server any more.
        Invitations(house.folders.invited).revoke("b")
        late = Invitations(house.folders.invited).invite("c", reissue=False)
        hashed = secret_hash(Invitations(house.folders.invited).invite("d", reissue=True))
        stranger = {"enabled": True, "nopass": True, "keys": ["*"]}
        await house.bus.call(lambda admin: admin.acl_setuser("stranger", **stranger))
        await house.new_runner()
        until_now(lambda: not connections_of(house, "d"))
    found = await house.bus.call(lambda admin: admin.acl_getuser(user_of("d")))
    assert found["passwords"] == [hashed]
    assert users(house) == {"default", *map(user_of, "acd")}
    assert (is_let_in(stays), is_let_in(goes)) == (True, False)
    assert ping(replace(house.server.address, host="127.0.0.1")).ready
    assert is_let_in(stays.model_copy(update={"client": "c", "secret": late}))


@pytest.mark.allow_warnings
async def test_who_is_revoked_while_the_server_is_away_is_out_when_it_comes_back(house: House) -> None:
    invitation = await house.invite("a")
    house.end()
    assert await house.access.revoke("a") is False
    late = await house.invite("b")
    house.process = start(house.server)
    await house.access.look()
    assert (is_let_in(invitation), is_let_in(late)) == (False, True)


async def test_who_is_revoked_on_a_full_disk_is_out(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    await house.new_runner()
    invitation = await house.invite("a")
    with connected(address_of(invitation)) as client:
        client.ping()

    def full(_client: str) -> None:
        raise OSError(errno.ENOSPC, "no room")

    monkeypatch.setattr(house.access.invitations, "revoke", full)
    with pytest.raises(OSError, match="no room"):
        await house.access.revoke("a")
    with connected(address_of(invitation)) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


async def test_commands_at_the_same_time_leave_the_file_and_the_server_the_same(house: House) -> None:
    made = await asyncio.gather(*(house.invite(f"g{number}") for number in range(8)))
    await asyncio.gather(*(house.access.revoke(f"g{number}") for number in range(4)))
    assert [is_let_in(one) for one in made] == [False] * 4 + [True] * 4
    house.restart()  # and before anybody looks
    assert [is_let_in(one) for one in made] == [False] * 4 + [True] * 4


async def test_each_of_its_own_clients_has_its_own_user_with_a_clients_rights_alone(house: House) -> None:
    """R18 for those that the server starts itself, on every server program."""
    await house.access.let_own_in([OWN, OTHER])
    files = [local_address_file(house.folders.server, name) for name in (OWN, OTHER)]
    assert all(is_private(path) for path in files)
    addresses = [Address.read(path) for path in files]
    assert [address.user for address in addresses] == [user_of(OWN), user_of(OTHER)]
    assert len({house.server.address.password, *(address.password for address in addresses)}) == 3

    def give(command: tuple[str, ...]) -> None:
        """Give a command that names keys of another prefix."""
        words = [KEYS.prefix + word.removeprefix("t:") if word.startswith("t:") else word for word in command]
        connection.execute_command(*words)

    with connected(addresses[0]) as connection:
        for command in ALLOWED:
            give(command)
        for command in (*OWN_KEYS_MISUSED, *OF_OTHERS, *OF_THE_SERVER):
            with pytest.raises(redis.ResponseError, match=r"(?i)no permissions|noperm|not allowed"):
                give(command)


async def test_its_own_clients_are_let_in_after_a_restart_and_by_the_next_runner(house: House) -> None:
    await house.access.let_own_in([OWN])
    path = local_address_file(house.folders.server, OWN)
    address = Address.read(path)
    house.restart()
    assert can_ping(address), "its configuration knows them before anybody looks"
    await house.new_runner()
    await house.access.let_own_in([OWN])
    assert Address.read(path) == address
    assert can_ping(address)

    # One that is not its own any more is shut out.
    await house.access.let_own_in([OWN, OTHER])
    former = Address.read(local_address_file(house.folders.server, OTHER))
    await house.access.let_own_in([OWN])
    assert not can_ping(former)
    assert not local_address_file(house.folders.server, OTHER).exists()
    assert users(house) == {"default", user_of(OWN)}

    # A damaged identity is made anew, and all are told where the server is.
    for damage in ("", "{", '{"host": "127.0.0.1"}'):
        path.write_text(damage)
        await house.new_runner()
        await house.access.let_own_in([OWN])
        assert can_ping(Address.read(path))
    before = Address.read(path)
    moved = replace(house.server.address, port=house.server.address.port + 1, pin="0" * 64)
    LocalClients(house.folders.server, moved)
    assert Address.read(path) == replace(before, port=moved.port, pin=moved.pin)


async def test_who_had_an_older_secret_leaves_nothing_behind(house: House) -> None:
    """A last id on each stream would keep whoever comes under the name from saying a word."""
    thief, other = await house.invite("a"), await house.invite("b")
    last = f"{2**64 - 1}-{2**64 - 1}"
    for key in KEYS.streams("a"):  # past the gateway, which would not let it
        await house.bus.call(lambda admin, key=key: admin.xadd(key, {"c": b"x"}, id=last))  # type: ignore[misc]
    with connected(address_of(thief)) as own, connected(address_of(other)) as beside:
        own.set(KEYS.beat("a"), "x")
        own.rpush(KEYS.requests("a"), "x")
        beside.xadd(KEYS.chunks("b"), {"c": b"x"})
        with pytest.raises(redis.ResponseError, match=r"exhausted|equal or smaller"):
            own.xadd(KEYS.chunks("a"), {"c": b"x"})
        newer = await house.invite("a", reissue=True)
        left = await house.bus.call(lambda admin: admin.keys(f"{KEYS.prefix}*"))
        assert set(left) - {KEYS.node(GATEWAY).encode()} == {KEYS.chunks("b").encode()}
        with pytest.raises(redis.RedisError):
            own.xadd(KEYS.chunks("a"), {"c": b"x"})
    with connected(address_of(newer)) as own:
        assert own.xadd(KEYS.chunks("a"), {"hello": b"x"})
        await house.new_runner()
        await house.access.look()
        assert await house.bus.call(lambda admin: admin.xlen(KEYS.chunks("a"))) == 1
