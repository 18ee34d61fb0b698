"""The invitations that were taken up on this computer, and which of them it plays for."""

import contextlib
import logging
from pathlib import Path

from soulsgui.config.paths import Folders
from soulsgui.errors import UsageError
from soulsgui.system import make_private, write_private
from soulsgui.wire.invitation import SUFFIX, Invitation
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

_CHOICE_FILE = "joined.json"


class _Choice(Message):
    """Whom this computer plays for: the server's id; empty for the one that runs on it."""

    server_id: str = ""


class SavedInvitations:
    """One private file per server, and the choice of one of them.

    Args:
        folders: The user's folders.
    """

    def __init__(self, folders: Folders) -> None:
        self._folder = folders.servers
        self._choice = folders.client / _CHOICE_FILE

    def path_of(self, server_id: str) -> Path:
        """Return where the invitation of a server is kept."""
        return self._folder / f"{server_id}{SUFFIX}"

    def keep(self, invitation: Invitation) -> Path:
        """Keep an invitation, in the place of an older one of this server; return where.

        Raises:
            OSError: It can't be written.
        """
        path = self.path_of(invitation.server_id)
        self._folder.mkdir(parents=True, exist_ok=True)
        make_private(self._folder)
        invitation.save(path)
        return path

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
        """Keep an invitation no longer.

        Raises:
            OSError: Its file can't be removed.
        """
        self.path_of(invitation.server_id).unlink(missing_ok=True)

    def choose(self, invitation: Invitation | None) -> None:
        """Remember whom this computer plays for.

        Args:
            invitation: A kept one; None for the server that runs on this computer.

        Raises:
            OSError: It can't be written.
        """
        self._choice.parent.mkdir(parents=True, exist_ok=True)
        choice = _Choice(server_id=invitation.server_id if invitation is not None else "")
        write_private(self._choice, choice.to_json().encode())

    def chosen(self) -> Invitation | None:
        """Return the invitation this computer played for last; None for the server that runs on it.

        One that is gone or damaged is said, and the server of this computer takes its place.
        """
        choice = None
        with contextlib.suppress(OSError):
            choice = _Choice.read(self._choice.read_bytes())
        if choice is None or not choice.server_id:
            return None
        try:
            return Invitation.load(self.path_of(choice.server_id))
        except UsageError as error:
            logger.warning("%s This computer's own server takes its place.", error.message)
            return None
