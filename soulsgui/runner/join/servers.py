"""The invitations that were taken up on this computer, and which of them it plays for."""

import contextlib
import hashlib
import json
import logging
import threading
from pathlib import Path
from typing import Any

import redis

from soulsgui.config.paths import Folders
from soulsgui.config.schema import received_settings
from soulsgui.errors import ClientRegistrationError, UsageError, printable
from soulsgui.runner.join.finder import Finder, Reply, try_address
from soulsgui.system import make_private, write_private
from soulsgui.wire.connection import AWAY, Address, connect
from soulsgui.wire.control import AddressChange, OfferedServer, ServerTest
from soulsgui.wire.invitation import SUFFIX, Invitation, place_words
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Message
from soulsgui.wire.messages.owner import Agreement, read_agreement
from soulsgui.wire.messages.server_config import TOO_LONG, Execution, ServerConfig
from soulsgui.wire.versions import MissingRequirement, lacks_here, least_versions

logger = logging.getLogger(__name__)

_CHOICE_FILE = "joined.json"


class _Choice(Message):
    """Whom this computer plays for: the server's id; empty for the one that runs on it."""

    server_id: str = ""


def _identity(invitation: Invitation) -> str:
    """Return what tells the server of an invitation from all others, whoever chose the id that it states.

    That is its certificate, which it has to prove.
    """
    told = [invitation.server_id, invitation.prefix, invitation.pin]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


class SavedInvitations:
    """Two private files per server, its invitation and what it may run here, and the choice of one server."""

    def __init__(self, folders: Folders) -> None:
        self._folder = folders.servers
        self._choice = folders.client / _CHOICE_FILE

    def path_of(self, server_id: str) -> Path:
        """Return where the invitation of a server is kept."""
        return self._folder / f"{server_id}{SUFFIX}"

    def keep(self, invitation: Invitation) -> Path:
        """Keep an invitation, in the place of an older one of this server; return where."""
        path = self.path_of(invitation.server_id)
        self._folder.mkdir(parents=True, exist_ok=True)
        make_private(self._folder)
        invitation.save(path)
        return path

    def agreement_path(self, invitation: Invitation) -> Path:
        """Return where it is kept what the server of an invitation may run here."""
        return self._folder / f"{_identity(invitation)}.agreed.json"

    def agreement(self, invitation: Invitation) -> Agreement:
        """Return what the server of an invitation may run here."""
        return read_agreement(self.agreement_path(invitation))

    def agree(self, invitation: Invitation, digest: str, always: bool) -> None:
        """Let a server run one thing more here, and, or from now on no longer, whatever it names."""
        before = self.agreement(invitation)
        now = before.with_one_more(digest, always)
        if now == before:  # a confined client that starts over can't write it again
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        write_private(self.agreement_path(invitation), now.to_json().encode())

    def all(self) -> list[Invitation]:
        """Return every kept invitation, by the server's name; damaged ones are left out."""
        found = []
        for path in sorted(self._folder.glob(f"*{SUFFIX}")):
            with contextlib.suppress(UsageError):
                found.append(Invitation.load(path))
        return sorted(found, key=lambda one: (one.server_name.lower(), one.server_id))

    def find(self, server_id: str) -> Invitation | None:
        """Return the kept invitation of a server; None when there is none."""
        return next((one for one in self.all() if one.server_id == server_id), None)

    def forget(self, invitation: Invitation) -> None:
        """Keep an invitation no longer; its server may run nothing here."""
        self.agreement_path(invitation).unlink(missing_ok=True)
        self.path_of(invitation.server_id).unlink(missing_ok=True)

    def choose(self, invitation: Invitation | None) -> None:
        """Remember whom this computer plays for."""
        self._choice.parent.mkdir(parents=True, exist_ok=True)
        choice = _Choice(server_id=invitation.server_id if invitation is not None else "")
        write_private(self._choice, choice.to_json().encode())

    @property
    def chosen_id(self) -> str:
        """Id of the server this computer played for last, kept or not; empty for the one that runs on it."""
        choice = None
        with contextlib.suppress(OSError):
            choice = _Choice.read(self._choice.read_bytes())
        return choice.server_id if choice is not None else ""

    def chosen(self) -> Invitation | None:
        """Return the invitation of last time; None: the server here, also where it is gone or damaged."""
        if not (server_id := self.chosen_id):
            return None
        try:
            return Invitation.load(self.path_of(server_id))
        except UsageError as error:
            logger.warning("%s This computer's own server takes its place.", error.message)
            return None


def examined(
    offered: OfferedServer, invitation: Invitation, agreement: Agreement, stop: threading.Event
) -> OfferedServer:
    """Ask the server of an invitation what it trains; takes up to a second for each address."""
    finder = Finder(invitation, stop)
    if not finder.look() or finder.address is None:
        return offered.model_copy(update={"error": finder.error})
    address = finder.address
    found: dict[str, Any] = {
        "address": place_words(address.host, address.port),
        "round_trip_s": finder.round_trip_s,
    }
    if (config := _config(address)) is not None:
        try:
            settings = received_settings(config.settings)
        except ClientRegistrationError as error:
            return offered.model_copy(update={"error": error.message})
        runs = Execution.of(settings)
        if runs.too_long:
            return offered.model_copy(update={"error": TOO_LONG})
        found |= {
            "runs": runs,
            "agreed": agreement.covers(runs),
        }
    return offered.model_copy(update=found)


def tested(invitation: Invitation, stop: threading.Event) -> ServerTest:
    """Try the server of an invitation out; takes up to a second for each address."""
    finder = Finder(invitation, stop)
    if finder.look() and finder.address is not None:
        return _well(finder.address, finder.round_trip_s)
    return ServerTest(shut_out=finder.shut_out, error=finder.error)


def tested_here(address: Address | None) -> ServerTest:
    """Try out the server that runs on this computer; takes at most two seconds."""
    if address is None:
        return ServerTest(error="No server runs on this computer.")
    answer = try_address(address)
    if answer.reply is Reply.LET_IN:
        return _well(address, answer.round_trip_s)
    where = place_words(address.host, address.port)
    if answer.reply is Reply.SHUT_OUT:
        return ServerTest(shut_out=True, error=f"The server at {where} does not let this computer in.")
    return ServerTest(error=f"No answer from {where} ({answer.why}).")


def examined_place(invitation: Invitation, host: str, port: int) -> AddressChange:
    """Ask at an address whether the server of an invitation answers there; takes about a second."""
    answer = try_address(invitation.address(host, port))
    where, name = place_words(host, port), invitation.server_name
    if answer.reply is Reply.LET_IN:
        return AddressChange(taken=True)
    if answer.reply is Reply.ANOTHER:
        return AddressChange(taken=False, final=True, why=f"At {where} {answer.why}.")
    why = f"No answer from {where} ({answer.why})."
    if answer.reply is Reply.SHUT_OUT:
        why = (
            f"A server answers at {where}, but does not know this computer: it is a different server than "
            f"{name}, or the invitation was revoked."
        )
    return AddressChange(taken=False, why=why)


def _well(address: Address, round_trip_s: float | None) -> ServerTest:
    found = ServerTest(address=place_words(address.host, address.port), round_trip_s=round_trip_s)
    config = _config(address)
    if config is None:
        return found
    environment = config.settings.get("env.id")
    env_id = printable(environment) if isinstance(environment, str) else ""
    return found.model_copy(update={"lacks": _lacks(config), "env_id": env_id})


def lacks_of(address: Address) -> list[MissingRequirement] | None:
    """Ask a server what it needs and this computer lacks, about a second; None while it does not say."""
    config = _config(address)
    return None if config is None else _lacks(config)


def _lacks(config: ServerConfig) -> list[MissingRequirement]:
    return lacks_here(config.protocol_min, config.protocol_max, least_versions(config.settings))


def _config(address: Address) -> ServerConfig | None:
    connection = connect(address)
    try:
        text: Any = connection.get(Keys(address.prefix).config)
    except (*AWAY, redis.RedisError):
        text = None
    finally:
        connection.close()
    return ServerConfig.read(text)
