from collections.abc import Sequence

import pytest

from soulsgui.gui.plotting.controls import metric_order, metric_title, smoothing_weight, smoothing_words
from soulsgui.gui.plotting.marks import RunMarks
from soulsgui.wire.messages.metrics import AttemptStart
from tests.gui.plotting.curves import attempt_row
from tests.states import RUN, checkpoint, checkpoint_row


def mark_words(marks: RunMarks) -> Sequence[str]:
    return [mark.text for mark in marks.marks]


def test_a_newer_current_checkpoint_takes_the_place_of_the_older_and_quicksaves_stay() -> None:
    marks = RunMarks()
    saves = [checkpoint_row(update, "manual", f"manual_save/{update}") for update in (3, 6)]
    assert marks.take_rows([saves[0], checkpoint_row(5), saves[1], checkpoint_row(10)], RUN)
    assert mark_words(marks) == [
        "Quicksave, update 3",
        "Quicksave, update 6",
        "Current checkpoint, update 10",
    ]
    # A list of checkpoints and a live one are the same mark.
    marks = RunMarks()
    marks.take_list([checkpoint(env_steps=300, updates=3, episodes=30, created=3.0)])
    marks.take_rows([checkpoint_row(3, "manual", "manual_save/1")], RUN)
    assert [(mark.episode, mark.env_steps) for mark in marks.marks] == [(30, 300)]


def test_later_attempts_are_marked_and_the_first_is_not() -> None:
    marks = RunMarks()
    marks.take_attempts([AttemptStart(attempt=1, update=0, env_steps=0, episodes=0, time=1.0)])
    marks.take_rows([attempt_row(2, 60)], RUN)
    assert mark_words(marks) == ["Attempt 2 from update 0"]
    assert not marks.take_rows([attempt_row(3, 90)], "another run")


def test_metrics_have_names_that_can_be_read_those_of_evaluations_and_episodes_first() -> None:
    titles = [metric_title(name) for name in ("return", "approx_kl", "policy_loss", "update_s")]
    assert titles == ["Return", "Approx KL", "Policy loss", "Update (s)"]
    offered = metric_order(["value_loss", "return", "entropy", "evaluation_return"])
    first = ["evaluation_return", "return", "length", "mean_return"]
    assert offered == [*first, "entropy", "value_loss"]


def test_what_is_used_is_named_by_whose_it_is_and_stands_below_what_is_learned() -> None:
    used = ["resource_trainer_cpu_percent", "resource_gpu_0_memory_bytes", "resource_disk_read_bytes_per_s"]
    titles = [metric_title(name) for name in used]
    assert titles == ["Trainer CPU (%)", "GPU 0 memory (bytes)", "Disk read (bytes/s)"]
    assert metric_order([*used, "value_loss"])[-4:] == ["value_loss", used[2], used[1], used[0]]


def test_the_smoothing_slider_goes_from_none_to_a_thousand_values() -> None:
    assert smoothing_weight(0) == 0.0
    assert smoothing_weight(100) == pytest.approx(0.999)
    words = [smoothing_words(position) for position in (0, 33, 100)]
    assert words == ["off", "up to 10 values", "up to 1,000 values"]
