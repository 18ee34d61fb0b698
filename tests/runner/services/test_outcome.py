import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.runner.services.logs import refusal_words
from soulsgui.runner.services.outcome import (
    DISK_FULL,
    Outcome,
    RestartHistory,
    RestartLimits,
    duration_words,
    evidence,
    outcome_of_code,
)

KILLED = "killed by signal 9 (SIGKILL) after 3 s"
PLENTY = 10**9
NO_DISK = "OSError: [Errno 28] No space left on device: 'x'"
NO_TORCH = ("Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'", "")


def outcome(
    code: int | None, ran_s: float = 3.0, asked: bool = False, farewell: str = "", cause: str = ""
) -> Outcome:
    return outcome_of_code(code, ran_s, asked_to_stop=asked, farewell=farewell, cause=cause)


@pytest.mark.parametrize(
    ("ended", "words", "failed"),
    [
        (outcome(1), "exit 1 after 3 s", True),
        (outcome(-9), KILLED, True),
        (outcome(-11, 0.25), "killed by signal 11 (SIGSEGV) after 0.2 s", True),
        (outcome(-99), "killed by signal 99 after 3 s", True),
        (outcome(-9, cause="out of memory"), f"{KILLED}: out of memory", True),
        (outcome(0, asked=True), "ended as asked", False),
        (outcome(-15, asked=True), "ended as asked", False),
        (outcome(None, asked=True), "ended as asked", False),
        (outcome(1, asked=True), "exit 1 after 3 s", False),
        (outcome(-9, asked=True, cause="did not stop in time"), f"{KILLED}: did not stop in time", False),
        (outcome(0), "exit 0 after 3 s", True),
        (outcome(0, farewell="all episodes played"), "exit 0 after 3 s: all episodes played", False),
        (outcome(1, farewell="all episodes played"), "exit 1 after 3 s: all episodes played", True),
        (outcome(None), "exit code unknown", True),
        (outcome(None, farewell="goal reached"), "ended after 3 s: goal reached", False),
        (outcome(None, 0.0, cause="could not be started: x"), "could not be started: x", True),
    ],
)
def test_an_end_says_itself_in_words(ended: Outcome, words: str, failed: bool) -> None:
    assert (ended.words, ended.failed) == (words, failed)


@pytest.mark.parametrize(
    ("code", "last_lines", "system_kills", "free_bytes", "cause"),
    [
        (-9, [], 1, PLENTY, "out of memory"),
        (-9, [], 0, PLENTY, ""),
        (-15, [], 1, PLENTY, ""),
        (1, ["Traceback", "MemoryError"], 0, PLENTY, "out of memory"),
        (1, ["torch.OutOfMemoryError: CUDA out of memory."], 0, PLENTY, "out of memory"),
        (1, ["ValueError"], 1, PLENTY, ""),
        (0, ["MemoryError"], 0, PLENTY, ""),
        (None, ["MemoryError"], 0, 0, ""),
        (1, ["MemoryError", *["and on"] * 5], 0, PLENTY, ""),  # what it said long ago proves nothing
        (1, [NO_DISK], 0, PLENTY, DISK_FULL),
        (1, [], 0, 4096, DISK_FULL),  # there was no room to say it
        (-9, [NO_DISK], 0, 4096, ""),
        (1, [NO_DISK, *["and on"] * 5], 0, PLENTY, ""),
        (1, NO_TORCH, 0, PLENTY, "on this computer Python finds no module torch"),
        (0, NO_TORCH, 0, PLENTY, ""),
        (-9, NO_TORCH, 0, PLENTY, ""),
        (1, [*NO_TORCH, "ValueError"], 0, PLENTY, ""),
    ],
)
def test_a_cause_is_said_only_with_evidence(
    code: int | None, last_lines: list[str], system_kills: int, free_bytes: int, cause: str
) -> None:
    assert evidence(code, last_lines, system_kills, free_bytes) == cause


def test_durations_are_short() -> None:
    words = {0.04: "0.0 s", 0.99: "1.0 s", 1: "1 s", 59.4: "59 s", 200: "3 min 20 s", 18_120: "5 h 2 min"}
    assert {seconds: duration_words(seconds) for seconds in words} == words


def test_a_refusal_is_what_was_said_last_unless_something_else_is_known() -> None:
    stamped = "2026-01-01 00:00:00.000 INFO soulsgui.training.main: it begins"
    warned = ["2026-01-01 00:00:00.000 WARNING py.warnings: it is old", "  gymnasium.logger.warn(", ""]
    said = ["The configuration has a mistake:", "  config.json: seed: a number", "Mend it.", ""]
    words = "The configuration has a mistake: config.json: seed: a number Mend it."
    assert refusal_words([stamped, *said]) == refusal_words([*warned, *said]) == refusal_words(said) == words
    assert refusal_words([*said, stamped]) == refusal_words([]) == ""
    refused = outcome_of_code(2, 14.0, asked_to_stop=False, refusal="sac can't. Set algorithm: ppo")
    assert (refused.words_to_act_on, refused.hopeless) == ("sac can't. Set algorithm: ppo", True)
    full = outcome_of_code(2, 14.0, asked_to_stop=False, cause=DISK_FULL, refusal="it said something")
    assert (full.words, full.hopeless) == ("exit 2 after 14 s: the disk is full", False)


LIMITS = RestartLimits()
STEADY = RestartLimits(jitter=0.0)


def failed_at(moments: list[float], limits: RestartLimits = LIMITS) -> RestartHistory:
    history = RestartHistory()
    for moment in moments:
        history = history.after_failure(moment, limits)
    return history


def test_pauses_double_up_to_the_longest_and_chance_moves_each_by_a_fifth_at_most() -> None:
    pauses = [failed_at([0.0] * n).delay_s(STEADY, random.Random(1)) for n in range(1, 10)]
    assert pauses == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    rng = random.Random(1)
    pauses = [failed_at([0.0, 1.0]).delay_s(LIMITS, rng) for _ in range(200)]
    assert 0.8 <= min(pauses) < max(pauses) - 0.2
    assert max(pauses) <= 1.2


def test_the_fifth_failure_in_five_minutes_is_the_last_and_older_ones_do_not_count() -> None:
    moments = [0.0, 60.0, 120.0, 180.0]
    assert not failed_at(moments).given_up(LIMITS)
    assert failed_at([*moments, 299.0]).given_up(LIMITS)
    history = failed_at([0.0, 100.0, 200.0, 300.0, 400.0, 500.0])
    assert not history.given_up(LIMITS)
    assert history.failures == 3
    assert history.after_running(59.0, LIMITS) == history
    assert history.after_running(60.0, LIMITS) == RestartHistory(), "a minute of health forgives everything"


@given(st.integers(1, 5000), st.integers())
def test_a_pause_is_never_longer_than_the_longest(failures: int, seed: int) -> None:
    history = RestartHistory(in_a_row=failures)
    assert 0 < history.delay_s(LIMITS, random.Random(seed)) <= LIMITS.longest_delay_s
