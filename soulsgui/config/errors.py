"""What is said about a configuration with mistakes in it."""

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.errors import SoulsGuiError

MOST_TOLD = 100  # mistakes that are told one by one

_SHOWN = 200
_SURELY_ALIKE = 0.8


def shortened(text: str) -> str:
    """Return what is shown of a value that may be of any length."""
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


@dataclass(frozen=True)
class Problem:
    """One mistake.

    Attributes:
        source: Where the value was written: a file's name, `--set`, or a preset's name.
        line: Line in that file, from 1; None where there are no lines.
        key: Dotted key as it was written; empty for a mistake of the whole file.
        value: The value as it was written; None when the key itself is the mistake.
        reason: What is wrong with it and what was expected.
        nearest: The valid key that looks most like an unknown one.
    """

    source: str
    line: int | None
    key: str
    value: Any
    reason: str
    nearest: str = ""

    def __str__(self) -> str:
        place = f"{self.source}, line {self.line}" if self.line else self.source
        shown = f" = {shortened(repr(self.value))}" if self.value is not None else ""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        subject = f"{shortened(self.key)}{shown}: " if self.key else ""
        return f"{place}: {subject}{self.reason}{hint}"


class ConfigError(SoulsGuiError):
    """The configuration has mistakes; all of them are named, in the order of `problems`."""

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        head = "The configuration has a mistake" if len(problems) == 1 else "The configuration has mistakes"
        lines = "\n".join(f"  {problem}" for problem in problems[:MOST_TOLD])
        if len(problems) > MOST_TOLD:
            lines += f"\n  … and {len(problems) - MOST_TOLD:,} more. Is it a file of settings?"
        super().__init__(f"{head}:\n{lines}", "Fix it and try again.")


_KINDS = {
    "int_from_float": "a whole number",
    "int_parsing": "a whole number",
    "int_type": "a whole number",
    "float_parsing": "a number",
    "float_type": "a number",
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "string_type": "a word: put it in quotes",
    "tuple_type": "a list, such as [64, 64]",
    "dict_type": "a map, such as {key: value}",
}
"""What a value should be, by the kind of mistake that pydantic found."""


def reason_of(detail: Mapping[str, Any]) -> str:
    """Return what is wrong with a value, from one of pydantic's findings, without a full stop."""
    if detail["type"] in _KINDS:
        return f"should be {_KINDS[detail['type']]}"
    message: str = detail["msg"].removeprefix("Value error, ").replace(" after validation", "")
    return re.sub(r"^(Input|List|Tuple|Dictionary|String) should ", "should ", message)


def nearest(word: str, known: Iterable[str]) -> str:
    """Return the known name that was probably meant; empty where none is near enough to be it.

    What stands behind the last dot decides; of those that are about as near, one of the same section counts
    more, then the one that comes first. One of another section has to be nearly the same.
    """
    section, _, tail = word.casefold().rpartition(".")

    def likeness(name: str) -> float:
        its_section, _, its_tail = name.casefold().rpartition(".")
        alike = _likeness(tail, its_tail)
        if section and section != its_section and alike < _SURELY_ALIKE:
            return 0.0
        return alike + 0.15 * _likeness(section, its_section) if alike else 0.0

    best = max(known, key=likeness, default="")
    return best if best and likeness(best) else ""


def _likeness(word: str, name: str) -> float:
    """Return how like two words are, 0 to 1; 0 where nobody would take the one for the other."""
    ratio = difflib.SequenceMatcher(None, word, name).ratio()
    if len(word) >= 3 and name.startswith(word):
        return max(ratio, 0.6)
    return ratio if ratio >= 0.6 else 0.0


def file_problem(path: Path, line: int | None, reason: str) -> ConfigError:
    """Return the error for a file that can't be read as a whole."""
    return ConfigError([Problem(path.name, line, "", None, reason)])
