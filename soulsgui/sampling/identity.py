"""Who this client process is, and whether its name is free."""

import hashlib
import logging
import threading
from importlib import metadata

import psutil
import redis

from soulsgui import __version__
from soulsgui.errors import ClientRegistrationError
from soulsgui.system import process_identity
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat

logger = logging.getLogger(__name__)

_FRESH_S = 5.0
_WATCH_S = 3.0
_LOOK_EVERY_S = 0.2
_START_TOLERANCE_S = 2.0


def own_versions() -> dict[str, str]:
    """Return the versions that a server may want to know."""
    versions = {"soulsgui": __version__}
    for package in ("gymnasium", "numpy"):
        versions[package] = metadata.version(package)
    return versions


def derived_seed(seed: int, client: str, attempt: int) -> int:
    """Return a client's own seed: different for each client and attempt, the same in every repetition."""
    digest = hashlib.sha256(f"{seed}/{client}/{attempt}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _is_dead_here(other: Instance, own: Instance) -> bool:
    """Whether the other process ran on this machine and is gone."""
    if other.host != own.host or other.boot_id != own.boot_id:
        return False
    now = process_identity(other.pid)
    if now is None:
        return not psutil.pid_exists(other.pid)  # one of another user may hide what it is
    return abs(now["start_time"] - other.start_time) > _START_TOLERANCE_S


def other_name_remedy(user: str) -> str:
    """Return what to do when two processes have one name; `user` is empty where nobody was invited."""
    if not user:
        return "Give this client another name (--name), or stop the other one."
    return (
        "An invitation is for one computer. Ask the server's owner for one of your own "
        "(there: soulsgui invite NAME), or stop the other process."
    )


def ensure_name_is_free(
    connection: redis.Redis, keys: Keys, client: str, own: Instance, stop: threading.Event, user: str = ""
) -> Heartbeat | None:
    """Make sure that no living process beats under this name, before anything is written.

    Returns the last beat under it, None when there is none.
    """
    beat = Heartbeat.read(connection.get(keys.beat(client)))
    if beat is None or beat.leaving or beat.instance == own or _is_dead_here(beat.instance, own):
        return beat
    left_ms = connection.pttl(keys.beat(client))
    if EXPIRY_S - int(left_ms) / 1000 > _FRESH_S:
        return beat
    logger.info("%s beat a moment ago from %s; watching whether it lives", client, beat.instance.host)
    for _ in range(round(_WATCH_S / _LOOK_EVERY_S)):
        if stop.wait(_LOOK_EVERY_S):
            return beat
        again = Heartbeat.read(connection.get(keys.beat(client)))
        if again is None or again.leaving:
            return again
        if again.counter != beat.counter or again.instance != beat.instance:
            raise ClientRegistrationError(
                f"The name {client} is in use by process {again.instance.pid} on {again.instance.host}.",
                other_name_remedy(user),
            )
    return beat
