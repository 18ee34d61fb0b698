import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import Queue

import psutil
import pytest

from soulsgui.errors import EnvironmentFault, ProcessFault
from soulsgui.sampling import watchdog
from soulsgui.sampling.player import HEALTHY_S, RestartBackoff
from soulsgui.sampling.watchdog import EnvironmentLimits, SampleRate, Watchdog
from tests.faults.waiting import LIMIT_S, until


def test_pauses_double_and_begin_anew_after_a_healthy_minute_and_rates_are_of_the_last_window() -> None:
    backoff = RestartBackoff()
    assert not backoff.works(0.0)
    assert [backoff.failed() for _ in range(8)] == [0.5, 1, 2, 4, 8, 16, 30, 30]
    healthy = [100.0, 100.0 + HEALTHY_S - 1, 100.0 + HEALTHY_S, 100.0 + 2 * HEALTHY_S]
    assert [backoff.works(now) for now in healthy] == [False, False, True, False], "told once"
    assert backoff.failed() == 0.5
    assert not backoff.works(1000.0)
    assert backoff.failed() == 1, "a failure begins the healthy minute anew"
    assert not backoff.works(1000.0 + HEALTHY_S + 1)
    assert backoff.failed() == 2
    window_s = 4 * watchdog.LOOK_EVERY_S
    rate = SampleRate(window_s)
    assert [rate.look(steps) for steps in (0, 10, 20, 30)] == [None] * 4
    assert [rate.look(40), rate.look(40)] == [40 / window_s, 30 / window_s]
    rate.forget()
    assert rate.look(40) is None


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(watchdog, "_MEASURE_EVERY_S", 0.02)


Hangs = Queue[ProcessFault]


@contextmanager
def _watching(limits: EnvironmentLimits, on_hang: Callable[[ProcessFault], None]) -> Iterator[Watchdog]:
    dog = Watchdog(limits, on_hang)
    dog.start()
    try:
        yield dog
    finally:
        dog.close()


def _no_hang(_: ProcessFault) -> None:
    raise AssertionError


def test_what_takes_too_long_is_a_hang_and_tells_where() -> None:
    hangs = Hangs()
    with _watching(EnvironmentLimits(0.1), hangs.put) as dog, dog.inside("a step"):
        fault = hangs.get(timeout=LIMIT_S)
    assert hangs.empty()
    assert fault.message == "The environment hangs: a step takes longer than 0.1 s."
    assert "test_what_takes_too_long_is_a_hang_and_tells_where" in fault.details


def test_many_short_steps_are_no_hang_and_neither_is_waiting() -> None:
    hangs = Hangs()
    with _watching(EnvironmentLimits(0.5), hangs.put) as dog:
        for _ in range(60):
            dog.enter("a step")
            time.sleep(0.01)
            dog.leave(1)
        time.sleep(0.6)
    assert hangs.empty()


def test_too_much_memory_or_too_few_steps_are_told_at_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    with _watching(EnvironmentLimits(0.2, min_steps_per_s=10.0), _no_hang) as dog:
        with dog.sampling():
            until(lambda: dog._complaint, "it is noticed")
        with pytest.raises(EnvironmentFault, match=r"0\.0 steps/s, below the 10") as told:
            dog.enter("a step")
        assert not isinstance(told.value, ProcessFault)
        dog.enter("a step")  # it complains once
    with _watching(EnvironmentLimits(1000.0, max_memory=200 * 2**20), _no_hang) as dog:
        monkeypatch.setattr(watchdog, "family_memory", lambda: 300 * 2**20)
        until(lambda: dog._complaint, "it is measured")
        with pytest.raises(ProcessFault, match=r"300 MB, more than the 200 of client\.max_memory"):
            dog.enter("a step")


def test_an_environment_that_closes_our_files_is_told_at_the_next_step() -> None:
    with _watching(EnvironmentLimits(5.0), _no_hang) as dog:
        os.close(dog._files._file)
        taken = os.open(os.devnull, os.O_RDONLY)  # another file under the same number is not ours
        try:
            until(lambda: dog._complaint, "it is noticed")
            with pytest.raises(ProcessFault, match="closed the files and connections"):
                dog.enter("a step")
        finally:
            os.close(taken)


@pytest.mark.allow_warnings
def test_failed_looks_are_repeated(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    hangs = Hangs()

    def fails(fault: ProcessFault) -> None:
        hangs.put(fault)
        raise OSError("nobody hears it")

    def memory() -> int:
        raise psutil.AccessDenied

    monkeypatch.setattr(watchdog, "family_memory", memory)
    with _watching(EnvironmentLimits(0.05), fails) as dog, dog.inside("a step"):
        until(lambda: hangs.qsize() >= 2, "two looks")
    failed = {type(record.exc_info[1]) for record in caplog.records if record.exc_info}
    assert failed == {OSError, psutil.AccessDenied}
