"""A client's progress in its log."""

import pytest

from soulsgui.sampling.progress import Progress
from soulsgui.sampling.progress_log import ProgressLog, made_words
from soulsgui.wire.messages.base import Instance


def test_a_line_is_written_each_half_minute(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    progress = Progress("c", Instance(), 2, {})
    log = ProgressLog(progress, 100.0)
    progress.stepped(2048)
    log.look(129.0)
    assert caplog.messages == []
    log.look(131.0)
    progress.episode_ended(20.0, 20)
    progress.episode_ended(23.0, 23)
    log.look(140.0)
    log.look(162.0)
    assert caplog.messages == ["2,048 steps, 0 episodes", "2,048 steps, 2 episodes, mean return 21.5"]


def test_one_is_no_plural() -> None:
    progress = Progress("c", Instance(), 1, {}, env_steps=1, episodes=1)
    assert made_words(progress) == "1 step, 1 episode"
