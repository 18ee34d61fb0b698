"""What a plot says in words: its axis, and the values under the crosshair."""

from collections.abc import Sequence
from datetime import datetime

from soulsgui.gui import text
from soulsgui.gui.i18n import tr
from soulsgui.gui.plotting.attempt import Reading
from soulsgui.gui.plotting.marks import Mark
from soulsgui.gui.plotting.rows import Axis


def axis_title(axis: Axis) -> str:
    """Return what x means."""
    return {
        Axis.EPISODE: tr("Episode"),
        Axis.ENV_STEP: tr("Environment steps"),
        Axis.TIME: tr("Wall time"),
    }[axis]


def reading_text(
    readings: Sequence[tuple[str, Reading]], axis: Axis, mark: Mark | None, reach: float = 0.0
) -> str:
    """Return the values under the crosshair.

    Args:
        readings: Name of each curve and its row nearest to the crosshair, at least one; the nearest first.
        axis: What x means: that number comes first.
        mark: A mark near the crosshair.
        reach: How far along x another curve's row may be from the first one to be told as if it stood there.
    """
    first = readings[0][1]
    place, also = _places(first, axis)
    values = [_value(name, reading, alone=len(readings) == 1) for name, reading in readings]
    for number, (_, reading) in enumerate(readings):
        if abs(reading.x - first.x) > reach:
            values[number] = tr("{value} at {place}").format(
                value=values[number], place=_places(reading, axis)[0]
            )
    return " · ".join([place, *values, also, *([mark.text] if mark else [])])


def _places(reading: Reading, axis: Axis) -> tuple[str, str]:
    """Return where a row stands on x, and what else tells it."""
    episode = tr("episode {number}").format(number=text.count(reading.episode))
    steps = tr("step {number}").format(number=text.count(reading.env_steps))
    moment = f"{datetime.fromtimestamp(reading.time):%H:%M:%S}"
    return {
        Axis.EPISODE: (episode, moment),
        Axis.ENV_STEP: (steps, moment),
        Axis.TIME: (moment, episode),
    }[axis]


def _value(name: str, reading: Reading, alone: bool) -> str:
    value, smooth = text.value(reading.value), text.value(reading.smooth)
    if not alone:
        # There is no room for more.
        return f"{name} {value}"
    words = value if value == smooth else tr("{value} (smoothed {smooth})").format(value=value, smooth=smooth)
    if reading.count == 1:
        return words
    return tr("mean of {count}: {words}").format(count=text.count(reading.count), words=words)
