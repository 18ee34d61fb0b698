"""The certificate of a server that encrypts: made once, by `openssl`, and kept as long as the server.

Whoever was invited knows it (`wire.connection`); it is valid for a hundred years, so invitations outlive it.
"""

import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from soulsgui.errors import ServiceError
from soulsgui.system import is_private, make_private, recover_dir, replace_dir
from soulsgui.wire.connection import pin_of

_DAYS = 36_500
_LIMIT_S = 60.0
# The system's own settings of openssl may be missing, or want more than this.
_SETTINGS = "[req]\nprompt = no\ndistinguished_name = name\n[name]\nCN = SoulsGUI\n"


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, as files."""

    path: Path  # The certificate (PEM)
    key: Path  # Its private key (PEM), for its owner's eyes only
    pin: str  # What the other side compares (`wire.connection.pin_of`)


def ensure_certificate(server_dir: Path, which: Callable[[str], str | None] = shutil.which) -> Certificate:
    """Return the server's certificate; at the first time it is made."""
    folder = server_dir / "tls"
    recover_dir(folder)
    if not folder.exists():
        _make(folder, which)
    return read_certificate(server_dir)


def read_certificate(server_dir: Path) -> Certificate:
    """Return the certificate that was made before."""
    path, key = server_dir / "tls" / "certificate.pem", server_dir / "tls" / "key.pem"
    try:
        private = is_private(key)
        pin = pin_of(ssl.PEM_cert_to_DER_cert(path.read_text(encoding="ascii")))
    except (OSError, ValueError) as error:
        raise ServiceError(
            f"The server's certificate in {path.parent} can't be used: {error}.",
            "Remove that folder to have a new one made; invitations must be issued anew then.",
        ) from error
    if not private:
        raise ServiceError(f"The key {key} of the server can be read by others.", f"chmod 600 '{key}'")
    return Certificate(path, key, pin)


def _make(folder: Path, which: Callable[[str], str | None]) -> None:
    program = which("openssl")
    if program is None:
        raise ServiceError(
            "redis.tls needs the program `openssl` once, to make a certificate; it is not on the PATH.",
            "Install it (sudo apt install openssl; brew install openssl), or set redis.tls to false.",
        )
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        made = Path(aside, "tls")
        made.mkdir()
        settings = Path(aside, "settings")
        settings.write_text(_SETTINGS, encoding="ascii")
        kind = ("-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-sha256")
        files = ("-keyout", str(made / "key.pem"), "-out", str(made / "certificate.pem"))
        words = [program, "req", *kind, "-days", str(_DAYS), "-config", str(settings), *files]
        _run(words)
        for path in (made, *made.iterdir()):
            make_private(path)
        replace_dir(made, folder)


def _run(words: list[str]) -> None:
    try:
        done = subprocess.run(
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_LIMIT_S,
            check=False,
        )
        said = done.stderr.strip()[-500:] if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        said = str(error)
    if said:
        raise ServiceError(
            f"openssl could not make a certificate: {said}", "Set redis.tls to false, or update it."
        )
