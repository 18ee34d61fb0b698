"""Numbers, times, sizes and words of others as people read them. Pure: the time of day comes in."""

import html
import math
import sys
from datetime import datetime
from itertools import pairwise
from typing import TypeGuard

from pydantic import ValidationError

from soulsgui.errors import printable
from soulsgui.wire.messages.base import LONGEST_DETAILS

NOTHING = "—"
_NO_MARKUP = str.maketrans("<>&", "‹›＆")
_SIZES = ("B", "KB", "MB", "GB", "TB", "PB")
_DAY_S = 86_400
_LATEST = 32_500_000_000  # as `Moment` has it: near the end of the year 2999
_UNITS = ((_DAY_S, "d"), (3600, "h"), (60, "min"), (1, "s"))


def plain(words: str, most: int | None = LONGEST_DETAILS) -> str:
    """Return words to be shown, cut and without what steers; other computers and files may say anything."""
    return printable(words, most, lines=True)


def tip(words: str) -> str:
    """Return words for a tooltip, as text whatever stands in them.

    Qt follows what looks like markup, even to files, and errors of other computers stand in tooltips.
    """
    words = plain(words)
    return f"<p>{html.escape(words).replace(chr(10), '<br>')}</p>" if "<" in words or "&" in words else words


def spaced(markup: str) -> str:
    """Return a paragraph of several lines with room between them."""
    return f'<p style="line-height: 120%">{markup}</p>'


def unmarked(words: str) -> str:
    """Return words for a notification, whose desktop may follow what looks like markup."""
    return plain(words).translate(_NO_MARKUP)


def count(number: int | None) -> str:
    """Return a whole number with separators: 41200 becomes `41,200`."""
    return NOTHING if number is None else f"{number:,}"


def plural(number: int, one: str, many: str) -> str:
    """Return the text for exactly one, or the one for every other number, which stands in it as `{n}`."""
    return (one if number == 1 else many).format(n=f"{number:,}")


def _is_shown(number: float | None) -> TypeGuard[float]:
    """Whether a number is one that can be shown: a server may tell any, also whole ones beyond all floats."""
    return number is not None and abs(number) <= sys.float_info.max  # NaN is not


def compact(number: float | None) -> str:
    """Return a large number in few characters: 1234567 becomes `1.23 M`."""
    if not _is_shown(number):
        return NOTHING
    if abs(number) >= 1e12:
        return f"{number:.3g}"
    for limit, unit in ((1e9, " G"), (1e6, " M"), (1e4, " k")):
        if abs(number) >= limit:
            factor = 1e3 if unit == " k" else limit
            return _three_digits(number / factor) + unit
    return f"{number:,.0f}"


def value(number: float | None) -> str:
    """Return a measured value with three or four digits: `475.3`, `31.4`, `0.0213`, `1.2e-05`, `1e+308`."""
    if not _is_shown(number):
        return NOTHING
    size = abs(number)
    if size == 0:
        return "0"
    if size >= 1e9:  # a client may tell any
        return f"{number:.3g}"
    if size >= 1000:
        return f"{number:,.0f}"
    if size >= 99.95:
        return f"{number:.1f}"
    return f"{number:.1e}" if size < 1e-3 else _three_digits(number)


def _three_digits(number: float) -> str:
    size = abs(number)
    # Rounding may add a digit: 9.996 is 10.0, not 10.00.
    decimals = 0 if size >= 99.95 else 1 if size >= 9.995 else 2 if size >= 0.9995 else 3
    return f"{number:,.{decimals}f}"


def rate(per_second: float | None, unit: str) -> str:
    """Return a rate such as `118 steps/s`."""
    if not per_second or not _is_shown(per_second):
        return NOTHING
    shown = compact(per_second) if per_second >= 99.95 else value(per_second)
    return f"{shown} {unit}/s"


def size(number: int | float | None) -> str:
    """Return a number of bytes such as `61.2 GB` (powers of 1000)."""
    if not _is_shown(number) or number < 0:
        return NOTHING
    scaled, unit = float(number), 0
    while scaled >= 999.5 and unit < len(_SIZES) - 1:
        scaled /= 1000
        unit += 1
    if unit == 0:
        return f"{scaled:.0f} B"
    return f"{_three_digits(scaled)} {_SIZES[unit]}"


def percent(number: float | None) -> str:
    """Return a percentage such as `38 %`, with a decimal below 10."""
    if not _is_shown(number):
        return NOTHING
    return f"{number:.1f} %" if 0 < abs(number) < 9.95 else f"{number:.0f} %"


def duration(seconds: float | None) -> str:
    """Return how long something takes, in the two largest units: `0.6 s`, `14 s`, `3 min 5 s`, `2 d 4 h`."""
    if not _is_shown(seconds) or seconds < 0:
        return NOTHING
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for (unit_s, unit), (part_s, part) in pairwise(_UNITS):
        if whole >= unit_s:
            rest = whole % unit_s // part_s
            return f"{whole // unit_s} {unit}" + (f" {rest} {part}" if rest else "")
    return f"{whole} s"


def about(seconds: float | None) -> str:
    """Return how long something takes in its largest unit alone: `2 min`, `3 h`, `5 d`."""
    if not _is_shown(seconds) or seconds < 0:
        return NOTHING
    unit_s, unit = next((one for one in _UNITS if seconds >= one[0]), _UNITS[-1])
    return f"{int(seconds // unit_s)} {unit}"


def ago(seconds: float | None) -> str:
    """Return how long ago something was: `just now`, `14 s ago`, `2 min ago`."""
    if not _is_shown(seconds):
        return NOTHING
    return "just now" if seconds < 1 else f"{about(seconds)} ago"


def heartbeat(seconds: float | None) -> str:
    """Return the age of a heartbeat, with tenths where they tell something: `0.6 s`, `14 s`, `3 min`."""
    if not _is_shown(seconds):
        return NOTHING
    return duration(max(seconds, 0.0)) if seconds < 60 else about(seconds)


def uptime(seconds: float | None) -> str:
    """Return a running time like a stopwatch: `00:41:07`, `2 d 00:41`."""
    if not _is_shown(seconds) or seconds < 0:
        return NOTHING
    days, rest = divmod(int(seconds), _DAY_S)
    hours, minutes = rest // 3600, rest % 3600 // 60
    if days:
        return f"{days} d {hours:02}:{minutes:02}"
    return f"{hours:02}:{minutes:02}:{rest % 60:02}"


def clock(moment: float, now: float) -> str:
    """Return a moment as one reads it on a clock; with its date when it is not of today."""
    if not 0 <= moment <= _LATEST:
        return NOTHING
    then, today = datetime.fromtimestamp(moment), datetime.fromtimestamp(now)
    if then.date() == today.date():
        return f"{then:%H:%M:%S}"
    return f"{then:%Y-%m-%d %H:%M}"


def until(moment: float, now: float) -> str:
    """Return when something ends, to the minute; with its date when that is not today."""
    if not 0 <= moment <= _LATEST:
        return NOTHING
    whole = 60.0 * math.ceil(moment / 60.0)
    then, today = datetime.fromtimestamp(whole), datetime.fromtimestamp(now)
    return f"{then:%H:%M}" if then.date() == today.date() else f"{then:%Y-%m-%d %H:%M}"


def first_mistake(error: ValidationError) -> str:
    """Return the first thing that is wrong with a message, and where."""
    wrong = error.errors(include_url=False, include_context=False, include_input=False)[0]
    return printable(": ".join((".".join(map(str, wrong["loc"])), wrong["msg"])))


def sentence(words: str) -> str:
    """Return words with a full stop, unless they end in a mark of their own."""
    return words if not words or words[-1] in ".!?:…" else f"{words}."


def reasons(rejected: dict[str, int]) -> str:
    """Return numbers by reason, the most frequent first: `12 late, 3 shape`."""
    ordered = sorted(rejected.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{number:,} {reason}" for reason, number in ordered if number) or NOTHING
