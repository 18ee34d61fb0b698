"""The checkpoint that is nearest to a position on the curve."""

from collections.abc import Iterable

from soulsgui.errors import counted
from soulsgui.gui import text
from soulsgui.gui.plotting.rows import Axis
from soulsgui.wire.control import CheckpointInfo

_ALONG = {
    Axis.ENV_STEP: "env_steps",
    Axis.EPISODE: "episodes",
    Axis.UPDATE: "updates",
    Axis.TIME: "created",
}
"""What tells where a checkpoint stands; along training time nothing does."""

_UNITS = {Axis.ENV_STEP: "step", Axis.EPISODE: "episode", Axis.UPDATE: "update"}


def nearest(found: Iterable[CheckpointInfo], axis: Axis, x: float) -> tuple[CheckpointInfo, str] | None:
    """Return the checkpoint that is nearest, and in words how far from here; None where there is none."""
    places = [(float(getattr(info, _ALONG[axis])), info) for info in found if info.valid and axis in _ALONG]
    if not places:
        return None
    place, info = min(places, key=lambda one: abs(one[0] - x))
    away = round(abs(place - x))
    far = text.duration(away) if axis is Axis.TIME else counted(away, _UNITS[axis])
    where = f"{far} {'earlier' if place < x else 'later'}" if away else "right here"
    return info, f"Nearest checkpoint: update {text.count(info.updates)}, {where}"
