import pytest

from soulsgui.runner.log_lines import refusal_words
from soulsgui.runner.outcome import (
    DISK_FULL,
    Outcome,
    disk_evidence,
    duration_words,
    memory_evidence,
    module_evidence,
    outcome_of_code,
)


def outcome(
    code: int | None, ran_s: float = 3.0, asked: bool = False, farewell: str = "", cause: str = ""
) -> Outcome:
    return outcome_of_code(code, ran_s, asked_to_stop=asked, farewell=farewell, cause=cause)


@pytest.mark.parametrize(
    ("ended", "words", "failed"),
    [
        (outcome(1), "exit 1 after 3 s", True),
        (outcome(-9), "killed by signal 9 (SIGKILL) after 3 s", True),
        (outcome(-11, 0.25), "killed by signal 11 (SIGSEGV) after 0.2 s", True),
        (outcome(-99), "killed by signal 99 after 3 s", True),
        (outcome(-9, cause="out of memory"), "killed by signal 9 (SIGKILL) after 3 s: out of memory", True),
        (outcome(0, asked=True), "ended as asked", False),
        (outcome(-15, asked=True), "ended as asked", False),
        (outcome(None, asked=True), "ended as asked", False),
        (outcome(1, asked=True), "exit 1 after 3 s", False),
        (
            outcome(-9, asked=True, cause="did not stop within 4 s"),
            "killed by signal 9 (SIGKILL) after 3 s: did not stop within 4 s",
            False,
        ),
        (outcome(0), "exit 0 after 3 s", True),
        (outcome(0, farewell="all episodes played"), "exit 0 after 3 s: all episodes played", False),
        (outcome(1, farewell="all episodes played"), "exit 1 after 3 s: all episodes played", True),
        (outcome(None), "exit code unknown", True),
        (outcome(None, farewell="goal reached"), "ended after 3 s: goal reached", False),
        (
            outcome(None, 0.0, cause="could not be started: no such file"),
            "could not be started: no such file",
            True,
        ),
    ],
)
def test_an_end_says_itself_in_words(ended: Outcome, words: str, failed: bool) -> None:
    assert (ended.words, ended.failed) == (words, failed)


def test_a_return_code_below_zero_is_the_signal() -> None:
    assert (outcome(-9).exit_code, outcome(-9).signal) == (None, 9)
    assert (outcome(3).exit_code, outcome(3).signal) == (3, None)
    assert (outcome(0).exit_code, outcome(0).signal) == (0, None)


def test_out_of_memory_is_said_only_with_evidence() -> None:
    assert memory_evidence(-9, [], system_kills=1) == "out of memory"
    assert memory_evidence(-9, [], system_kills=0) == ""
    assert memory_evidence(-15, [], system_kills=1) == ""
    assert memory_evidence(1, ["Traceback", "MemoryError"], system_kills=0) == "out of memory"
    assert memory_evidence(1, ["torch.OutOfMemoryError: CUDA out of memory."], 0) == "out of memory"
    assert memory_evidence(1, ["ValueError"], system_kills=1) == ""
    assert memory_evidence(0, ["MemoryError"], system_kills=0) == ""
    assert memory_evidence(1, ["MemoryError", *["and on"] * 5], 0) == "", (
        "what it said long ago proves nothing"
    )


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.04, "0.0 s"),
        (0.99, "1.0 s"),
        (1, "1 s"),
        (59.4, "59 s"),
        (200, "3 min 20 s"),
        (18_120, "5 h 2 min"),
    ],
)
def test_durations_are_short(seconds: float, words: str) -> None:
    assert duration_words(seconds) == words


def test_a_full_disk_is_said_only_with_evidence() -> None:
    said = ["OSError: [Errno 28] No space left on device: 'x'"]
    assert disk_evidence(1, said, free_bytes=10**9) == DISK_FULL
    assert disk_evidence(1, ["ValueError"], free_bytes=10**9) == ""
    assert disk_evidence(1, [], free_bytes=4096) == DISK_FULL  # there was no room to say it
    assert disk_evidence(-9, said, free_bytes=4096) == ""
    assert disk_evidence(1, [*said, *["and on"] * 5], free_bytes=10**9) == ""


def test_a_module_that_is_not_installed_is_said_in_words() -> None:
    said = ["Traceback (most recent call last):", "ModuleNotFoundError: No module named 'torch'", ""]
    assert module_evidence(1, said) == "on this computer Python finds no module torch"
    assert module_evidence(0, said) == module_evidence(-9, said) == ""
    assert module_evidence(1, [*said, "ValueError"]) == ""


def test_a_refusal_is_what_was_said_last_beside_the_log() -> None:
    stamped = "2026-01-01 00:00:00.000 INFO soulsgui.training.main: it begins"
    warned = ["2026-01-01 00:00:00.000 WARNING py.warnings: it is old", "  gymnasium.logger.warn(", ""]
    said = ["The configuration has a mistake:", "  config.json: seed: a number", "Mend it.", ""]
    words = "The configuration has a mistake: config.json: seed: a number Mend it."
    assert refusal_words([stamped, *said]) == refusal_words([*warned, *said]) == refusal_words(said) == words
    assert refusal_words([*said, stamped]) == refusal_words([]) == ""


def test_a_refusal_is_told_in_its_own_words_unless_something_else_is_known() -> None:
    refused = outcome_of_code(2, 14.0, asked_to_stop=False, refusal="sac can't. Set algorithm: ppo")
    assert (refused.words_to_act_on, refused.hopeless) == ("sac can't. Set algorithm: ppo", True)
    full = outcome_of_code(2, 14.0, asked_to_stop=False, cause=DISK_FULL, refusal="it said something")
    assert (full.words, full.hopeless) == ("exit 2 after 14 s: the disk is full", False)
