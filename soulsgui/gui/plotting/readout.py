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


def reading_text(readings: Sequence[tuple[str, Reading]], axis: Axis, mark: Mark | None) -> str:
    """Return the values under the crosshair.

    Args:
        readings: Name of each curve and the row nearest to the crosshair, at least one.
        axis: What x means: that number comes first.
        mark: A mark near the crosshair.
    """
    first = readings[0][1]
    episode = tr("episode {number}").format(number=text.count(first.episode))
    steps = tr("step {number}").format(number=text.count(first.env_steps))
    moment = f"{datetime.fromtimestamp(first.time):%H:%M:%S}"
    places = {
        Axis.EPISODE: [episode, moment],
        Axis.ENV_STEP: [steps, moment],
        Axis.TIME: [moment, episode],
    }[axis]
    values = [_value(name, reading, alone=len(readings) == 1) for name, reading in readings]
    return " · ".join([places[0], *values, places[1], *([mark.text] if mark else [])])


def _value(name: str, reading: Reading, alone: bool) -> str:
    value, smooth = text.value(reading.value), text.value(reading.smooth)
    shown = value if value == smooth else tr("{value} (smoothed {smooth})").format(value=value, smooth=smooth)
    return shown if alone else f"{name} {shown}"
