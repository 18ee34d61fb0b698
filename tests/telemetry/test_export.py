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
from tests.telemetry.helpers import (
    RUN_ID,
    arrivals,
    attempt_row,
    checkpoint_row,
    episode,
    make_run,
    recorder_of,
    update_row,
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """25 episodes, 7 updates of which one lacks a metric, a checkpoint, a resume to episode 20."""
    run = make_run(tmp_path)
    rows = [update_row(n, env_steps=n * 10, loss=n / 10) for n in range(1, 7)]
    rows = [attempt_row(1), *rows, update_row(7, env_steps=70, other=1.0), checkpoint_row(5)]
    resume = attempt_row(2, env_steps=200, episodes=20, update=6)
    with recorder_of(run.store, 4, 9.0) as recorder:
        recorder.record(rows, arrivals(*(episode(float(n)) for n in range(25))), EntryId(1, 1), 1000.0)
        recorder.record([resume], arrivals(episode(2.0, attempt=2), first=26), EntryId(1, 2), 1001.0)
    return run.store


def test_a_short_series_is_whole(store: Path) -> None:
    series = read_series(store)
    columns = series["episodes"]["columns"]
    assert (series["episodes"]["total"], series["episodes"]["every"]) == (26, 1)
    assert columns["row"] == list(range(1, 27))
    assert columns["return"] == [*map(float, range(25)), 2.0]
    assert columns["overwritten"] == [False] * 20 + [True] * 5 + [False]
    assert {len(column) for column in columns.values()} == {26}
    assert (series["run_id"], series["window"], series["goal"]) == (RUN_ID, 4, 9.0)
    assert (series["best_mean_return"], series["best_model_id"]) == (22.5, 1)
    assert [start["attempt"] for start in series["attempts"]] == [1, 2]
    assert [row["update"] for row in series["checkpoints"]] == [5]
    updates = series["updates"]["columns"]  # each metric is a column, with gaps
    assert updates["loss"] == [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, None]
    assert updates["other"] == [None] * 6 + [1.0]
    assert updates["overwritten"] == [False] * 6 + [True]
    assert json.loads(json.dumps(series, allow_nan=False)) == series


def test_evaluations_stand_beside_the_episodes_with_mean_and_spread(run: RunFolder) -> None:
    told = [(2, 5.0, 1.5), (4, 9.0, 0.5), (6, 7.0, 2.0)]
    rows = [
        update_row(n, env_steps=n * 10, evaluation_return=mean, evaluation_std=std) for n, mean, std in told
    ]
    rows = [row.model_copy(update={"kind": "evaluation"}) for row in rows]
    resume = attempt_row(2, env_steps=50, episodes=50, update=5)
    with recorder_of(run.store, 4, 9.0) as recorder:
        recorder.record([attempt_row(1), update_row(1, loss=0.1), *rows, resume], [], EntryId(1, 1), 1000.0)
    series = read_series(run.store)
    columns = series["evaluations"]["columns"]
    assert (series["evaluations"]["total"], series["evaluations"]["every"]) == (3, 1)
    assert columns["update"] == columns["model_id"] == [2, 4, 6]
    assert columns["env_steps"] == [20, 40, 60]
    assert (columns["evaluation_return"], columns["evaluation_std"]) == ([5.0, 9.0, 7.0], [1.5, 0.5, 2.0])
    assert columns["overwritten"] == [False, False, True]
    assert (series["best_evaluation_return"], series["best_evaluation_model_id"]) == (9.0, 4)
    assert series["updates"]["columns"]["update"] == [1]
    assert "evaluation_return" not in series["updates"]["columns"]
    thinned = read_series(run.store, max_points=2)["evaluations"]
    assert (thinned["every"], thinned["columns"]["evaluation_std"]) == (2, [1.5, 2.0])


def test_a_long_series_is_thinned_evenly_back_from_its_last_row(store: Path) -> None:
    series = read_series(store, max_points=5)
    assert series["episodes"]["every"] == 6
    assert series["episodes"]["columns"]["row"] == [2, 8, 14, 20, 26]
    assert series["updates"]["every"] == 2
    assert series["updates"]["columns"]["update"] == [1, 3, 5, 7]
    assert series["updates"]["columns"]["loss"] == [0.1, 0.3, 0.5, None]
    for points in (1, 2, 25, 26, 27):
        rows = read_series(store, max_points=points)["episodes"]["columns"]["row"]
        assert 1 <= len(rows) <= points
        assert rows[-1] == 26


def test_a_missing_store_gives_the_same_columns_without_rows_and_what_the_run_is_about_is_told(
    tmp_path: Path, store: Path
) -> None:
    series = read_series(tmp_path / "none.sqlite")
    assert series.keys() == read_series(store).keys()
    assert series["episodes"]["columns"].keys() == read_series(store)["episodes"]["columns"].keys()
    assert series["episodes"]["total"] == 0
    (tmp_path / "other").mkdir()
    run = make_run(tmp_path / "other", env={"id": "Acrobot-v1"}, algorithm="dqn", dqn={"agent": "iqn"})
    assert read_about(run) == {"env_id": "Acrobot-v1", "algorithm": "dqn", "agent": "iqn", "seed": 1}


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
    assert subprocess.run(command, input=b"", env=environment, timeout=LIMIT_S).returncode == NO_MATPLOTLIB
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
    run: RunFolder, caplog: pytest.LogCaptureFixture, program: list[str], limit_s: float
) -> None:
    _play(run, episodes=10)
    run.series.write_text("{}")  # of an earlier drawing
    drawing = Drawing(run.root, every=1, drawn=0, program=program)
    if "SystemExit" in program[-1]:
        for episodes in (1, 2):
            drawing.turn(episodes, ends_soon=False)
            drawing._child.wait(LIMIT_S)
            drawing.turn(episodes, ends_soon=False)
    drawing.finish(limit_s)
    assert drawing._child is None
    series = json.loads(run.series.read_text())
    assert (series["episodes"]["total"], series["env_id"]) == (20, "CartPole-v1")
    assert not run.figure.exists()
    assert len([line for line in caplog.messages if "code 9" in line]) <= 1, "said once"
