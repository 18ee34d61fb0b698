"""What the page of plots shows, and its colours, as they are remembered. Pure but for the settings file."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from zlib import crc32

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from PySide6.QtCore import QSettings

from soulsgui.gui.colours import LIGHT
from soulsgui.gui.plotting.controls import USUAL_SMOOTHING
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
    smoothing: int = Field(default=USUAL_SMOOTHING, ge=0, le=100)
    scale: ScaleKind = ScaleKind.LINEAR
    last: float = Field(default=0.0, ge=0.0)  # width of x that is followed, 0 for all of it
    each_client: bool = False
    marks: tuple[str, ...] = (CHECKPOINTS, RESUMES)


class Layouts:
    """What is shown, what was saved under names, and the colours of what is drawn, kept in a settings file.

    Attributes:
        shown: What is shown.
        colours: The numbers of the colours that runs were given.
    """

    def __init__(self, settings: QSettings) -> None:
        self._settings = settings
        self.colours = {run: one for run, one in self._kept(_COLOURS).items() if isinstance(one, int)}
        try:
            self.shown = PlotLayout.model_validate_json(str(settings.value(_LAYOUT)))
        except ValidationError:
            self.shown = PlotLayout()

    def show(self, **what: Any) -> None:
        """Show something else from now on, in these fields of `PlotLayout`."""
        self.shown = self.shown.model_copy(update=what)
        self._settings.setValue(_LAYOUT, self.shown.model_dump_json())

    @property
    def named(self) -> dict[str, PlotLayout]:
        """The layouts that were saved, by name; those that can't be read are left out."""
        found = {}
        for name, kept in self._kept(_LAYOUTS).items():
            try:
                found[name] = PlotLayout.model_validate(kept)
            except ValidationError:
                continue
        return found

    def save(self, name: str) -> None:
        """Save what is shown under a name; the one that had it is replaced."""
        self._keep_named(self._newest_named() | {name: self.shown})

    def forget(self, name: str) -> None:
        """Forget the layout of this name."""
        self._keep_named({one: layout for one, layout in self._newest_named().items() if one != name})

    def _newest_named(self) -> dict[str, PlotLayout]:
        self._settings.sync()  # a window of another data folder may have saved one
        return self.named

    def _keep_named(self, named: Mapping[str, PlotLayout]) -> None:
        told = {name: layout.model_dump(mode="json") for name, layout in named.items()}
        self._settings.setValue(_LAYOUTS, json.dumps(told))

    def give_colours(self, shown: Sequence[str]) -> None:
        """Give each of these a colour that none beside it has; those drawn before keep theirs."""
        for place, run in enumerate(shown):
            beside = shown[:place] if run in self.colours else shown
            self.colours[run] = give_colour(run, self.colours, beside)
        self._settings.setValue(_COLOURS, json.dumps(dict(list(self.colours.items())[-_MOST_COLOURS:])))

    def _kept(self, key: str) -> dict[str, object]:
        try:
            found = json.loads(str(self._settings.value(key)))
        except (ValueError, RecursionError):
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
