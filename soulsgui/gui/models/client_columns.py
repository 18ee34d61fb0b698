"""The columns of the client table: title, what it shows, what it sorts by. Pure."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.states import client_look, shown_state
from soulsgui.wire.control import ClientStatus
from soulsgui.wire.situation import is_paused_there

KEPT_RATES = 60
"""Rates that are remembered of each client: with one a second, the last minute."""


class Seen:
    """A client's status, when it came in, and its rates of the last minute.

    Not a dataclass: ten thousand are made several times a second.

    Args:
        status: As the server told it.
        at: Monotonic time of this machine when it was told, seconds.

    Attributes:
        rates: Environment steps per second, oldest first.
    """

    __slots__ = ("at", "rates", "status")

    def __init__(self, status: ClientStatus, at: float) -> None:
        self.status = status
        self.at = at
        self.rates: deque[float] = deque((status.env_steps_per_s,), maxlen=KEPT_RATES)

    def age_s(self, now: float) -> float | None:
        """Return seconds since the last sign of life: the server's count, gone on by our own clock."""
        if self.status.age_s is None:
            return None
        return self.status.age_s + max(now - self.at, 0.0)


@dataclass(frozen=True)
class Column:
    """One column.

    Attributes:
        name: Identifies it in saved settings and in tests.
        title: Its heading, translated.
        shown: Text of a cell, given the client and the monotonic time.
        key: What its rows are sorted by.
        number: Whether it holds numbers, written to the right; sorts downwards at first.
        width: Width in characters.
        about: What the heading explains; empty for its title.
    """

    name: str
    title: str
    shown: Callable[[Seen, float], str]
    key: Callable[[Seen], Any]
    number: bool = False
    width: int = 10
    about: str = ""


_LOWEST = float("-inf")


def state_words(status: ClientStatus, age_s: float | None = None) -> str:
    """Return a client's state with what else there is to say: a wish still to be followed, a stall.

    Args:
        status: As the server told it.
        age_s: Seconds since its last sign of life; None leaves them out.
    """
    state = shown_state(status)
    word = client_look(state).word
    if state == "invited":
        never = tr("{state} again, not yet seen") if status.invited_again else tr("{state}, never seen")
        word = never.format(state=word)
    elif state == "lost" and age_s is not None:
        word = tr("{state} for {time}").format(state=word, time=text.about(age_s))
    if is_paused_there(status.state, status.wish):
        return tr("{state} there").format(state=word)
    if status.stalled and status.state == "online":
        return tr("{state}, stalled").format(state=word)
    away = state in ("late", "lost", "left", "invited")
    wishes = {
        "pause": tr("will pause when back"),
        "finish": tr("will stop when back"),
        "stop": tr("will stop when back"),
    }
    if away and status.wish in wishes:
        return tr("{state}, {wish}").format(state=word, wish=wishes[status.wish])
    return word


def columns() -> tuple[Column, ...]:
    """Return every column, from left to right."""
    return (
        Column(
            "state",
            tr("State"),
            lambda seen, now: state_words(seen.status, seen.age_s(now)),
            lambda seen: client_look(shown_state(seen.status)).rank,
            width=32,
        ),
        Column("name", tr("Client"), lambda seen, now: seen.status.name, _name, width=16),
        Column(
            "host",
            tr("Host"),
            lambda seen, now: seen.status.host or text.NOTHING,
            lambda seen: seen.status.host,
            width=14,
        ),
        Column(
            "env",
            tr("Environment"),
            lambda seen, now: _environment(seen.status),
            lambda seen: seen.status.env_id,
            width=22,
        ),
        _number("episodes", tr("Episodes"), lambda s: text.count(s.episodes), lambda s: s.episodes),
        _number("last", tr("Last return"), lambda s: text.value(s.last_return), lambda s: s.last_return),
        _number("mean", tr("Mean return"), lambda s: text.value(s.mean_return), lambda s: s.mean_return),
        _number(
            "rate",
            tr("Steps/s"),
            lambda s: text.compact(s.env_steps_per_s) if s.env_steps_per_s else text.NOTHING,
            lambda s: s.env_steps_per_s,
            tr("Environment steps per second, and how they were in the last minute"),
            width=20,
        ),
        _number(
            "waits",
            tr("Waits"),
            lambda s: text.percent(100 * s.waiting) if s.waiting else text.NOTHING,
            lambda s: s.waiting,
            tr("Part of the last seconds in which it waited for the trainer: for credits, or the next round"),
        ),
        _number(
            "lag",
            tr("Policy lag (updates)"),
            lambda s: text.count(s.lag),
            lambda s: s.lag,
            tr("Updates between the weights it plays with and the newest ones"),
            width=18,
        ),
        _number(
            "buffered",
            tr("Buffered"),
            lambda s: text.count(s.buffered),
            lambda s: s.buffered,
            tr("Segments that wait to be sent"),
        ),
        _number("dropped", tr("Dropped"), lambda s: text.count(s.dropped), lambda s: s.dropped),
        _number(
            "rejected",
            tr("Rejected"),
            lambda s: text.count(sum(s.rejected.values())),
            lambda s: sum(s.rejected.values()),
            tr("Segments that the trainer refused; the tooltip of a cell tells the reasons"),
        ),
        Column(
            "age",
            tr("Heartbeat"),
            lambda seen, now: text.heartbeat(seen.age_s(now)),
            # The younger the beat, the greater the moment: independent of the time of sorting.
            lambda seen: seen.at - seen.status.age_s if seen.status.age_s is not None else float("-inf"),
            number=True,
            about=tr("Time since its last sign of life, by the server's clock"),
        ),
        Column(
            "version",
            tr("Version"),
            lambda seen, now: seen.status.version or text.NOTHING,
            lambda seen: seen.status.version,
        ),
        Column(
            "error",
            tr("Last error"),
            lambda seen, now: seen.status.error,
            lambda seen: seen.status.error,
            width=30,
        ),
    )


def _name(seen: Seen) -> tuple[Any, ...]:
    """Sort `gamer-9` before `gamer-10`."""
    head, dash, tail = seen.status.name.rpartition("-")
    return (head.lower(), int(tail)) if dash and tail.isdecimal() else (seen.status.name.lower(), -1)


def _environment(status: ClientStatus) -> str:
    if not status.env_id:
        return text.NOTHING
    return f"{status.env_id} × {status.num_envs}" if status.num_envs > 1 else status.env_id


def _number(
    name: str,
    title: str,
    shown: Callable[[ClientStatus], str],
    key: Callable[[ClientStatus], float | None],
    about: str = "",
    width: int = 11,
) -> Column:
    return Column(
        name,
        title,
        lambda seen, now: shown(seen.status),
        lambda seen: _LOWEST if (number := key(seen.status)) is None else number,
        number=True,
        width=width,
        about=about,
    )
