"""telemetry.png, and the child process that draws it."""

import json
import os
import subprocess
import sys
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.process import child_env
from soulsgui.telemetry.export import PROGRAM, Drawing, read_about, read_series
from soulsgui.telemetry.figure import NO_MATPLOTLIB, draw
from soulsgui.wire.keys import EntryId
from tests.faults.waiting import LIMIT_S
from tests.telemetry.helpers import arrivals, attempt_row, checkpoint_row, episode, recorder_of, update_row

_SIZE = (1100, 825)
_WAIT_FOR_THE_END = "import sys; sys.stdin.read()"


def _program(code: str) -> list[str]:
    """Stands where the drawing program would be."""
    return [sys.executable, "-c", code]


def _play(run: RunFolder, episodes: int = 60) -> None:
    rows = [update_row(n, env_steps=n * 100, value_loss=1.0 / n) for n in range(1, 7)]
    played = arrivals(*(episode(float(n)) for n in range(episodes)))
    resume = attempt_row(2, env_steps=300, episodes=30, update=3)
    more = arrivals(*(episode(50.0, attempt=2) for _ in range(10)), first=episodes + 1)
    with recorder_of(run.store, 5, 40.0) as recorder:
        recorder.record([attempt_row(1), *rows, checkpoint_row(2)], played, EntryId(1, 1), 1.0)
        recorder.record([resume], more, EntryId(1, 2), 2.0)


def _has(png: bytes, colour: str) -> bool:
    """Whether a picture of the right size holds a colour, or nearly so."""
    from matplotlib.image import imread

    pixels = imread(BytesIO(png))[..., :3] * 255
    assert pixels.shape[:2] == _SIZE[::-1]
    wanted = [int(colour[place : place + 2], 16) for place in (1, 3, 5)]
    return bool((np.abs(pixels - wanted).max(axis=-1) < 24).any())


def test_the_figure_shows_curve_points_goal_best_and_loss(run: RunFolder) -> None:
    png = draw(read_about(run) | read_series(run.store))
    assert _has(png, "#535b69")
    assert not _has(png, "#1f6fe0")
    _play(run)
    png = draw(read_about(run) | read_series(run.store))
    for colour in ("#1f6fe0", "#a6c5f5", "#9aa3b0", "#146c2e", "#b02a86", "#bf4d06"):
        assert _has(png, colour), colour


def test_without_matplotlib_the_series_are_written_all_the_same(run: RunFolder, tmp_path: Path) -> None:
    missing = tmp_path / "shadow" / "matplotlib"
    missing.mkdir(parents=True)
    (missing / "__init__.py").write_text("raise ImportError('not here')")
    _play(run)
    environment = os.environ | child_env()
    environment["PYTHONPATH"] = f"{missing.parent}{os.pathsep}{environment.get('PYTHONPATH', '')}"
    command = [*PROGRAM, str(run.root)]
    assert subprocess.run(command, input=b"", env=environment, timeout=60).returncode == NO_MATPLOTLIB
    assert json.loads(run.series.read_text())["episodes"]["total"] == 70
    assert not run.figure.exists()


def test_a_drawing_starts_at_each_multiple_and_one_runs_at_a_time(run: RunFolder) -> None:
    drawing = Drawing(run.root, every=50, drawn=49, program=_program(_WAIT_FOR_THE_END))
    drawing.turn(49, ends_soon=False)
    assert drawing._child is None
    drawing.turn(70, ends_soon=False)
    first = drawing._child
    drawing.turn(170, ends_soon=False)
    assert drawing._child is first
    first.wait(LIMIT_S)
    drawing.turn(170, ends_soon=False)
    second = drawing._child
    assert second is not first
    drawing.finish(30)
    assert drawing._child is None


def test_a_child_started_ahead_of_an_end_that_did_not_come_is_used_up(run: RunFolder) -> None:
    drawing = Drawing(run.root, every=10**9, drawn=0, program=_program(_WAIT_FOR_THE_END))
    drawing.turn(0, ends_soon=True)
    child = drawing._child
    drawing.turn(0, ends_soon=False)
    assert child.wait(LIMIT_S) == 0
    drawing.turn(0, ends_soon=False)
    assert drawing._child is None


@pytest.mark.allow_warnings
@pytest.mark.parametrize(
    ("program", "limit_s"),
    [
        (_program("import time; time.sleep(60)"), 0.2),
        (_program("raise SystemExit(9)"), 30.0),
        (["/nowhere/at/all"], 30.0),
    ],
    ids=["hangs", "fails", "can't be started"],
)
def test_a_drawing_that_fails_costs_the_figure_only(
    run: RunFolder, program: list[str], limit_s: float
) -> None:
    _play(run, episodes=10)
    run.series.write_text("{}")  # of an earlier drawing
    drawing = Drawing(run.root, every=1, drawn=0, program=program)
    drawing.finish(limit_s)
    assert drawing._child is None
    series = json.loads(run.series.read_text())
    assert (series["episodes"]["total"], series["env_id"]) == (20, "CartPole-v1")
    assert not run.figure.exists()


@pytest.mark.allow_warnings
def test_a_failing_drawing_warns_once(run: RunFolder, caplog: pytest.LogCaptureFixture) -> None:
    drawing = Drawing(run.root, every=1, drawn=0, program=_program("raise SystemExit(9)"))
    for episodes in (1, 2):
        drawing.turn(episodes, ends_soon=False)
        drawing._child.wait(LIMIT_S)
        drawing.turn(episodes, ends_soon=False)
    assert len([line for line in caplog.messages if "code 9" in line]) == 1
