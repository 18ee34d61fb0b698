"""Lists of what is held, and of the tests that hold it, as tables of a README: here those of faults."""

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")


@dataclass(frozen=True)
class Promise:
    """One promise.

    Attributes:
        what: The promise, in words.
        tests: Where it is tested: `file::function`, below `tests/`.
    """

    what: str
    tests: tuple[str, ...]


def read_promises(text: str) -> dict[str, Promise]:
    """Return the promises of a table, by their name; a row without one is a further test of the last one."""
    found: dict[str, Promise] = {}
    for head, file, test in re.findall(r"^\| (.*?) ?\| `(\S+)` `(\S+)` \|", text, re.MULTILINE):
        if head:
            name, what = re.fullmatch(r"\*\*(\w+)\*\* (.*)", head).groups()  # type: ignore[union-attr]
            found[name] = Promise(what, ())
        found[name] = Promise(found[name].what, (*found[name].tests, f"{file}::{test}"))
    return found


PROMISES = read_promises(README.read_text(encoding="utf-8"))


@cache
def forms(file: str) -> dict[str, str]:
    """Return the form of each test of a file: `quick`, `slow`, or `quick, slow` when it has both."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    named = {
        target.id: ast.unparse(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    found = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            marks = [ast.unparse(mark) for mark in node.decorator_list]
            whole = any(mark == "pytest.mark.slow" for mark in marks)
            used = [*marks, *(named.get(mark.rpartition(", ")[2].rstrip(")"), "") for mark in marks)]
            some = any("mark.slow" in text for text in used)
            found[node.name] = "slow" if whole else "quick, slow" if some else "quick"
    return found


def rows(promises: Mapping[str, Promise]) -> str:
    """Return a row of the table for each test of each promise."""
    found = []
    for name, promise in promises.items():
        first = f"**{name}** {promise.what}"
        for place in promise.tests:
            file, _, test = place.partition("::")
            found.append(f"| {first} | `{file}` `{test}` | {forms(file)[test]} |\n")
            first = ""
    return "".join(found)
