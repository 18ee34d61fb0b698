"""How the client of this computer is, in words for a terminal. Pure."""

import math
import time

from soulsgui.printable import printable
from soulsgui.runner.outcome import duration_words
from soulsgui.runner.words import count_words
from soulsgui.wire.control import ClientStatus, ServerStatus, ServiceStatus, Status
from soulsgui.wire.situation import Situation, situation

_HELD = {
    "full_screen": "paused while a program fills the screen",
    "busy": "paused while somebody is at the computer",
    "hours": "paused outside the hours you set",
}
_PLAIN = {
    Situation.MISFIT: "can't play: the versions of server and computer don't fit",
    Situation.REVOKED: "revoked: the server does not let it in any more",
    Situation.STOPPING: "stopping",
    Situation.CUT_OFF: "cut off by the server",
    Situation.SILENT: "the game does not answer",
    Situation.PAUSED_BY_SERVER: "paused by the server",
    Situation.BETWEEN_ROUNDS: "waiting for the server: no round goes on at present",
    Situation.WITHOUT_RUN: "waiting for a run: it plays as soon as one is started on the server",
    Situation.CONNECTING: "connecting",
}


def join_text(status: Status) -> str:
    """Return how the client of this computer is, in a few lines.

    Args:
        status: What its runner told.
    """
    client = status.clients[0] if status.clients else None
    name = client.id if client is not None else "This computer"
    lines = [f"{name} helps {_server_words(status.server)}", f"  {state_words(status)}"]
    if client is not None and client.env_id:
        lines.append(f"  {_figures(client)}")
    told = [client.error if client is not None else "", status.server.error]
    lines += [f"  {words}" for words in dict.fromkeys(told) if words]
    return "\n".join(printable(line) for line in lines)


def _server_words(server: ServerStatus) -> str:
    name = server.name or "the server of this computer"
    parts = [server.url] if server.url else []
    if server.round_trip_s is not None and server.reachable:
        parts.append(f"{1000 * server.round_trip_s:.0f} ms away")
    return f"{name} ({', '.join(parts)})" if parts else name


def state_words(status: Status) -> str:
    """Return what the client does at this moment, with what its owner can do about it."""
    client = status.clients[0] if status.clients else ClientStatus(id="", name="")
    service = status.services[0] if status.services else ServiceStatus(name="", kind="", state="stopped")
    match situation(status):
        case Situation.OFF:
            ended = f": {service.outcome}" if service.outcome else ""
            return f"it does not play{ended}; begin: soulsgui join continue"
        case Situation.FAILED:
            failures = count_words(service.failures, "failure")
            return f"stopped after {failures}: {service.outcome}; try again: soulsgui join continue"
        case Situation.PAUSED_BY_OWNER:
            until = until_words(client.paused_until) if client.paused_until is not None else ""
            return f"paused by you{until}; go on: soulsgui join continue"
        case Situation.HELD:
            until = until_words(client.held_until) if client.held_until is not None else ""
            return _HELD[client.held] + until if client.held else "paused"
        case Situation.RETRYING:
            return f"trying again in {duration_words(service.restart_in_s or 0.0)}: {service.outcome}"
        case Situation.FINISHING:
            then = "pauses" if client.wish == "pause_after_episode" else "stops"
            return f"finishing its episode, then it {then}"
        case Situation.AWAY:
            since = status.server.changed_at
            away = f" since {clock_words(since)}" if since is not None else ""
            return f"the server is away{away}; it is tried again all the time"
        case Situation.PLAYING:
            return f"playing, episode {client.episodes + 1:,}; pause it: soulsgui join pause"
        case other:
            return _PLAIN[other]


def _figures(client: ClientStatus) -> str:
    parts = [
        f"{client.env_id} × {client.num_envs}" if client.num_envs > 1 else client.env_id,
        count_words(client.env_steps, "step"),
        count_words(client.episodes, "episode"),
    ]
    if client.mean_return is not None:
        parts.append(f"mean return {client.mean_return:.1f}")
    if client.env_steps_per_s:
        parts.append(f"{client.env_steps_per_s:,.0f} steps/s")
    if client.dropped:
        parts.append(f"{client.dropped:,} dropped")
    return " · ".join(parts)


def until_words(moment: float) -> str:
    """Return ` until 11:58` for when something ends: not before the minute that is told."""
    return f" until {clock_words(60.0 * math.ceil(moment / 60.0))}"


def clock_words(moment: float, now: float | None = None) -> str:
    """Return a moment to the minute, with its date when that is not today.

    Args:
        moment: Seconds since the epoch.
        now: The present; None asks the clock.
    """
    then = time.localtime(moment)
    today = time.localtime(now)
    same = then[:3] == today[:3]
    return time.strftime("%H:%M" if same else "%Y-%m-%d %H:%M", then)
