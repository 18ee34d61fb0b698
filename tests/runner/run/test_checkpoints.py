import hashlib
import json
from collections.abc import Callable
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


@pytest.fixture
def checkpoints() -> Checkpoints:
    return Checkpoints()


@pytest.fixture
def saved(run: RunFolder) -> RunFolder:
    """A run with a checkpoint after 100 steps."""
    save(run.checkpoint, run, "current", 100)
    return run


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
def test_harm_is_found_and_named(
    saved: RunFolder, checkpoints: Checkpoints, harm: Callable[[Path], object], said: str
) -> None:
    assert checkpoints.list(saved)[0].valid
    harm(saved.checkpoint)
    (info,) = checkpoints.list(saved)
    assert (info.valid, info.resumable) == (False, False)
    assert said in info.error
    assert said in info.allowed["run.resume"]
    with pytest.raises(CheckpointError, match="can't continue"):
        checkpoints.get_resumable(saved, "checkpoint")
    with pytest.raises(CheckpointError, match=f"No checkpoint of {saved.run_id} .* checkpoint is damaged"):
        checkpoints.check_resumable(saved)


def test_best_and_newest_are_names_of_checkpoints(run: RunFolder, checkpoints: Checkpoints) -> None:
    with pytest.raises(CheckpointError, match="has no checkpoint yet"):
        checkpoints.get(run, "newest")
    save(run.history / "7", run, "history", 200)
    save(run.checkpoint, run, "current", 100)
    save(run.best_model, run, "best", 50)
    (run.checkpoint / "weights.safetensors").write_bytes(b"x")
    found = {name: checkpoints.get(run, name).id for name in ("best", "newest", "history\\7", "checkpoint")}
    assert found == {
        "best": "best_model",
        "newest": "history/7",  # the other one is not whole
        "history\\7": "history/7",
        "checkpoint": "checkpoint",
    }
    assert checkpoints.get_resumable(run, "newest").env_steps == 200
    with pytest.raises(CheckpointError, match="has no checkpoint “”"):
        checkpoints.get(run, "")


def change(path: Path, **fields: object) -> None:
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps(manifest | fields))


def test_note_beside_the_manifest_leaves_it_valid(saved: RunFolder, checkpoints: Checkpoints) -> None:
    assert checkpoints.edit(saved, "checkpoint", "näher dran", None).note == "näher dran"
    (info,) = Checkpoints().list(saved)
    assert (info.note, info.valid) == ("näher dran", True)


def test_only_checkpoints_of_the_list_can_be_named(saved: RunFolder, checkpoints: Checkpoints) -> None:
    assert checkpoints.get(saved, "checkpoint/").id == "checkpoint"
    for name in ("", "..", "best_model", "manual_save", "checkpoint/../checkpoint", "/etc"):
        with pytest.raises(CheckpointError, match="no checkpoint"):
            checkpoints.get(saved, name)


def test_checkpoint_between_two_renames_is_found(saved: RunFolder, checkpoints: Checkpoints) -> None:
    saved.checkpoint.rename(saved.root / ".checkpoint.old")
    (info,) = checkpoints.list(saved)
    assert (info.id, info.env_steps, info.valid) == ("checkpoint", 100, True)


def test_checkpoint_that_is_replaced_while_it_is_read_is_read_again_and_unchanged_files_are_hashed_once(
    saved: RunFolder, checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, calls = runner_checkpoints.verify, []

    def replaced_meanwhile(place: Path, *arguments: Any) -> None:
        if not calls:
            save(saved.checkpoint, saved, "current", 200)
        calls.append(place)
        verify(place, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(runner_checkpoints, "verify", replaced_meanwhile)
        (info,) = checkpoints.list(saved)
    assert (info.env_steps, info.valid) == (200, True)
    assert len(calls) == 2

    def hashed_again(*_: Any) -> None:
        raise AssertionError("hashed again")

    monkeypatch.setattr(hashlib, "file_digest", hashed_again)
    assert checkpoints.list(saved)[0].valid


NOBODY: Any = None
"""Who decides alone asks no trainer."""


def verdict(number: int) -> Verdict:
    return Verdict(best_model_id=number, best_score=4.0 + number)


def test_best_model_is_due_once_per_change_with_a_gap_and_again_when_nobody_answered() -> None:
    best = BestModel(NOBODY, None)
    assert best.due(None, 0.0) is None
    assert best.due(Verdict(), 0.0) is None
    assert best.due(verdict(1), 0.0) == (1, 5.0)
    assert best.due(verdict(2), 10.0) is None, "one at a time"
    best.answered(delivered=False)
    assert best.due(verdict(1), 15.0) == (1, 5.0)
    best.answered(delivered=True)
    assert best.due(verdict(1), 25.0) is None
    assert best.due(verdict(2), 25.0) == (2, 6.0)
    best.answered(delivered=True)
    assert best.due(verdict(3), 25.5) is None
    # When the run ends it waits neither for the gap nor for the one before.
    assert best.due(verdict(3), 25.5, hurry=True) == (3, 7.0)
    assert best.due(verdict(3), 25.6, hurry=True) is None
    assert best.due(verdict(4), 25.6, hurry=True) == (4, 8.0)


def test_best_model_that_is_saved_or_whose_weights_another_process_held_is_not_due() -> None:
    best = BestModel(NOBODY, (1, 5.0))
    assert best.due(verdict(1), 0.0) is None
    best.oldest = 8
    assert best.due(verdict(7), 0.0, hurry=True) is None
    assert best.due(verdict(8), 0.0) == (8, 12.0)


def test_a_pin_keeps_a_copy_of_what_newer_ones_replace(saved: RunFolder, checkpoints: Checkpoints) -> None:
    pinned = checkpoints.edit(saved, "checkpoint", "worth it", True)
    assert (pinned.kind, pinned.pinned, pinned.valid, pinned.note) == ("history", True, True, "worth it")
    assert checkpoints.edit(saved, "checkpoint", None, True).id == pinned.id
    assert not checkpoints.get(saved, "checkpoint").pinned
    assert not checkpoints.edit(saved, pinned.id, None, False).pinned


def test_what_is_taken_from_another_run_is_older_than_all_of_its_own(
    saved: RunFolder, checkpoints: Checkpoints, tmp_path: Path
) -> None:
    other = RunFolder(tmp_path / "other")
    save(other.checkpoint, other, "current", 5)
    first = checkpoints.take(saved, other.checkpoint)
    again = checkpoints.take(saved, other.checkpoint)
    assert (first.attempt, first.pinned, first.resumable, first.env_steps) == (0, True, True, 5)
    assert again.id == f"{first.id}_2"
    (other.checkpoint / "weights.safetensors").write_bytes(b"x" * 64)
    with pytest.raises(CheckpointError, match="damaged"):
        checkpoints.take(saved, other.checkpoint)
    assert len(list(saved.history.iterdir())) == 2
