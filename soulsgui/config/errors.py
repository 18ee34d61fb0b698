"""What is said about a configuration with mistakes in it."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from soulsgui.errors import SoulsGuiError


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
        shown = f" = {self.value!r}" if self.value is not None else ""
        hint = f" Did you mean {self.nearest}?" if self.nearest else ""
        subject = f"{self.key}{shown}: " if self.key else ""
        return f"{place}: {subject}{self.reason}{hint}"


class ConfigError(SoulsGuiError):
    """The configuration has mistakes; all of them are named.

    Args:
        problems: Every mistake found, in the order of the layers.
    """

    exit_code = 2

    def __init__(self, problems: list[Problem]) -> None:
        self.problems = problems
        head = "The configuration has a mistake" if len(problems) == 1 else "The configuration has mistakes"
        lines = "\n".join(f"  {problem}" for problem in problems)
        super().__init__(f"{head}:\n{lines}", "Nothing was done. Mend it and try again.")


def nearest(word: str, known: list[str]) -> str:
    """Return the known word most like `word`, or an empty string when none is close."""
    close = difflib.get_close_matches(word, known, n=1, cutoff=0.6)
    if close:
        return close[0]
    tails = {name.rsplit(".", 1)[-1]: name for name in known}
    close = difflib.get_close_matches(word.rsplit(".", 1)[-1], list(tails), n=1, cutoff=0.7)
    return tails[close[0]] if close else ""


def file_problem(path: Path, line: int | None, reason: str) -> ConfigError:
    """Return the error for a file that can't be read as a whole."""
    return ConfigError([Problem(path.name, line, "", None, reason)])
