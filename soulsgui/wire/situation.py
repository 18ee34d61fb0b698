"""In which situation the client of this computer is: one answer for the window and for the terminal. Pure."""

from enum import StrEnum

from soulsgui.wire.control.states import ClientStatus, ServiceStatus, Status

CLIENT = "client"
"""The service of client mode."""

_CUT_OFF = ("quarantined", "refused")


class Situation(StrEnum):
    """What there is to say of client mode; the first that applies, as its owner would want to know it."""

    OFF = "off"
    MISFIT = "misfit"
    REVOKED = "revoked"
    FAILED = "failed"
    STOPPING = "stopping"
    PAUSED_BY_OWNER = "paused by its owner"
    HELD = "held"
    RETRYING = "retrying"
    CUT_OFF = "cut off"
    SILENT = "silent"
    FINISHING = "finishing"
    AWAY = "server away"
    PAUSED_BY_SERVER = "paused by the server"
    PLAYING = "playing"
    BETWEEN_ROUNDS = "between rounds"
    WITHOUT_RUN = "without a run"
    CONNECTING = "connecting"


def situation(status: Status) -> Situation:
    """Return the situation that a runner of client mode tells of.

    Args:
        status: What it told last.
    """
    service = status.services[0] if status.services else None
    client = status.clients[0] if status.clients else None
    if service is None or service.state == "stopped":
        return Situation.OFF
    if client is not None and (found := _before_playing(service, client)) is not None:
        return found
    if service.state in ("failed", "stopping", "backoff"):
        return _SERVICE[service.state]
    if service.state == "running" and client is not None:
        return _playing(client, status)
    return Situation.CONNECTING if status.server.reachable else Situation.AWAY


_SERVICE = {
    "failed": Situation.FAILED,
    "stopping": Situation.STOPPING,
    "backoff": Situation.RETRYING,
}


def _before_playing(service: ServiceStatus, client: ClientStatus) -> Situation | None:
    """Return what counts more than what the client itself says of its playing; None when nothing does."""
    if client.checks.get("version") is False:
        return Situation.MISFIT
    if client.state == "revoked":
        return Situation.REVOKED
    if service.state in ("failed", "stopping"):
        return None
    # What the owner wants holds at once, whether the client is there to say so or not.
    if client.wish == "pause" or (client.wish == "pause_after_episode" and client.state == "paused"):
        return Situation.PAUSED_BY_OWNER
    return Situation.HELD if client.held and client.state not in _CUT_OFF else None


def is_paused_there(state: str, wish: str) -> bool:
    """Whether a client waits because its own computer wants it to, by what its server tells of it."""
    return state == "paused" and wish == "run"


_STATES = {
    "paused": Situation.PAUSED_BY_SERVER,
    "online": Situation.PLAYING,
}


def _playing(client: ClientStatus, status: Status) -> Situation:
    """Return the situation of a client that is up, by what it says of itself."""
    if client.state in _CUT_OFF:
        return Situation.CUT_OFF
    if client.state in ("late", "lost"):
        return Situation.SILENT
    if client.state == "draining":
        return Situation.FINISHING
    if not status.server.reachable:
        return Situation.AWAY
    if client.state == "waiting":
        return Situation.BETWEEN_ROUNDS if status.run.id else Situation.WITHOUT_RUN
    return _STATES.get(client.state, Situation.CONNECTING)
