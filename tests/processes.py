"""Which tests start processes: those whose code, or that of what they use, names something that does.

A test's code is that of the test, of the fixtures it is given, and of what these name in `tests`. A test that
starts a process all the same without being found fails (`tests/conftest.py`); it is marked by hand.
"""

import types
from collections.abc import Iterator

import pytest

STARTERS = frozenset(
    {
        "subprocess", "Popen", "Runner", "ClientRunner", "Supervisor", "Service", "ensure_server",
        "start_runner", "SpreadStepper", "learning_together", "Drawing", "find_binary",
        "packaged_binary", "probe_environment", "examine", "LocalProcesses",
    }
)  # fmt: skip
"""Names of what starts processes."""

_reached: dict[object, bool] = {}
"""What was found of a function or class of the tests; False while it is looked at."""


def starts_processes(item: pytest.Function) -> bool:
    """Whether a test is one of those that start processes."""
    fixtures = item._fixtureinfo.name2fixturedefs.values()
    functions = [item.function, *(made[-1].func for made in fixtures)]
    return any(_reaches(function) for function in functions)


def _reaches(found: object) -> bool:
    """Whether a function or class of the tests names a starter, or another one that does."""
    while hasattr(found, "__wrapped__") or isinstance(found, property):
        found = found.fget if isinstance(found, property) else found.__wrapped__
    if not isinstance(found, type | types.FunctionType) or not (found.__module__ or "").startswith("tests."):
        return False
    if found not in _reached:
        _reached[found] = False
        if isinstance(found, type):
            _reached[found] = any(_reaches(part) for part in (*vars(found).values(), *found.__bases__))
        else:
            names = set(_names(found.__code__))
            used = (found.__globals__.get(name) for name in names)
            _reached[found] = bool(names & STARTERS) or any(_reaches(one) for one in used)
    return _reached[found]


def _names(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
