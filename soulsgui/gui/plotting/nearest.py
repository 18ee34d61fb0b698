"""The checkpoint that is nearest to a position on the curve."""

from collections.abc import Iterable

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


def nearest(found: Iterable[CheckpointInfo], axis: Axis, x: float) -> tuple[CheckpointInfo, str] | None:
    """Return the checkpoint that is nearest, and in words how far away it is; None where there is none."""
    places = [(float(getattr(info, _ALONG[axis])), info) for info in found if info.valid and axis in _ALONG]
    if not places:
        return None
    place, info = min(places, key=lambda one: abs(one[0] - x))
    away = abs(place - x)
    far = text.duration(away) if axis is Axis.TIME else text.percent(100 * away / max(place, abs(x), 1.0))
    return info, f"Nearest checkpoint: update {text.count(info.updates)}, {far} away"
