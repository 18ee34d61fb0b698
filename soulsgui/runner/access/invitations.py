"""Who was invited to this server: names and hashes of secrets in one private file, nothing else anywhere."""

import contextlib
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, field_validator

from soulsgui.runner.refusal import Refused
from soulsgui.system import write_private
from soulsgui.wire.access import secret_hash
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import check_client_name, is_client_name, is_own_name
from soulsgui.wire.messages.base import Message

_FORMAT = 1
_SECRET_BYTES = 32


def _client(name: str) -> str:
    # It becomes a part of the server's configuration: another word there would stop every start.
    if not is_client_name(name):
        raise ValueError("not a client name")
    return name


class Invited(Message):
    """One client that was invited."""

    client: Annotated[str, AfterValidator(_client)]  # Its id
    # `secret_hash` of its secret; empty once it was revoked.
    hash: str = Field(repr=False, pattern=r"^([0-9a-f]{64})?$")
    invited: float  # When, seconds since the epoch
    revoked: float | None = None  # When that was taken back; None while it may come
    again: bool = False  # Whether it was invited before; what it did then is the past

    @property
    def may_come(self) -> bool:
        """Whether the server lets it in."""
        return self.revoked is None and bool(self.hash)


class _InvitationsFile(Message):
    version: Annotated[int, Field(ge=1, le=_FORMAT)] = _FORMAT
    clients: list[Invited]

    @field_validator("clients")
    @classmethod
    def _each_once(cls, clients: list[Invited]) -> list[Invited]:
        if len({one.client for one in clients}) < len(clients):
            raise ValueError("a client is listed twice")
        return clients


class Invitations:
    """The list of the invited, in memory and in its file. Every change is on the disk before it counts."""

    def __init__(self, path: Path, wall_clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self._wall_clock = wall_clock
        # What was wrong with the file, in words; empty when nothing was. A damaged file was set aside.
        self.damage = ""
        # Everyone who was ever invited and not forgotten, by id.
        self.clients: Mapping[str, Invited] = self._read()

    def invite(self, client: str, reissue: bool) -> str:
        """Invite a client; return its secret, which nobody can tell again."""
        known = self.clients.get(check_client_name(client))
        if is_own_name(client):
            message = f"{client} is a name that this server uses for its own processes."
            raise Refused(ErrorCode.BAD_REQUEST, message, "For instance: gamer-01")
        if known is not None and known.may_come and not reissue:
            raise Refused(
                ErrorCode.NOT_NOW,
                f"{client} is already invited; its secret was shown once and is not stored.",
                f"Give it a new one, which ends the old one: soulsgui invite {client} --reissue",
            )
        if known is None and reissue:
            raise _never_invited(client)
        secret = secrets.token_urlsafe(_SECRET_BYTES)
        now, again = self._wall_clock(), known is not None
        self._put(Invited(client=client, hash=secret_hash(secret), invited=now, again=again))
        return secret

    def revoke(self, client: str) -> None:
        """Take an invitation back; it stays on the list, as revoked."""
        known = self.known(client)
        if known.revoked is None:
            self._put(known.model_copy(update={"hash": "", "revoked": self._wall_clock()}))

    def forget(self, client: str) -> None:
        """Take one that was revoked off the list; others are not known here, or stay."""
        if client not in self.clients:
            return
        self.check_forget(client)
        self._write({name: one for name, one in self.clients.items() if name != client})

    def known(self, client: str) -> Invited:
        """Return one that was invited."""
        if client not in self.clients:
            raise _never_invited(client)
        return self.clients[client]

    def check_forget(self, client: str) -> None:
        """Make sure that one that was invited can't come any more."""
        if self.known(client).revoked is None:
            raise Refused(
                ErrorCode.NOT_NOW,
                f"{client} is invited: it could come back at any time.",
                f"Revoke its invitation first: soulsgui revoke {client}",
            )

    @property
    def hashes(self) -> dict[str, str]:
        """The hash of the secret of each client that may come."""
        return {one.client: one.hash for one in self.clients.values() if one.may_come}

    def _put(self, invited: Invited) -> None:
        self._write({**self.clients, invited.client: invited})

    def _write(self, clients: dict[str, Invited]) -> None:
        write_private(
            self._path, _InvitationsFile(clients=list(clients.values())).model_dump_json(indent=1).encode()
        )
        self.clients = clients

    def _read(self) -> dict[str, Invited]:
        try:
            found = _InvitationsFile.read(self._path.read_bytes())
            reason = "it is damaged, or of a newer SoulsGUI"
        except FileNotFoundError:
            return {}
        except OSError as error:
            found, reason = None, f"it can't be read ({error.strerror})"
        if found is not None:
            return {one.client: one for one in found.clients}
        aside = self._path.with_name(f"{self._path.stem}.damaged-{int(self._wall_clock())}.json")
        with contextlib.suppress(OSError):
            self._path.replace(aside)
            reason += f"; it is kept as {aside.name}"
        self.damage = f"{self._path}: {reason}"
        return {}


def _never_invited(client: str) -> Refused:
    return Refused(
        ErrorCode.NOT_FOUND,
        f"“{client}” was never invited.",
        "See who was: soulsgui clients list",
    )
