from concurrent.futures import ThreadPoolExecutor

import pytest

from soulsgui.errors import EnvironmentFault
from soulsgui.sampling.progress import Progress, ProgressLog, made_words
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import MAX_BYTES, GreedyPlay, Heartbeat


def _progress() -> Progress:
    return Progress("c", Instance(pid=7), 2, {"soulsgui": "1"})


def test_beats_are_numbered_and_tell_the_counters() -> None:
    progress = _progress()
    assert progress.beat().env_steps_per_s == 0
    progress.stepped(5)
    assert progress.episode_ended(3.0, 9) == 0
    assert progress.episode_ended(5.0, 9) == 1
    first, second = progress.beat(), progress.beat()
    assert (first.counter, second.counter) == (2, 3)
    assert (first.env_steps, first.episodes, first.last_return, first.mean_return) == (5, 2, 5.0, 4.0)
    assert first.env_steps_per_s > 0
    assert Heartbeat.read(first.to_json()) == first
    for number in range(100):
        progress.episode_ended(number, 9)
    assert progress.beat().mean_return == sum(range(80, 100)) / 20
    progress.error = "x" * 100_000
    assert len(progress.beat().to_json()) < MAX_BYTES


def test_counting_from_several_threads_loses_nothing() -> None:
    progress = _progress()

    def count(_: int) -> None:
        for _ in range(500):
            progress.stepped(1)
            progress.episode_ended(1.0, 9)
            progress.beat()

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(count, range(4)))
    beat = progress.beat()
    assert (beat.env_steps, beat.episodes, beat.counter) == (2000, 2000, 2001)


def test_every_figure_begins_at_0_with_another_run_and_goes_on_in_the_same() -> None:
    progress, blank = _progress(), _progress()
    blank.begin_run("b")
    progress.begin_run("a")
    progress.wait_for_server(True, 0.0)
    progress.wait_for_server(False, 5.0)
    for _ in range(512):
        progress.episode_ended(9.0, 10)
        progress.stepped(10)
    progress.drop(3)
    progress.late_steps = progress.human_steps = progress.update = progress.model_id = 7
    progress.greedy = GreedyPlay(model_id=7)
    progress.stepped_greedily()
    progress.begin_run("a")
    beat = progress.beat()
    assert (beat.run_id, beat.env_steps, beat.episodes, beat.dropped) == ("a", 5120, 512, 3)
    assert (beat.waits, beat.waited_s, beat.greedy) == (1, 5.0, GreedyPlay(model_id=7, steps=1))
    progress.begin_run("b")
    progress.greedy = None  # nothing is asked for in the other run yet
    beat = progress.beat()
    assert beat == blank.beat().model_copy(update={"counter": beat.counter})
    assert progress.recent_episodes() == []
    assert progress.episode_ended(1.0, 4) == 0
    progress.stepped(4)
    (own,) = progress.recent_episodes()
    assert (own.number, own.run_id, own.env_steps, own.model_id) == (0, "b", 0, -1)
    beat = progress.beat()
    assert (beat.env_steps, beat.episodes, beat.mean_return) == (4, 1, 1.0)
    assert beat.env_steps_per_s > 0
    # So does what went wrong, also in the process before this one.
    progress = _progress()
    earlier = Heartbeat(client="c", instance=Instance(), counter=1, error="crashed", env_restarts=2)
    progress.goes_on_after(earlier)
    for run, told in (("a", ("crashed again", "Traceback", 3)), ("b", ("", "", 0))):
        progress.begin_run(run)
        if run == "a":
            progress.environment_failed(EnvironmentFault("crashed again", "Traceback"))
            progress.begin_run("a")
        beat = progress.beat()
        assert (beat.error, beat.error_details, beat.env_restarts) == told


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
    assert made_words(Progress("c", Instance(), 1, {}, env_steps=1, episodes=1)) == "1 step, 1 episode"
