"""Who may ask an HTTP interface of ours: not web pages of others, and nobody without its token."""

import hmac
from collections.abc import Mapping

from soulsgui.errors import printable

_OUR_HOSTS = frozenset({"127.0.0.1", "localhost", "[::1]"})


def why_refused(headers: Mapping[str, str], token: str, loopback: bool = True) -> tuple[int, str] | None:
    """Return the HTTP status of a refusal and why, or None where the request is answered.

    Args:
        headers: Those of the request; their names in any case.
        token: What it must show as `Authorization: Bearer TOKEN`; empty: nothing.
        loopback: Whether the interface is reached on this machine alone, and so under few names.
    """
    # A page whose name was made to point at this machine still sends its own name as Host.
    host = headers.get("Host", "")
    if loopback and host.rpartition(":")[0] not in _OUR_HOSTS and host not in _OUR_HOSTS:
        return 403, f"This interface is not reached under the name {printable(host, 100)!r}."
    origin = headers.get("Origin")
    if origin is not None and origin != f"http://{host}":
        return 403, "Web pages of others may not use this interface."
    scheme, _, shown = headers.get("Authorization", "").partition(" ")
    right = hmac.compare_digest(shown.strip().encode(errors="replace"), token.encode())
    if token and (scheme.lower() != "bearer" or not right):
        return 401, "The token is wrong or missing."
    return None
