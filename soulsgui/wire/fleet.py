"""The state of each client, told from its heartbeats. Pure: time is passed in."""

from dataclasses import dataclass
from enum import StrEnum

from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Grant, Wish

LATE_S = 5.0
LOST_S = 30.0
STALLED_S = 15.0


class ClientState(StrEnum):
    """What a client is, in one word."""

    JOINING = "joining"
    WAITING = "waiting"
    ONLINE = "online"
    LATE = "late"
    LOST = "lost"
    PAUSED = "paused"
    DRAINING = "draining"
    LEFT = "left"
    QUARANTINED = "quarantined"
    REFUSED = "refused"
    REVOKED = "revoked"


@dataclass
class _Seen:
    counter: int
    changed_at: float
    steps: int
    steps_changed_at: float


class BeatClock:
    """How long ago each client gave a sign of life.

    The first sight of a beat takes its age from the server (expiry minus time to live); from then on
    the reader's own monotonic clock counts since the beat's counter last moved, so that a stepped
    clock on either side changes nothing.
    """

    def __init__(self) -> None:
        self._seen: dict[str, _Seen] = {}

    def observe(self, beat: Heartbeat, age_s: float, now: float) -> None:
        """Take note of a beat as read from the server.

        Args:
            beat: The beat.
            age_s: Its age by the server's clock, used at first sight only.
            now: Monotonic time, seconds.
        """
        seen = self._seen.get(beat.client)
        # A client with one environment makes no others while it plays an evaluation.
        steps = beat.env_steps + (0 if beat.greedy is None else beat.greedy.steps)
        if seen is None:
            self._seen[beat.client] = _Seen(beat.counter, now - max(age_s, 0.0), steps, now)
            return
        if beat.counter != seen.counter:
            seen.counter, seen.changed_at = beat.counter, now
        if steps != seen.steps:
            seen.steps, seen.steps_changed_at = steps, now

    def age_s(self, client: str, now: float) -> float | None:
        """Return seconds since the client's last beat, None when it was never seen."""
        seen = self._seen.get(client)
        return None if seen is None else max(now - seen.changed_at, 0.0)

    def stalled(self, client: str, now: float) -> bool:
        """Whether beats arrive but environment steps don't."""
        seen = self._seen.get(client)
        return seen is not None and now - seen.steps_changed_at > STALLED_S

    def leave_out(self, seconds: float) -> None:
        """Leave a time out of all ages in which no client could have been heard of."""
        for seen in self._seen.values():
            seen.changed_at += seconds
            seen.steps_changed_at += seconds

    def forget(self, client: str) -> None:
        """Drop what is known of a client."""
        self._seen.pop(client, None)


def client_state(
    beat: Heartbeat, age_s: float, grant: Grant | None = None, wish: Wish | None = None
) -> ClientState:
    """Return the state of a client.

    Args:
        beat: Its newest beat.
        age_s: Seconds since that beat.
        grant: What the trainer allows it, None before it was let in.
        wish: What the runner wants of it.
    """
    if beat.leaving:
        return ClientState.LEFT
    if age_s > LOST_S:
        return ClientState.LOST
    if age_s > LATE_S:
        return ClientState.LATE
    if grant is not None and grant.session == beat.session and grant.status != "accepted":
        return ClientState.QUARANTINED if grant.status == "quarantined" else ClientState.REFUSED
    if beat.phase == "paused":
        return ClientState.PAUSED
    if beat.phase in ("finishing", "stopping") or (wish is not None and wish.state in ("finish", "stop")):
        return ClientState.DRAINING
    if beat.phase == "sampling":
        return ClientState.ONLINE
    return ClientState.WAITING if beat.phase == "waiting" else ClientState.JOINING
