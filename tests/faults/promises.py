"""Lists of what is held, and of the tests that hold it, as tables of a README: here those of faults."""

import ast
import re
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parents[1]
README = Path(__file__).with_name("README.md")


ROWS = re.findall(
    r"^\| (.*?) ?\| `(\S+)` `(\S+)` \| (.+) \|$", README.read_text(encoding="utf-8"), re.MULTILINE
)
"""What is promised, file, test, form; a row without a promise is a further test of the last one."""


def _by_promise() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for promise, file, test, _ in ROWS:
        if named := re.match(r"\*\*(\w+)\*\* .", promise):
            tests = found[named[1]] = []
        tests.append(f"{file}::{test}")
    return found


PROMISES = _by_promise()
"""Of each promise where it is tested: `file::function`, below `tests/`."""


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
