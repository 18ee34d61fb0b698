"""Evaluations that were asked for stay with their run, bounded, whoever has written the file."""

import json
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.scores import keep_evaluation, kept_evaluations, with_evaluations
from soulsgui.wire.control import MOST_RETURNS, Evaluated
from tests.runner.fake_program import save
from tests.runner.run.test_evaluations import REPORT


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    run.root.mkdir()
    return run


def keep(run: RunFolder, **changes: Any) -> None:
    keep_evaluation(run, Evaluated.model_validate(REPORT | changes), "history/7")


def test_they_are_kept_with_their_run_the_newest_of_them(run: RunFolder) -> None:
    assert kept_evaluations(run) == []
    keep(run, returns=[1.0] * (MOST_RETURNS + 1), episodes=MOST_RETURNS + 1)
    (first,) = kept_evaluations(run)
    assert (first.checkpoint, first.model_id, first.episodes) == ("history/7", 3, MOST_RETURNS + 1)
    assert len(first.returns) == MOST_RETURNS
    for seed in range(100):
        keep(run, seed=seed)
    assert [one.seed for one in kept_evaluations(run)] == list(range(100))


def test_that_with_most_episodes_stands_beside_its_checkpoint(run: RunFolder) -> None:
    save(run.checkpoint, run, "current", 100, model_id=3)
    save(run.best_model, run, "best", 50, model_id=2)
    for episodes, mean in ((20, 1.0), (20, 2.0), (1, 3.0)):
        keep(run, episodes=episodes, mean_return=mean)
    found = {info.id: info.evaluated for info in with_evaluations(run, Checkpoints().list(run))}
    assert found["best_model"] is None
    told = found["checkpoint"]
    assert told is not None
    assert (told.episodes, told.mean_return, told.returns) == (20, 2.0, [])


def test_of_a_file_of_others_only_what_is_one_is_read(run: RunFolder) -> None:
    keep(run)
    good = json.loads(run.evaluations.read_text())
    lies: list[dict[str, Any]] = [
        {"returns": [1.0] * (MOST_RETURNS + 1)}, {"mean_return": "NaN"}, {"mean_return": None},
        {"episodes": -1}, {"time": 1e300}, {"seed": 10**400}, {"notes": ["x"] * 11}, {"model_id": -1},
    ]  # fmt: skip
    odd = [json.dumps(good | lie) for lie in lies] + ["[" * 100_000, "nonsense", "\x00", '{"model_id": 3}']
    steers = json.dumps(good | {"checkpoint": "\x1b[2J" + "x" * 10_000})
    run.evaluations.write_text("\n".join([*odd, steers]))
    (found,) = kept_evaluations(run)
    assert found.checkpoint.isprintable()
    assert len(found.checkpoint) < 1000
    run.evaluations.write_bytes(b"x" * 5 * 2**20)
    assert kept_evaluations(run) == []


@pytest.mark.allow_warnings
def test_what_can_not_be_kept_is_told_and_nothing_else_is_written(
    run: RunFolder, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    keep(run, mean_return=float("nan"))
    assert not run.evaluations.exists()
    elsewhere = tmp_path / "profile"
    elsewhere.write_text("mine")
    run.evaluations.symlink_to(elsewhere)
    keep(run)
    assert elsewhere.read_text() == "mine"
    assert caplog.text.count("is not kept") == 2
