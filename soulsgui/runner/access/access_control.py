"""Access rules of the server: for its next start, and in the running one."""

import asyncio
import contextlib
import logging
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import redis

from soulsgui.errors import UsageError
from soulsgui.runner.access.invitations import Invitations, Invited
from soulsgui.runner.events import EventLog
from soulsgui.runner.server.addresses import told_addresses
from soulsgui.runner.server.bus import Bus
from soulsgui.runner.server.redis_server import REDIS, RedisServer
from soulsgui.system import is_private, make_private
from soulsgui.wire.access import client_of_user, secret_hash, user_line, user_of, user_words
from soulsgui.wire.connection import AWAY, Address
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import Keys, check_client_name, is_client_name

logger = logging.getLogger(__name__)

_DEFAULT_USER = "default"


def user_lines(hashes: Mapping[str, str], prefix: str) -> list[str]:
    """Return the lines of the server's configuration that let clients in, by the hashes of their secrets."""
    return [user_line(client, prefix, hashed) for client, hashed in hashes.items()]


@dataclass(frozen=True)
class Order:
    """The access rules that the running server is to have."""

    hashes: Mapping[str, str]  # The hash of the secret of each client it should let in
    prefix: str  # Of the keys
    # Clients that were invited anew: whoever had the older secret leaves nothing behind under their names.
    anew: frozenset[str] = frozenset()
    alone: bool = True  # Whether the server is ours alone: nobody else has a user there

    def obtain(self, connection: redis.Redis) -> None:
        """Apply it; clients that keep their secret stay."""
        known = [_text(line).split() for line in connection.acl_list()]
        secrets_of = {user_of(client): hashed for client, hashed in self.hashes.items()}
        pipeline = connection.pipeline(transaction=True)
        for _, user, *said in known:
            # Deleting alone ends connections that came in with another secret.
            ours = self.alone or client_of_user(user)
            if user != _DEFAULT_USER and ours and f"#{secrets_of.get(user)}" not in said:
                pipeline.acl_deluser(user)
        keys = Keys(self.prefix)
        if left := [key for client in self.anew for key in keys.of_client(client)]:
            pipeline.unlink(*left)
        for client, hashed in self.hashes.items():
            words = user_words(client, self.prefix, hashed)
            pipeline.execute_command("ACL", "SETUSER", user_of(client), *words)  # type: ignore[no-untyped-call]
        pipeline.execute()


def _text(line: bytes | str) -> str:
    return line.decode(errors="replace") if isinstance(line, bytes) else line


_SECRET_BYTES = 32


def local_address_file(server_dir: Path, client: str) -> Path:
    """Return the file with the address and the secret of one client that this server starts itself."""
    return server_dir / "local" / f"{check_client_name(client)}.json"


class LocalClients:
    """The clients this server starts itself, in memory and in files; those of before may still play."""

    def __init__(self, server_dir: Path, address: Address) -> None:
        self._server_dir = server_dir
        self._address = address
        self._secrets: dict[str, str] = {}
        for path in sorted(server_dir.glob("local/*.json")):
            with contextlib.suppress(UsageError):
                if is_client_name(path.stem) and is_private(path):
                    self._take(path.stem, Address.read(path))

    def keep(self, clients: Iterable[str]) -> bool:
        """Have identities for these clients, and for no others. Returns whether that changed anything."""
        wanted = set(clients)
        missing, surplus = wanted - set(self._secrets), set(self._secrets) - wanted
        for client in sorted(missing):
            self._write(client, secrets.token_urlsafe(_SECRET_BYTES))
        for client in surplus:
            local_address_file(self._server_dir, client).unlink(missing_ok=True)
            del self._secrets[client]
        return bool(missing or surplus)

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the secret of each of them."""
        return {client: secret_hash(secret) for client, secret in self._secrets.items()}

    def _take(self, client: str, found: Address) -> None:
        if found == self._of(client, found.password):
            self._secrets[client] = found.password
        elif found.user == user_of(client) and found.password:
            # The server has another port now, or another certificate.
            self._write(client, found.password)

    def _write(self, client: str, secret: str) -> None:
        path = local_address_file(self._server_dir, client)
        path.parent.mkdir(exist_ok=True)
        make_private(path.parent)
        self._of(client, secret).write(path)
        self._secrets[client] = secret

    def _of(self, client: str, secret: str) -> Address:
        return replace(self._address, user=user_of(client), password=secret)


class AccessControl:
    """Lets clients in and sends them away."""

    def __init__(
        self,
        server: RedisServer,
        invitations: Invitations,
        local: LocalClients,
        bus: Bus,
        events: EventLog,
        on_change: Callable[[Mapping[str, Invited]], None],
    ) -> None:
        self.server = server
        self.invitations = invitations
        self._local = local
        self._bus = bus
        self._events = events
        self._on_change = on_change
        self._obtained = False
        self._anew: frozenset[str] = frozenset()
        self._out: set[str] = set()  # for a while, whatever else is changed
        self._refused = ""
        self._lock = asyncio.Lock()
        on_change(invitations.clients)

    @property
    def _hashes(self) -> dict[str, str]:
        known = self.invitations.hashes | self._local.hashes
        return {client: hashed for client, hashed in known.items() if client not in self._out}

    @property
    def lan(self) -> bool:
        """Whether other computers may reach the server."""
        return self.server.lan

    @property
    def invited(self) -> list[Invited]:
        """Everyone who was ever invited and not forgotten, in that order."""
        return sorted(self.invitations.clients.values(), key=lambda one: one.invited)

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """The addresses that invitations name."""
        port, private = self.server.address.port, self.server.listens_on()
        told = told_addresses(private, socket.gethostname()) if private else ()
        return [(host, port) for host in told or (self.server.address.host,)]

    def lost(self) -> None:
        """Note that the server does not answer: when it does again, it may have lost the rules."""
        self._obtained = False

    async def prepare(self) -> None:
        """Write the configuration for the next start of the server: it is to know everybody at once."""
        async with self._lock:
            await self._configure()

    async def look(self) -> None:
        """Apply the rules when the server may not have them; called again and again while it answers."""
        if not self._obtained:
            async with self._lock:
                await self._obtain()

    async def _configure(self) -> None:
        lines = user_lines(self._hashes, self.server.address.prefix)
        await asyncio.to_thread(self.server.configure, lines)

    async def _obtain(self) -> bool:
        """Apply the rules to the running server; return whether it answered."""
        alone = self.server.binary is not None
        self._obtained = True  # before the call: what changes meanwhile is applied at the next look
        order = Order(self._hashes, self.server.address.prefix, self._anew, alone)
        try:
            await self._bus.call(order.obtain)
        except (*AWAY, redis.RedisError) as error:
            # A pipeline puts its whole command before the server's own words.
            said = str(error).rpartition("caused error: ")[2]
            if self._refused != (refused := f"{type(error).__name__}: {said}"):
                logger.warning("the server can't be told who may come in: %s", refused)
            self._obtained, self._refused = False, refused
            return False
        self._refused = ""
        self._anew -= order.anew
        return True

    async def let_own_in(self, clients: list[str]) -> None:
        """Have a user for each client that the server starts itself, and for no other of that kind."""
        async with self._lock:
            if await asyncio.to_thread(self._local.keep, clients):
                self._obtained = False
                await self._obtain()
                await self._configure()

    async def invite(self, client: str, reissue: bool, server_id: str) -> Invitation:
        """Invite a client; an older invitation of it ends, with all that came of it.

        It may come as soon as Redis answers.
        """
        async with self._lock:
            secret = await asyncio.to_thread(self.invitations.invite, client, reissue)
            self._anew |= {client}
            self._out.discard(client)
            await self._changed()
        self._events.add("info", f"{client} was invited{' again' if reissue else ''}.", service=REDIS)
        return Invitation(
            server_id=server_id,
            server_name=socket.gethostname(),
            client=client,
            addresses=tuple(self.addresses),
            secret=secret,
            prefix=self.server.address.prefix,
            created=self.invitations.clients[client].invited,
            pin=self.server.address.pin,
        )

    async def revoke(self, client: str) -> bool:
        """Take an invitation back; return whether that is done, else it is as soon as Redis answers."""
        async with self._lock:
            if client in self.invitations.clients:  # out at once: a full disk may take no note of it
                self._out.add(client)
                await self._obtain()
            await asyncio.to_thread(self.invitations.revoke, client)
            self._out.discard(client)
            done = await self._changed()
        self._events.add("info", f"The invitation of {client} was revoked.", service=REDIS)
        return done

    async def leave(self) -> None:
        """Let nobody in any more at a server that goes on without us."""
        if self.server.binary is None:
            with contextlib.suppress(*AWAY, redis.RedisError):
                await self._bus.call(Order({}, self.server.address.prefix, alone=False).obtain)

    async def shut_out(self, client: str) -> None:
        """End the connections of a client, and let it in no more until it is `let_in_again`."""
        async with self._lock:
            self._out.add(client)
            try:
                # Alone: a server whose memory is full takes no transaction.
                await self._bus.call(lambda connection: connection.acl_deluser(user_of(client)))
            except (*AWAY, redis.RedisError):  # it may be busy with what this client asked for
                self._obtained = False
            await self._configure()

    def is_shut_out(self, client: str) -> bool:
        """Whether a client is shut out: who is let in again or invited anew is no more."""
        return client in self._out

    def let_in_again(self, client: str) -> None:
        """Let a client in that was shut out, at the next look."""
        self._out.discard(client)
        self._obtained = False

    async def forget(self, client: str) -> None:
        """Take one that was revoked off the list; one that was never invited is not known here."""
        async with self._lock:
            await asyncio.to_thread(self.invitations.forget, client)
            await self._changed()

    async def _changed(self) -> bool:
        """Apply a change of the rules to server and configuration; return whether the server answered."""
        self._obtained = False
        self._on_change(self.invitations.clients)
        # The running server first: who is revoked is to be gone at once.
        done = await self._obtain()
        await self._configure()
        return done
