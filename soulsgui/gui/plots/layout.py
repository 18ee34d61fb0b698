"""What the page of plots shows, and its colours, as they are remembered. Pure but for the settings file."""

import json
from collections.abc import Iterable, Mapping
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from PySide6.QtCore import QSettings

from soulsgui.gui.colours import LIGHT
from soulsgui.gui.plotting.marks import CHECKPOINTS, RESUMES
from soulsgui.gui.plotting.rows import RETURN, Axis
from soulsgui.gui.plotting.scale import ScaleKind

_LAYOUT, _LAYOUTS, _COLOURS = "plots/layout", "plots/layouts", "plots/colours"
_MOST_COLOURS = 500


class PlotLayout(BaseModel):
    """What is drawn, and how. Without runs it is the one that goes on, or went on last."""

    model_config = ConfigDict(frozen=True)

    metrics: tuple[str, ...] = (RETURN,)
    runs: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    axis: Axis = Axis.ENV_STEP
    smoothing: int = Field(default=40, ge=0, le=100)
    scale: ScaleKind = ScaleKind.LINEAR
    last: float = Field(default=0.0, ge=0.0)  # width of x that is followed, 0 for all of it
    each_client: bool = False
    marks: tuple[str, ...] = (CHECKPOINTS, RESUMES)


def kept_layout(settings: QSettings) -> PlotLayout:
    """Return what was shown last."""
    try:
        return PlotLayout.model_validate_json(str(settings.value(_LAYOUT)))
    except ValidationError:
        return PlotLayout()


def keep_layout(settings: QSettings, layout: PlotLayout) -> None:
    """Remember what is shown."""
    settings.setValue(_LAYOUT, layout.model_dump_json())


def named_layouts(settings: QSettings) -> dict[str, PlotLayout]:
    """Return the layouts that were saved, by name; those that can't be read are left out."""
    found = {}
    for name, kept in _kept(settings, _LAYOUTS).items():
        try:
            found[name] = PlotLayout.model_validate(kept)
        except ValidationError:
            continue
    return found


def keep_layouts(settings: QSettings, layouts: Mapping[str, PlotLayout]) -> None:
    """Remember these layouts, and no others."""
    told = {name: layout.model_dump(mode="json") for name, layout in layouts.items()}
    settings.setValue(_LAYOUTS, json.dumps(told))


def kept_colours(settings: QSettings) -> dict[str, int]:
    """Return the numbers of the colours that runs were given."""
    return {run: number for run, number in _kept(settings, _COLOURS).items() if isinstance(number, int)}


def keep_colours(settings: QSettings, colours: Mapping[str, int]) -> None:
    """Remember the colours that were given last."""
    settings.setValue(_COLOURS, json.dumps(dict(list(colours.items())[-_MOST_COLOURS:])))


def _kept(settings: QSettings, key: str) -> dict[str, object]:
    try:
        found = json.loads(str(settings.value(key)))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def give_colour(name: str, given: Mapping[str, int], beside: Iterable[str]) -> int:
    """Return the number of a curve's colour: the one it had, or else the first that none beside it has.

    The one it had is given up where one beside it has the same; where all are taken its name decides.
    """
    taken = {given[other] for other in beside if other in given and other != name}
    count = len(LIGHT.curves)
    free = [number for number in range(count) if number not in taken]
    if given.get(name) in free or (name in given and not free):
        return given[name]
    return free[0] if free else crc32(name.encode()) % count
