"""The certificate by which a server proves that it is the one: made once, and kept as long as the server.

Whoever was invited knows it (`wire.connection`); it is valid for a hundred years, so invitations outlive it.
"""

import ssl
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from soulsgui.errors import ServiceError
from soulsgui.installing import how_to_install
from soulsgui.system import is_private, make_private, recover_dir, replace_dir, write_private
from soulsgui.wire.connection import pin_of

_BEFORE = timedelta(days=1)  # clocks differ
_LONG = timedelta(days=36_500)


@dataclass(frozen=True)
class Certificate:
    """A certificate with its key, as files."""

    path: Path  # The certificate (PEM)
    key: Path  # Its private key (PEM), for its owner's eyes only
    pin: str  # What the other side compares (`wire.connection.pin_of`)


def ensure_certificate(server_dir: Path) -> Certificate:
    """Return the server's certificate; at the first time it is made."""
    folder = server_dir / "tls"
    recover_dir(folder)
    if not folder.exists():
        _make(folder)
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
            "Remove that folder to get a new one; invitations must be issued again then.",
        ) from error
    if not private:
        raise ServiceError(f"The key {key} of the server can be read by others.", f"chmod 600 '{key}'")
    return Certificate(path, key, pin)


def _make(folder: Path) -> None:
    try:  # imported once in the life of a server
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
    except ImportError as error:
        raise ServiceError(
            f"A server needs the package cryptography: {error}.", how_to_install("cryptography")
        ) from error
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "SoulsGUI")])
    now = datetime.now(UTC)
    certificate = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=x509.random_serial_number(),
        not_valid_before=now - _BEFORE,
        not_valid_after=now + _LONG,
    ).sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    unprotected = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    with tempfile.TemporaryDirectory(dir=folder.parent) as aside:
        made = Path(aside, "tls")
        made.mkdir()
        make_private(made)
        write_private(made / "key.pem", key.private_bytes(pem, *unprotected))
        write_private(made / "certificate.pem", certificate.public_bytes(pem))
        replace_dir(made, folder)
