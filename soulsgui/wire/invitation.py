"""An invitation: all that one client needs to join one server, as a link or as a `.soulsgui` file.

A link is `soulsgui://join/` and, in base64url, the JSON of the file with its CRC-32 behind it: what was cut
off or mistyped on its way is told from what the server refuses.
"""

import base64
import binascii
import json
import re
import zlib
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, ValidationError

from soulsgui.errors import UsageError, printable
from soulsgui.system import is_loopback, write_private
from soulsgui.wire.access import Address, user_of
from soulsgui.wire.keys import check_client_name
from soulsgui.wire.messages.base import ClientName, Message, Words

MOST_PLACES = 64  # addresses that one invitation can name

FORMAT = 2
"""The version of invitations that is written and understood here. Those of version 1 had no pin."""

SUFFIX = ".soulsgui"  # how the name of an invitation's file ends

_SCHEME = "soulsgui:"
_LINK = re.compile(r"soulsgui:/*join/([A-Za-z0-9_-]*)=*/*", re.IGNORECASE)
_HOST = r"[A-Za-z0-9_.:-]{1,253}"
_AROUND_A_LINK = "<>\"'"
_CHECK_BYTES = 4
_MOST_BYTES = 64 * 1024
_ANEW = "Ask for the complete link or the file again."


def is_host(name: str) -> bool:
    """Whether an invitation can tell a server under this name or address."""
    return re.fullmatch(_HOST, name) is not None


Place = tuple[Annotated[str, Field(pattern=f"^{_HOST}$")], Annotated[int, Field(ge=1, le=65_535)]]
"""Host and port."""


class Invitation(Message):
    """What one client is given.

    Attributes:
        server_id: Stays the same over restarts of the server, and names the file it is kept in.
        server_name: What people call the server.
        addresses: Where the server may be reached, the likeliest first.
        secret: The client's own password; in no repr.
        prefix: First part of every key of the server.
        created: Seconds since the epoch.
        pin: The server's certificate (`wire.connection.pin_of`): by it the server proves who it is.
    """

    version: int = FORMAT
    server_id: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    server_name: Words = Field(max_length=253)
    client: ClientName
    addresses: tuple[Place, ...] = Field(min_length=1, max_length=MOST_PLACES)
    secret: str = Field(repr=False, pattern=r"^[A-Za-z0-9_-]{16,256}$")
    prefix: str = Field(pattern=r"^[A-Za-z0-9_.-]{1,64}:$")
    created: float = Field(allow_inf_nan=False)
    pin: str = Field(pattern=r"^[0-9a-f]{64}$")

    @property
    def link(self) -> str:
        """The invitation as a link; it holds the secret."""
        data = self.to_json().encode()
        payload = base64.urlsafe_b64encode(data + _check(data)).rstrip(b"=")
        return f"soulsgui://join/{payload.decode()}"

    @property
    def file_text(self) -> str:
        """The contents of its file; they hold the secret."""
        return self.model_dump_json(indent=2) + "\n"

    @property
    def places(self) -> str:
        """The addresses in words, such as `192.168.1.5:6379, pc:6379`."""
        return ", ".join(place_words(host, port) for host, port in self.addresses)

    @property
    def for_this_machine_only(self) -> bool:
        """Whether no other computer can use it."""
        return all(is_loopback(host) for host, _ in self.addresses)

    def address(self, host: str, port: int) -> Address:
        """Return one of its addresses with what is needed to be let in."""
        return Address(host, port, self.secret, self.prefix, user_of(self.client), self.pin)

    def found_at(self, place: str) -> Self:
        """Return it with another address before those it tells: host and port; without a port the known one.

        Raises:
            UsageError: It is no place.
        """
        host, port = read_place(place, self.addresses[0][1])
        others = [one for one in self.addresses if one != (host, port)]
        return self.model_copy(update={"addresses": ((host, port), *others)[:MOST_PLACES]})

    def save(self, path: Path) -> None:
        """Write it into a file that only its owner can read.

        Raises:
            OSError: It can't be written.
        """
        write_private(path, self.file_text.encode())

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read a file: the JSON of an invitation, or a link.

        Raises:
            UsageError: The file holds neither.
        """
        try:
            with path.open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or error
            raise UsageError(
                f"There is no invitation in {str(path)[:200]}: {reason}.",
                f"Give the link (soulsgui://join/…) or the {SUFFIX} file you were sent.",
            ) from None
        encoding = "utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"  # as Windows writes
        return cls.parse(data[:_MOST_BYTES].decode(encoding, errors="replace"), str(path))

    @classmethod
    def parse(cls, text: str, where: str = "") -> Self:
        """Read a link, or the text of a file.

        Args:
            text: Written by anybody.
            where: What it is called in messages; empty takes "The link" or "The invitation".

        Raises:
            UsageError: It is damaged, cut off, of a newer SoulsGUI, or something else.
        """
        if is_link(text):
            return cls._of_json(_data_of_link(text, where or "The link"), where or "The link")
        return cls._of_json(text.encode(errors="replace"), where or "The invitation")

    @classmethod
    def _of_json(cls, data: bytes, where: str) -> Self:
        # Nothing here says what was read: it may hold a secret.
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError):
            whole = data.lstrip().startswith(b"{")
            fault = "is damaged or cut off" if whole else "is not an invitation of SoulsGUI"
            raise UsageError(f"{where} {fault}.", _ANEW) from None
        _check_kind(fields, where)
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            wrong = sorted({str(detail["loc"][0]) for detail in error.errors(include_input=False)})
            raise UsageError(f"{where} is damaged: wrong {', '.join(wrong)}.", _ANEW) from None


def is_link(text: str) -> bool:
    """Whether a text is meant as a link of ours."""
    return text.strip().lstrip(_AROUND_A_LINK).lower().startswith(_SCHEME)


def read_invitation(word: str) -> Invitation:
    """Read what a person was sent: a link, or the text or path of a file.

    Raises:
        UsageError: It holds no invitation.
    """
    if is_link(word) or word.lstrip().startswith("{"):
        return Invitation.parse(word)
    return Invitation.load(Path(word))


def invitation_file_name(client: str) -> str:
    """Return what the file of a client's invitation is called.

    Raises:
        UsageError: No client can have this name.
    """
    return f"{check_client_name(client)}{SUFFIX}"


def place_words(host: str, port: int) -> str:
    """Return host and port as people write them."""
    try:
        return f"[{host}]:{port}" if ip_address(host).version == 6 else f"{host}:{port}"
    except ValueError:
        return f"{host}:{port}"


def read_place(text: str, port: int) -> tuple[str, int]:
    """Read host and port as people write them; without a port, `port` is meant.

    Raises:
        UsageError: It is no such place as `192.168.1.7:6379`, `pc`, `[fd00::5]:6379`.
    """
    words = text.strip()
    bracketed = re.fullmatch(r"\[([^\]]*)\](?::(.*))?", words)
    if bracketed:
        host, named = bracketed[1], bracketed[2]
    elif words.count(":") > 1:
        host, named = words, None
    else:
        host, colon, after = words.partition(":")
        named = after if colon else None
    if not is_host(host) or (named is not None and not (named.isdecimal() and 0 < int(named) < 65_536)):
        raise UsageError(
            f"“{printable(text, 80)}” is not the address of a server.", "For instance: 192.168.1.7:6379"
        )
    return host, port if named is None else int(named)


def _check(data: bytes) -> bytes:
    return zlib.crc32(data).to_bytes(_CHECK_BYTES, "big")


def _data_of_link(text: str, where: str) -> bytes:
    # Mail programs break long lines; quotes and angle brackets stand around links.
    found = _LINK.fullmatch("".join(text.split()).strip(_AROUND_A_LINK))
    if found is None:
        raise UsageError(f"{where} is not an invitation: they begin with soulsgui://join/.", _ANEW)
    payload = found[1] + "=" * (-len(found[1]) % 4)
    try:
        whole = base64.urlsafe_b64decode(payload)
    except binascii.Error:
        whole = b""
    data, check = whole[:-_CHECK_BYTES], whole[-_CHECK_BYTES:]
    if not data or check != _check(data):
        raise UsageError(f"{where} is damaged or cut off.", _ANEW)
    return data


def _check_kind(fields: Any, where: str) -> None:
    if not isinstance(fields, dict) or "version" not in fields or "server_id" not in fields:
        raise UsageError(f"{where} is not an invitation of SoulsGUI.", _ANEW)
    version = fields["version"]
    if type(version) is int and version > FORMAT:
        raise UsageError(
            f"{where} was made by a newer SoulsGUI (format {version}; this one reads up to {FORMAT}).",
            "Update SoulsGUI on this computer.",
        )
    if not fields.get("pin"):
        raise UsageError(
            f"{where} has no pin: nothing in it proves which server answers. It was changed, or made by an "
            "earlier SoulsGUI.",
            "Ask its owner to update the server and to invite this computer again: soulsgui invite NAME "
            "--reissue",
        )
