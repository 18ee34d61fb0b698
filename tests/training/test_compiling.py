"""When the loss is compiled: beside the learning, where it repays, and kept only if it is quicker."""

import logging
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from soulsgui.rl.compiled_loss import CompiledLoss
from soulsgui.training import compiling
from soulsgui.training.compiling import Compiling, missing_compiler, repays
from tests.faults.waiting import LIMIT_S, until


class Part:
    """Stands for a loss: says what was done to it."""

    def __init__(self, failure: Exception | None = None) -> None:
        self.noted = False
        self.compiled, self.prepared, self.go, self._failure = False, 0, threading.Event(), failure

    def prepare(self) -> None:
        self.go.wait(LIMIT_S)
        self.prepared += 1
        if self._failure is not None:
            raise self._failure

    def use(self, compiled: bool) -> None:
        self.compiled = compiled


@pytest.fixture(autouse=True)
def _a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiling, "missing_compiler", lambda device: "")


def made(part: Any, wish: Any = "auto", exact: bool = False) -> Compiling:
    settings = SimpleNamespace(learner=SimpleNamespace(compiles=wish))
    run: Any = SimpleNamespace(settings=settings, device="cpu")
    return Compiling(run, part, exact, window=3)


def run(it: Compiling, seconds: float, times: int = 3, expected: float = 1e9) -> None:
    for _ in range(times):
        it.look(seconds, expected)


def compiled(it: Compiling, part: Part) -> None:
    """Let the thread compile, and wait for its end."""
    part.go.set()
    until(lambda: it._thread is not None and not it._thread.is_alive(), "it is compiled")


@pytest.mark.parametrize(("compiled_s", "kept"), [(0.005, True), (0.0098, False), (0.02, False)])
def test_what_was_compiled_is_kept_if_it_is_quicker(compiled_s: float, kept: bool) -> None:
    part = Part()
    it = made(part)
    run(it, 0.01)
    run(it, 0.01, 10)
    assert not part.compiled, "the learner goes on as it was while it is compiled"
    compiled(it, part)
    run(it, 0.01, 1)
    assert part.compiled
    run(it, compiled_s)
    assert part.compiled is kept
    run(it, 0.01, 10)
    assert (part.compiled, part.prepared) == (kept, 1)


@pytest.mark.parametrize(
    ("wish", "exact", "expected", "at_once"),
    [
        ("off", False, 1e9, False),
        ("auto", False, 1000, False),  # the run is over before it repays
        # A curve that is equal to the bit is compiled from its first update on or not at all.
        ("auto", True, 1e9, False),
        ("on", True, 1e9, True),
    ],
)
def test_nothing_is_compiled_where_it_is_not_wanted_does_not_repay_or_can_not_be(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wish: str,
    exact: bool,
    expected: float,
    at_once: bool,
) -> None:
    part = Part()
    it = made(part, wish, exact)
    run(it, 0.01, 10, expected)
    assert (it._thread, part.compiled) == (None, at_once)
    assert (repays(0.01, 1000), repays(0.01, 100_000)) == (False, True)
    monkeypatch.setattr(compiling, "missing_compiler", missing_compiler)
    monkeypatch.setenv("CXX", "no-such-compiler")
    with caplog.at_level(logging.INFO):
        it = made(part)
    run(it, 0.01, 10)
    assert it._thread is None
    assert "there is no no-such-compiler here" in caplog.text
    assert missing_compiler("cuda") == ""


@pytest.mark.allow_warnings
def test_a_compiler_that_fails_costs_one_line(caplog: pytest.LogCaptureFixture) -> None:
    part = Part(RuntimeError("CppCompileError: g++ said no\nand a lot more"))
    it = made(part)
    run(it, 0.01)
    compiled(it, part)
    run(it, 0.01, 10)
    assert not part.compiled
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [
        "learner.compile: not compiled: RuntimeError: CppCompileError: g++ said no"
    ]


@pytest.mark.allow_warnings
def test_what_fails_once_compiled_is_called_as_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    def broken(number: float) -> float:
        raise ValueError("no kernel")

    part = CompiledLoss(lambda number: 2 * number, lambda result: result)
    part._compiled = broken
    part.use(compiled=True)
    assert part(3.0) == 6.0
    assert not part.compiled
    assert "no kernel" in caplog.text
