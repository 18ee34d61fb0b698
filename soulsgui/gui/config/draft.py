"""The text of config.yaml from reading to saving, and what is wrong with it in words. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from soulsgui.config.editing import with_values
from soulsgui.config.errors import ConfigError, Problem, shortened
from soulsgui.config.parsing import PRESET_KEY, Layer, parse_layer
from soulsgui.gui.settings.spec import as_yaml, plain, specs

FILE_NAME = "config.yaml"


def same(key: str, one: Any, other: Any) -> bool:
    """Whether two values of a setting mean the same, such as a list and a tuple."""
    check = specs()[key].check
    return bool(check(one)[0] == check(other)[0])


def read(text: str) -> Layer | None:
    """Return what a text sets; None when it is not YAML, or a key is written twice in it."""
    try:
        layer = parse_layer(text, FILE_NAME)
    except ConfigError:
        return None
    return None if layer.ambiguous else layer


def with_wanted(text: str, layer: Layer, wanted: Mapping[str, Any], preset: str) -> str:
    """Return a text that sets exactly what is wanted; everything else in it stays."""
    changes: dict[str, Any] = {}
    if preset and preset != layer.preset:
        changes[PRESET_KEY] = preset
    for key, value in wanted.items():
        if key not in layer.values or not same(key, layer.values[key], value):
            changes[key] = plain(value)
    gone = [key for key in layer.values if key in specs() and key not in wanted]
    if layer.preset and not preset:
        gone.append(PRESET_KEY)
    return with_values(text, changes, tuple(gone)) if changes or gone else text


def merged(base: Layer, mine: Layer, theirs: str) -> str | None:
    """Return their text with my changes of values in it; None when theirs is not YAML."""
    layer = read(theirs)
    if layer is None:
        return None
    wanted = {key: value for key, value in layer.values.items() if key in specs()}
    for key, value in mine.values.items():
        if key in specs() and (key not in base.values or not same(key, base.values[key], value)):
            wanted[key] = value
    for key in base.values:
        if key not in mine.values:
            wanted.pop(key, None)
    preset = mine.preset if mine.preset != base.preset else layer.preset
    return with_wanted(theirs, layer, wanted, preset)


class Draft:
    """A text on its way from the file to the file."""

    def __init__(self, text: str = "", text_hash: str = "") -> None:
        self.base_text = text
        self.base_hash = text_hash
        self.text = text
        # What the file and the text set; None when it is not YAML.
        self.saved = read(text)
        self.layer = self.saved

    @property
    def dirty(self) -> bool:
        """Whether there is something to save."""
        return self.text != self.base_text

    @property
    def mergeable(self) -> bool:
        """Whether its changes are changes of values, which can be put into another text."""
        return self.saved is not None and self.layer is not None

    def write(self, text: str) -> None:
        """Take a text typed by hand."""
        if text != self.text:
            self.text = text
            self.layer = read(text)

    def want(self, wanted: Mapping[str, Any], preset: str) -> None:
        """Take the values of a form; a text that is not YAML stays as it is."""
        if self.layer is not None:
            self.write(with_wanted(self.text, self.layer, wanted, preset))

    def rebase(self, text: str, text_hash: str) -> None:
        """The file has this text now; what was typed stays."""
        self.base_text, self.base_hash = text, text_hash
        self.saved = read(text)

    def merge(self, text: str, text_hash: str) -> bool:
        """Put the changes of values into another text of the file; False when they can't be."""
        if self.saved is None or self.layer is None:
            return False
        mixed = merged(self.saved, self.layer, text)
        if mixed is None:
            return False
        self.rebase(text, text_hash)
        self.write(mixed)
        return True


def changed_keys(before: Layer | None, after: Layer | None) -> list[str]:
    """Return the settings that two texts set differently, in the order of the file."""
    old: Mapping[str, Any] = before.values if before is not None else {}
    new: Mapping[str, Any] = after.values if after is not None else {}
    missing = object()
    return [key for key in specs() if old.get(key, missing) != new.get(key, missing)]


def read_problems(plain: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Return the problems that `config.check` or `config.get` tells."""
    return [
        Problem(
            str(one.get("source", "")),
            _line(one.get("line")),
            str(one.get("key") or ""),
            one.get("value"),
            str(one.get("reason", "")),
            str(one.get("nearest") or ""),
        )
        for one in plain
    ]


_MOST_LINES = 2**31 - 1  # that a text on the screen can have


def _line(told: object) -> int | None:
    return told if isinstance(told, int) and 1 <= told <= _MOST_LINES else None


def reason(problem: Problem) -> str:
    """Return what is wrong, without the place: `Should be less than 1. Did you mean …?`"""
    words = _ended(problem)
    return words[:1].upper() + words[1:]


def sentence(problem: Problem) -> str:
    """Return the whole of it: `Line 4: ppo.gama is not a setting. Did you mean ppo.gamma?`"""
    line = line_of(problem)
    place = f"Line {line}: " if line else ""
    if not line and problem.source not in ("", FILE_NAME):
        place = f"{problem.source}: "
    if not problem.key:
        return place + reason(problem)
    if problem.value is None:
        return f"{place}{problem.key} {_ended(problem)}"
    return f"{place}{problem.key} = {shortened(as_yaml(problem.value))}: {_ended(problem)}"


def _ended(problem: Problem) -> str:
    words = problem.reason if problem.reason.endswith((".", "!", "?")) else f"{problem.reason}."
    return f"{words} Did you mean {problem.nearest}?" if problem.nearest else words


def line_of(problem: Problem) -> int | None:
    """Return the line of config.yaml it is in, from 1; None for problems elsewhere."""
    return problem.line if problem.source in ("", FILE_NAME) else None


def by_key(problems: Iterable[Problem]) -> dict[str, str]:
    """Return what is wrong with each setting."""
    found: dict[str, str] = {}
    for problem in problems:
        if problem.key:
            found.setdefault(problem.key, reason(problem))
    return found


def by_line(problems: Iterable[Problem]) -> dict[int, str]:
    """Return what is wrong in each line of config.yaml."""
    found: dict[int, str] = {}
    for problem in problems:
        line = line_of(problem)
        if line is not None:
            found[line] = f"{found[line]}\n{reason(problem)}" if line in found else reason(problem)
    return found
