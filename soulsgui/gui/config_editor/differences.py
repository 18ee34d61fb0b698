"""Where the next run differs from what is shipped and from the run that goes on. Pure but for the model."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from PySide6.QtCore import QObject

from soulsgui.config.declaring import Effect
from soulsgui.gui import text
from soulsgui.gui.colours import Tone
from soulsgui.gui.config_editor.draft import same
from soulsgui.gui.i18n import tr
from soulsgui.gui.models.records import Column, RecordsModel
from soulsgui.gui.settings_form.row import effect_words
from soulsgui.gui.settings_form.spec import FieldSpec, specs
from soulsgui.gui.states import Look


@dataclass(frozen=True)
class Difference:
    """One setting that is not the same everywhere.

    Attributes:
        spec: The setting.
        shipped: Its shipped value.
        planned: What the next run would use, with what is not saved yet.
        running: What the run uses that goes on; None without a run.
        origin: Where the planned value is written: `yours`, a preset's name, or empty for shipped.
        unsaved: Whether the planned value is not saved yet.
    """

    spec: FieldSpec
    shipped: Any
    planned: Any
    running: Any
    has_running: bool
    origin: str
    unsaved: bool

    @property
    def running_differs(self) -> bool:
        """Whether the run that goes on uses another value than the next one would."""
        return self.has_running and not same(self.spec.key, self.running, self.planned)


YOURS = "yours"


def differences(
    shipped: Mapping[str, Any],
    preset: Mapping[str, Any],
    preset_name: str,
    mine: Mapping[str, Any],
    saved: Mapping[str, Any],
    running: Mapping[str, Any],
) -> list[Difference]:
    """Return every setting that is not the same everywhere, in the order of the file.

    Args:
        shipped: Shipped values, by dotted key.
        preset: What the chosen preset sets.
        preset_name: Its name.
        mine: What the user's text sets.
        saved: What the user's file sets.
        running: What the run that goes on uses; empty without one.
    """
    found = []
    for key, spec in specs().items():
        base = shipped.get(key, spec.info.default)
        below = preset.get(key, base)
        planned = mine.get(key, below)
        one = Difference(
            spec,
            base,
            planned,
            running.get(key),
            key in running,
            YOURS if key in mine else preset_name if key in preset else "",
            not same(key, planned, saved.get(key, below)),
        )
        if not same(key, planned, base) or one.running_differs or one.unsaved:
            found.append(one)
    return found


def still_winning(preset: Mapping[str, Any], mine: Mapping[str, Any]) -> list[str]:
    """Return the user's own settings that a preset would set otherwise."""
    known = specs()
    return [key for key in preset if key in mine and key in known and not same(key, preset[key], mine[key])]


def written(spec: FieldSpec, value: Any) -> str:
    """Return how a value stands in the table."""
    return spec.written(spec.check(value)[0]) or tr("empty")


def _planned(one: Difference) -> str:
    words = written(one.spec, one.planned)
    return tr("{value} (not saved)").format(value=words) if one.unsaved else words


def _origin(one: Difference) -> str:
    if one.origin == YOURS:
        return tr("yours")
    return tr("preset {name}").format(name=one.origin) if one.origin else tr("shipped")


def _running_look(one: Difference) -> Look:
    if one.running_differs:
        return Look("state-info", Tone.BUSY, tr("differs"))
    return Look("", Tone.TEXT, "")


def columns() -> tuple[Column[Difference], ...]:
    """Return every column, from left to right."""
    return (
        Column(
            "key",
            tr("Setting"),
            lambda one: one.spec.key,
            tip=lambda one: one.spec.info.description,
            width=28,
        ),
        Column("shipped", tr("Shipped"), lambda one: written(one.spec, one.shipped), width=18),
        Column(
            "planned",
            tr("Next run"),
            _planned,
            look=lambda one: Look("", Tone.WARNING if one.unsaved else Tone.TEXT, ""),
            width=20,
        ),
        Column("origin", tr("Comes from"), _origin, width=24),
        Column(
            "running",
            tr("Running"),
            lambda one: written(one.spec, one.running) if one.has_running else text.NOTHING,
            look=_running_look,
            width=18,
            about=tr("What the run uses that goes on"),
        ),
        Column("effect", tr("Takes effect"), lambda one: effect_words(one.spec.info.effect)[0], width=18),
    )


class DifferencesModel(RecordsModel[Difference]):
    """The table of differences."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(columns(), lambda one: one.spec.key, parent=parent)


def effect_sentence(keys: Iterable[str]) -> str:
    """Return when saved changes take effect, in words."""
    told = [specs()[key].info for key in keys if key in specs()]
    effects: dict[str, list[str]] = {}
    for info in told:
        # What is saved here a run that is resumed does not look at.
        effect = Effect.NEW_RUN if info.effect is Effect.RESUME else info.effect
        effects.setdefault(effect_words(effect)[0], []).append(info.key)
    sentences = [
        tr("Takes effect with a {effect}: {keys}.").format(effect=effect, keys=", ".join(names))
        for effect, names in effects.items()
    ]
    if later := [info.key for info in told if info.effect is Effect.RESUME]:
        sentence = tr("A run that goes on takes it by `soulsgui run resume --set`: {keys}.")
        sentences.append(sentence.format(keys=", ".join(later)))
    return " ".join(sentences)
