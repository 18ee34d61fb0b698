"""What is wrong with a configuration, in words, by setting and by line. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from soulsgui.config.errors import Problem
from soulsgui.gui.config_editor.draft import FILE_NAME
from soulsgui.gui.i18n import tr


def read_problems(plain: Iterable[Mapping[str, Any]]) -> list[Problem]:
    """Return the problems that `config.check` or `config.get` tells."""
    return [
        Problem(
            str(one.get("source", "")),
            one.get("line"),
            str(one.get("key") or ""),
            one.get("value"),
            str(one.get("reason", "")),
            str(one.get("nearest") or ""),
        )
        for one in plain
    ]


def reason(problem: Problem) -> str:
    """Return what is wrong, without the place: `Should be less than 1. Did you mean …?`"""
    words = _ended(problem)
    return words[:1].upper() + words[1:]


def sentence(problem: Problem) -> str:
    """Return the whole of it: `Line 4: ppo.gama is not a setting. Did you mean ppo.gamma?`"""
    line = line_of(problem)
    place = tr("Line {line}: ").format(line=line) if line else ""
    if not line and problem.source not in ("", FILE_NAME):
        place = f"{problem.source}: "
    if not problem.key:
        return place + reason(problem)
    if problem.value is None:
        return f"{place}{problem.key} {_ended(problem)}"
    return f"{place}{problem.key} = {problem.value!r}: {_ended(problem)}"


def _ended(problem: Problem) -> str:
    words = problem.reason if problem.reason.endswith((".", "!", "?")) else f"{problem.reason}."
    return f"{words} {tr('Did you mean {key}?').format(key=problem.nearest)}" if problem.nearest else words


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
