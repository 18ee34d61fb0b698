"""The pace of games in real time, on a clock that the test moves."""

from soulsgui.environments.realtime import StepClock


class _Time:
    """A clock that only sleeping and the test move."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


def test_steps_begin_on_a_fixed_clock_however_long_they_take() -> None:
    time = _Time()
    clock = StepClock(0.1, now=time, sleep=time.sleep)
    began = []
    for took in (0.03, 0.08, 0.0, 0.1):
        clock.wait()
        began.append(round(time.now - 100.0, 6))
        time.now += took
    assert began == [0.0, 0.1, 0.2, 0.3]
    assert time.slept == [0.07, 0.02, 0.1]
    assert clock.late_steps == 0


def test_a_step_that_comes_late_is_counted_and_the_clock_begins_anew_with_it() -> None:
    time = _Time()
    clock = StepClock(0.1, now=time, sleep=time.sleep)
    clock.wait()
    time.now += 0.35
    clock.wait()
    assert clock.late_steps == 1
    time.now += 0.04
    clock.wait()
    assert time.slept == [0.06], "what was missed is not made up for"
    time.now += 0.105
    clock.wait()
    assert clock.late_steps == 1, "within the tolerance"


def test_a_pause_between_turns_is_no_late_step() -> None:
    time = _Time()
    clock = StepClock(0.1, now=time, sleep=time.sleep)
    clock.wait()
    time.now += 60
    clock.begin()
    clock.wait()
    assert (clock.late_steps, time.slept) == (0, [])


def test_without_a_clock_there_is_no_wait_and_a_delay_is_slept_before_each_step() -> None:
    time = _Time()
    StepClock(0.0, now=time, sleep=time.sleep).wait()
    assert time.slept == []
    clock = StepClock(0.0, 0.25, now=time, sleep=time.sleep)
    clock.wait()
    clock.wait()
    assert time.slept == [0.25, 0.25]
