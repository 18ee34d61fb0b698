"""Checkpoints are listed and verified by their manifests."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.runner.run import checkpoints as runner_checkpoints
from soulsgui.runner.run.checkpoints import BestModel, Checkpoints
from soulsgui.wire.messages.node import Verdict
from tests.runner.fake_program import save


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path / "run")


def test_every_kind_is_listed_the_newest_first(run: RunFolder) -> None:
    assert Checkpoints().list(run) == []
    save(run.checkpoint, run, "current", 100)
    save(run.manual_saves / "first", run, "manual", 200, score=0.5)  # by a version that did not say of what
    save(run.best_model, run, "best", 300, model_id=7, score=1.5, scored_by="evaluation")
    (run.manual_saves / ".second.new").mkdir()
    found = Checkpoints().list(run)
    assert [(info.id, info.kind, info.env_steps) for info in found] == [
        ("best_model", "best", 300),
        ("manual_save/first", "manual", 200),
        ("checkpoint", "current", 100),
    ]
    assert all(info.valid for info in found)
    assert (found[0].model_id, found[0].score, found[0].resumable) == (7, 1.5, False)
    assert [info.scored_by for info in found] == ["evaluation", "training", ""]
    assert Path(found[2].path) == run.checkpoint
    assert found[2].size_bytes > 64


@pytest.mark.parametrize(
    ("harm", "said"),
    [
        (lambda path: (path / "weights.safetensors").write_bytes(b"x" * 64), "damaged"),
        (lambda path: (path / "weights.safetensors").write_bytes(b"x"), "1 bytes instead of 64"),
        (lambda path: (path / "weights.safetensors").unlink(), "missing"),
        (lambda path: (path / "manifest.json").unlink(), "manifest"),
        (lambda path: (path / "manifest.json").write_text("{}"), "manifest"),
        (lambda path: change(path, format=99), "format 99"),
        (lambda path: change(path, files={"../run.json": {"sha256": "", "size": 0}}), "outside"),
    ],
)
def test_harm_is_found_and_named(run: RunFolder, harm: object, said: str) -> None:
    save(run.checkpoint, run, "current", 100)
    checkpoints = Checkpoints()
    assert checkpoints.list(run)[0].valid
    harm(run.checkpoint)  # type: ignore[operator]
    (info,) = checkpoints.list(run)
    assert not info.valid
    assert not info.resumable
    assert said in info.error
    with pytest.raises(CheckpointError, match="can't go on"):
        checkpoints.get_resumable(run, "checkpoint")


def change(path: Path, **fields: object) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | fields))


def test_note_is_kept_beside_the_manifest_and_leaves_it_valid(run: RunFolder) -> None:
    save(run.manual_saves / "first", run, "manual", 200)
    checkpoints = Checkpoints()
    assert checkpoints.edit_note(run, "manual_save/first", "näher dran").note == "näher dran"
    assert Checkpoints().list(run)[0].note == "näher dran"
    assert Checkpoints().list(run)[0].valid


def test_only_checkpoints_of_the_list_can_be_named(run: RunFolder) -> None:
    save(run.checkpoint, run, "current", 100)
    checkpoints = Checkpoints()
    assert checkpoints.get(run, "checkpoint/").id == "checkpoint"
    for name in ("", "..", "best_model", "manual_save", "checkpoint/../checkpoint", "/etc"):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            checkpoints.get(run, name)


def test_checkpoint_between_two_renames_is_found_beside_its_place(run: RunFolder) -> None:
    save(run.checkpoint, run, "current", 100)
    run.checkpoint.rename(run.root / ".checkpoint.old")
    (info,) = Checkpoints().list(run)
    assert (info.id, info.env_steps, info.valid) == ("checkpoint", 100, True)


def test_checkpoint_that_is_replaced_while_it_is_read_is_read_again(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(run.checkpoint, run, "current", 100)
    checkpoints = Checkpoints()
    verify, calls = runner_checkpoints.verify, []

    def replaced_meanwhile(place: Path, *arguments: Any) -> None:
        if not calls:
            save(run.checkpoint, run, "current", 200)
        calls.append(place)
        verify(place, *arguments)

    monkeypatch.setattr(runner_checkpoints, "verify", replaced_meanwhile)
    (info,) = checkpoints.list(run)
    assert (info.env_steps, info.valid) == (200, True)
    assert len(calls) == 2


def test_unchanged_files_are_hashed_once(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    save(run.checkpoint, run, "current", 100)
    checkpoints = Checkpoints()
    checkpoints.list(run)

    def hashed_again() -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "sha256", hashed_again)
    assert checkpoints.list(run)[0].valid


NOBODY: Any = None
"""What decides alone asks no trainer."""


def test_best_model_is_due_once_per_change_and_one_at_a_time() -> None:
    best = BestModel(NOBODY)
    first, second = Verdict(best_model_id=1, best_score=5.0), Verdict(best_model_id=2, best_score=6.0)
    assert best.due(None, 0.0) is None
    assert best.due(Verdict(), 0.0) is None
    assert best.due(first, 0.0) == (1, 5.0)
    assert best.due(second, 10.0) is None
    best.answered(delivered=True)
    assert best.due(first, 20.0) is None
    assert best.due(second, 20.0) == (2, 6.0)


def test_best_model_keeps_a_gap_and_waits_for_the_one_before_unless_the_run_ends() -> None:
    best = BestModel(NOBODY)
    assert best.due(Verdict(best_model_id=1, best_score=5.0), 0.0) == (1, 5.0)
    best.answered(delivered=True)
    better = Verdict(best_model_id=2, best_score=6.0)
    assert best.due(better, 0.5) is None
    assert best.due(better, 0.5, hurry=True) == (2, 6.0)
    best = BestModel(NOBODY)
    first = Verdict(best_model_id=1, best_score=5.0)
    assert best.due(first, 0.0) == (1, 5.0)
    assert best.due(first, 10.0, hurry=True) is None
    assert best.due(Verdict(best_model_id=2, best_score=6.0), 10.0, hurry=True) == (2, 6.0)


def test_best_model_is_due_again_when_nobody_answered() -> None:
    best = BestModel(NOBODY)
    verdict = Verdict(best_model_id=1, best_score=5.0)
    assert best.due(verdict, 0.0) == (1, 5.0)
    best.answered(delivered=False)
    assert best.due(verdict, 5.0) == (1, 5.0)


def test_best_model_that_is_saved_or_whose_weights_another_process_held_is_not_due() -> None:
    best = BestModel(NOBODY, (1, 5.0))
    assert best.due(Verdict(best_model_id=1, best_score=5.0), 0.0) is None
    best.oldest = 8
    assert best.due(Verdict(best_model_id=7, best_score=6.0), 0.0, hurry=True) is None
    assert best.due(Verdict(best_model_id=8, best_score=7.0), 0.0) == (8, 7.0)
