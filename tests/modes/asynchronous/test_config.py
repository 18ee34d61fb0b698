"""Fields and defaults of the source's configurations, and their files."""

from pathlib import Path

import pytest

from soulsgui.errors import UsageError
from soulsgui.training import (
    AsyncTrainerConfig,
    ReplayBufferConfig,
    load_async_trainer_config,
    load_replay_buffer_config,
)


def test_defaults_are_those_of_the_source() -> None:
    assert AsyncTrainerConfig().model_dump() == {
        "max_opts": 10,
        "model_dir": None,
        "eval_interval": 5_000,
        "flush_record_interval": 5_000,
        "record_compute_cost_interval": 5_000,
        "record_agent_info_interval": 5_000,
        "save_interval": 50_000,
        "sync_interval": 100,
        "warmup_period": 10_000,
    }


def test_files_hold_what_was_saved(tmp_path: Path) -> None:
    config = AsyncTrainerConfig(max_opts=7, model_dir=tmp_path / "ä")
    config.save(tmp_path / "trainer.yaml")
    assert load_async_trainer_config(tmp_path) == config
    (tmp_path / "replay_buffer.yaml").write_text("per_config: {alpha: 0.5}")
    buffer = load_replay_buffer_config(str(tmp_path))
    assert buffer.settings(steps_per_opt=2.5) == {
        "buffer_size": 10_000,
        "replay": "prioritised",
        "priority_exponent": 0.5,
        "priority_correction": {"schedule": "linear", "from": 0.4, "to": 1.0, "over": 1_250_000},
    }
    assert ReplayBufferConfig(capacity=5).settings(1.0) == {"buffer_size": 5}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "max_opts: 0\nsync_intervall: 3",
            "max_opts should be .*; sync_intervall is not one of its fields .did you mean sync_interval..\\.",
        ),
        ("max_opts: [", "can't be read"),
        ("- 3", "should hold fields"),
    ],
)
def test_mistakes_are_told_by_field(text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "trainer.yaml").write_text(text)
    with pytest.raises(UsageError, match=words) as caught:
        load_async_trainer_config(tmp_path)
    assert "trainer.yaml" in str(caught.value)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"replay_buffer\.yaml"):
        load_replay_buffer_config(tmp_path)


def test_mistakes_in_a_program_are_told_in_the_same_words() -> None:
    with pytest.raises(UsageError, match="AsyncTrainerConfig has mistakes: max_opt is not one of its fields"):
        AsyncTrainerConfig(max_opt=3)  # type: ignore[call-arg]
