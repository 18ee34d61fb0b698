"""Who the clients are that this server starts itself: each has a user of its own, as the invited have.

Its secret stands in one private file, which is all that its process is told.
"""

import contextlib
import secrets
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from soulsgui.errors import UsageError
from soulsgui.system import is_private, make_private
from soulsgui.wire.access import secret_hash, user_line, user_of, user_words
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import check_client_name, is_client_name

_SECRET_BYTES = 32


def local_address_file(server_dir: Path, client: str) -> Path:
    """Return the file with the address and the secret of one client that this server starts itself.

    Raises:
        UsageError: A client can't be called so.
    """
    return server_dir / "local" / f"{check_client_name(client)}.json"


class LocalClients:
    """The identities of the clients this server starts itself, in memory and in their files.

    What an earlier runner wrote is kept, for its clients may still be playing.

    Args:
        server_dir: The private folder of the server.
        address: The server, as its own processes reach it.
    """

    def __init__(self, server_dir: Path, address: Address) -> None:
        self._server_dir = server_dir
        self._address = address
        self._secrets: dict[str, str] = {}
        for path in sorted(server_dir.glob("local/*.json")):
            with contextlib.suppress(UsageError):
                if is_client_name(path.stem) and is_private(path):
                    self._take(path.stem, Address.read(path))

    def keep(self, clients: Iterable[str]) -> bool:
        """Have identities for these clients, and for no others.

        Returns:
            Whether that changed anything.

        Raises:
            UsageError: A client can't be called so.
            OSError: A file can't be written.
        """
        wanted = set(clients)
        missing, surplus = wanted - set(self._secrets), set(self._secrets) - wanted
        for client in sorted(missing):
            self._write(client, secrets.token_urlsafe(_SECRET_BYTES))
        for client in surplus:
            local_address_file(self._server_dir, client).unlink(missing_ok=True)
            del self._secrets[client]
        return bool(missing or surplus)

    def user_lines(self) -> list[str]:
        """Return the lines of the server's configuration that let them in."""
        prefix = self._address.prefix
        return [user_line(client, prefix, secret_hash(secret)) for client, secret in self._secrets.items()]

    def users(self) -> dict[str, tuple[str, tuple[str, ...]]]:
        """Return the users the server should have for them, as `Invitations.users`."""
        hashes = {client: secret_hash(secret) for client, secret in self._secrets.items()}
        prefix = self._address.prefix
        return {
            user_of(client): (hashed, user_words(client, prefix, hashed)) for client, hashed in hashes.items()
        }

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
