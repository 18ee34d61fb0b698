"""telemetry.json: whole, bounded, and with a word on what was left out."""

import json
from pathlib import Path

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.telemetry.export import read_about, read_series
from soulsgui.wire.keys import EntryId
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


def test_a_missing_store_gives_the_same_columns_without_rows(tmp_path: Path, store: Path) -> None:
    series = read_series(tmp_path / "none.sqlite")
    assert series.keys() == read_series(store).keys()
    assert series["episodes"]["columns"].keys() == read_series(store)["episodes"]["columns"].keys()
    assert series["episodes"]["total"] == 0


def test_it_says_what_the_run_is_about(tmp_path: Path) -> None:
    run = make_run(tmp_path, env={"id": "Acrobot-v1"}, algorithm="dqn", dqn={"agent": "iqn"})
    assert read_about(run) == {"env_id": "Acrobot-v1", "algorithm": "dqn", "agent": "iqn", "seed": 1}
