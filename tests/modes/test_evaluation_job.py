"""The process of an evaluation: its pace, what it shows and when, its end; and the whole of it for real."""

import base64
import errno
import io
import os
from collections.abc import AsyncIterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from soulsgui.config.layers import combine, defaults_layer
from soulsgui.modes import evaluation_job
from soulsgui.modes.evaluate import Frame
from soulsgui.modes.evaluation_job import _Viewer, _Watched
from soulsgui.process import own_command
from soulsgui.runner.api.jobs import Files, Jobs, RunningJob
from soulsgui.system import LAST
from soulsgui.training.checkpoint import write_checkpoint
from soulsgui.wire.control import Evaluated, Job, Picture
from tests.modes.test_evaluate_command import balancing
from tests.runner.children import until


class Clock:
    """Time that passes while somebody sleeps, and a little with each frame."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


class Stage:
    """Shows frames of an environment of 60 steps a second."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock, self.watched = Clock(), _Watched()
        monkeypatch.setattr(evaluation_job, "time", self.clock)
        self.sent: list[Any] = []
        self.made = 0
        self.viewer = _Viewer(self.sent.append, self.watched, None, shows=True)

    def frame(self) -> Frame:
        self.made += 1
        picture = np.zeros((4, 4, 3), np.uint8)
        return Frame(picture, 60.0, 0, self.made, 0.0, (1,), "values", (0.5, -np.inf), False)

    def play(self, steps: int) -> float:
        """Play, and return how long it took."""
        began = self.clock.now
        for _ in range(steps):
            self.viewer(self.frame)
        return self.clock.now - began


def test_who_watches_sees_the_pace_of_the_environment_and_at_most_30_pictures_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch)
    stage.watched.hear({"pace": 1.0})
    assert stage.play(600) == pytest.approx(10, rel=0.01)
    assert 290 <= len(stage.sent) <= 301
    told = Picture.model_validate(stage.sent[-1]["picture"])
    assert (told.rate, told.action, told.says, told.said) == (60.0, [1.0], "values", [0.5, None])


def test_who_watches_says_how_fast_and_lets_it_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(monkeypatch)
    stage.watched.hear({"pace": 0.5})
    assert stage.play(60) == pytest.approx(2, rel=0.05)
    stage.watched.hear({"pace": 4.0})
    assert stage.play(600) == pytest.approx(2.5, rel=0.05)
    stage.watched.hear({"pace": 0.0})
    asked: list[Any] = []

    def send(message: dict[str, Any]) -> None:
        asked.append(message)
        if len(asked) == 100:
            stage.watched.hear({"pace": None})  # whoever held it is gone

    stage.viewer._send = send
    assert stage.play(1) == pytest.approx(5, rel=0.05)
    assert asked[-1] == {"waits": True}
    assert stage.play(6000) < 10.1


def test_while_nobody_watches_nothing_is_rendered_and_soon_nobody_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stage = Stage(monkeypatch)
    assert stage.play(6000) == pytest.approx(10, rel=0.01)
    assert (stage.sent, stage.made) == ([], 1)


@pytest.mark.parametrize(
    ("films", "steps", "said"), [(False, 1, "episodes, 1 step"), (True, 2000, "episodes filmed, 2,000 steps")]
)
def test_once_it_plays_its_progress_is_told_in_words_and_others_go_first(
    monkeypatch: pytest.MonkeyPatch, films: bool, steps: int, said: str
) -> None:
    sent: list[Any] = []
    held_back: list[Any] = []
    monkeypatch.setattr(evaluation_job, "hold_back", lambda pid, nice: held_back.append((pid, nice)))
    progress = evaluation_job._Progress(sent.append, 4, films)
    assert held_back == []  # it still loads
    progress(3, steps)
    assert held_back == [(os.getpid(), LAST)]
    assert sent == [{"doing": f"3 of 4 {said}", "part": 0.75}]


def test_a_disk_that_is_full_is_told_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[Any] = []

    def fill(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(evaluation_job, "asked", lambda _: nullcontext(({}, sent.append)))
    monkeypatch.setattr(evaluation_job, "_evaluate", fill)
    monkeypatch.setattr(evaluation_job, "setup_logging", lambda: None)  # this process is another one's
    assert evaluation_job.run_evaluation_job() == 0
    assert sent[0]["error"]["message"] == "There is no space left on the disk."


@pytest.fixture
async def jobs(tmp_path: Path) -> AsyncIterator[Jobs]:
    made = Jobs(lambda job: None, Files(tmp_path / "files"))
    yield made
    await made.close()


async def ended(jobs: Jobs, job: Job) -> Job:
    await until(lambda: jobs.get(job.id).state != "running")
    return jobs.get(job.id)


@pytest.mark.processes
async def test_a_process_plays_shows_and_films_and_ends_with_its_job(jobs: Jobs, tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model", balancing(4000))
    settings = combine([defaults_layer()]).model_dump(mode="json")
    settings["env"] |= {"id": "CartPole-v1", "wrappers": [{"TimeLimit": {"max_episode_steps": 3}}]}
    request = {"path": str(tmp_path / "model"), "settings": settings, "episodes": 2, "seed": 0}
    request |= {"greedy": True, "frames": True}
    pictures: list[Picture] = []

    def reply(message: dict[str, Any]) -> dict[str, Any]:
        if "picture" in message:
            pictures.append(Picture.model_validate(message["picture"]))
        return {"pace": 1.0}

    async def play(job: RunningJob) -> Evaluated:
        video = str(job.new_file("film.gif"))
        wanted = request | {"video": video}
        return Evaluated.model_validate(await job.in_process(own_command("evaluation"), wanted, reply))

    async def fail(job: RunningJob) -> None:
        await job.in_process(own_command("evaluation"), request | {"video": "film.avi"}, reply)

    async def watch_for_ever(job: RunningJob) -> None:
        longer = {"TimeLimit": {"max_episode_steps": 10**6}}
        endless = settings["env"] | {"wrappers": [longer]}
        wanted = request | {"settings": settings | {"env": endless}, "episodes": 10_000, "video": ""}
        await job.in_process(own_command("evaluation"), wanted, reply)

    # Side by side: what takes long is that Python begins.
    works = (play, fail, watch_for_ever)
    played, failed, endless = (jobs.start("checkpoint.evaluate", work) for work in works)
    await until(lambda: any(one.step > 3 for one in pictures))
    assert (await jobs.cancel(endless.id)).state == "cancelled"
    with Image.open(io.BytesIO(base64.b64decode(pictures[0].jpeg))) as found:
        assert (found.format, found.size) == ("JPEG", (600, 400))
    assert pictures[0].says == "probabilities"
    assert sum(pictures[0].said) == pytest.approx(1)
    result = await ended(jobs, played)
    assert result.error is None
    assert (result.result["returns"], result.result["lengths"]) == ([3.0, 3.0], [3, 3])
    assert jobs.files.get(result.files[0].id).read_bytes().startswith(b"GIF89a")
    assert "should end with .mp4 or .gif" in (await ended(jobs, failed)).error.message
