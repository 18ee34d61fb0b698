import itertools
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.training.checkpoint import UnsavedError, newest_resumable, read_checkpoint, write_checkpoint
from soulsgui.wire.manifest import MANIFEST, NOTE
from tests.faults.checkpoint_writer import checkpoint
from tests.faults.small_disk import small_disk


def test_a_checkpoint_comes_back_as_it_was_also_without_an_agent(tmp_path: Path) -> None:
    saved, target = checkpoint(3, size=10), tmp_path / "deep" / "checkpoint"
    write_checkpoint(target, saved)
    found = read_checkpoint(target)
    assert found.info.model_copy(update={"files": {}}) == saved.info
    assert found.state == saved.state
    for mine, theirs in ((saved.weights, found.weights), (saved.agent, found.agent)):
        assert set(mine) == set(theirs)
        for name, tensor in mine.items():
            assert theirs[name].shape == tensor.shape
            np.testing.assert_array_equal(theirs[name], tensor)
    assert (target / NOTE).read_text() == "note 3"
    assert [path.name for path in target.parent.iterdir()] == ["checkpoint"]
    manifest = json.loads((target / MANIFEST).read_text())
    assert set(manifest["files"]) == {path.name for path in target.iterdir()} - {MANIFEST, NOTE}
    for name, said in manifest["files"].items():
        assert (said["size"], len(said["sha256"])) == ((target / name).stat().st_size, 64)
    assert (manifest["updates"], manifest["model_id"], manifest["run_id"]) == (3, 3, "run-1")
    info = saved.info.model_copy(update={"resumable": False})
    write_checkpoint(target, replace(saved, agent={}, state={}, info=info))
    found = read_checkpoint(target)
    assert (found.agent, found.info.resumable) == ({}, False)


def _damage(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _change_manifest(**changed: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        manifest = json.loads((folder / MANIFEST).read_text())
        del manifest["sha256"]  # as in those of older versions
        (folder / MANIFEST).write_text(json.dumps(manifest | changed))

    return change


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (lambda folder: _damage(folder / "weights.safetensors"), "is damaged"),
        (lambda folder: _damage(folder / "agent.safetensors"), "is damaged"),
        (lambda folder: (folder / "state.json").unlink(), "state.json is missing"),
        (lambda folder: (folder / MANIFEST).unlink(), "manifest.json is missing"),
        (lambda folder: (folder / MANIFEST).write_text("{"), "can't be read"),
        (lambda folder: (folder / MANIFEST).write_text("[]"), "can't be read"),
        (_change_manifest(format=99), "newer version"),
        (_change_manifest(format="x"), "can't be read"),
        (_change_manifest(files={}), "can't be read"),
        (_change_manifest(run_id=None), "run_id"),
        (_change_manifest(env_steps=-100), "env_steps"),
        (_change_manifest(model_id=10**400), "can't be read"),
        (_change_manifest(files={"../../etc/passwd": {"sha256": "0", "size": 1}}), "outside"),
        (lambda folder: write_checkpoint(folder, replace(checkpoint(3, size=10), state={})), "lacks a part"),
    ],
)
def test_harmed_checkpoints_are_refused(tmp_path: Path, harm: Callable[[Path], object], reason: str) -> None:
    write_checkpoint(tmp_path / "c", checkpoint(3, size=10))
    harm(tmp_path / "c")
    with pytest.raises(CheckpointError, match=reason):
        read_checkpoint(tmp_path / "c")


def test_a_manifest_that_says_something_else_than_was_saved_is_damaged(tmp_path: Path) -> None:
    write_checkpoint(tmp_path, saved := checkpoint(3, size=10))
    path = tmp_path / MANIFEST
    path.write_text(path.read_text().replace('"model_id": 3', '"model_id": 2'))
    with pytest.raises(CheckpointError, match=r"manifest\.json is damaged"):
        read_checkpoint(tmp_path)
    _change_manifest(model_id=3)(tmp_path)
    assert read_checkpoint(tmp_path).info.model_id == saved.info.model_id, "that of an older version"


def _saved(path: Path, attempt: int, update: int, resumable: bool = True) -> None:
    made = checkpoint(update, size=10)
    info = made.info.model_copy(update={"attempt": attempt, "resumable": resumable})
    write_checkpoint(path, replace(made, info=info))


@pytest.mark.allow_warnings
def test_the_newest_whole_resumable_checkpoint_is_found(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert newest_resumable(run) is None
    _saved(run.best_model, 1, 30, resumable=False)
    assert newest_resumable(run) is None
    _saved(run.manual_saves / "a", 1, 20)
    _saved(run.manual_saves / "b", 2, 5)
    assert newest_resumable(run) == run.manual_saves / "b"
    _saved(run.checkpoint, 2, 9)
    assert newest_resumable(run) == run.checkpoint
    _damage(run.checkpoint / "agent.safetensors")
    assert newest_resumable(run) == run.manual_saves / "b"
    for name in "ab":
        _damage(run.manual_saves / name / "weights.safetensors")
    with pytest.raises(CheckpointError, match="can be resumed"):
        newest_resumable(run)  # a run whose checkpoints are all damaged does not begin anew


def test_a_memory_that_is_saved_regularly_is_gone_on_with_whatever_was_saved_since(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    memory = {"reward": np.zeros(3, np.float32)}
    write_checkpoint(run.manual_saves / "with", replace(checkpoint(5, size=10), memory=memory))
    write_checkpoint(run.checkpoint, checkpoint(10, size=10))
    assert newest_resumable(run) == run.checkpoint, "nobody asked for a memory in each"
    write_checkpoint(run.checkpoint, replace(checkpoint(20, size=10), memory=memory))
    for path in (run.manual_saves / "without", run.history / "1"):
        write_checkpoint(path, checkpoint(25, size=10))
    assert newest_resumable(run) == run.checkpoint
    for update, expected in ((20, run.manual_saves / "without"), (25, run.checkpoint)):
        made = checkpoint(update, size=10)  # whose memory is of use only where training stands right there
        info = made.info.model_copy(update={"memory_in_file": True})
        write_checkpoint(run.checkpoint, replace(made, info=info, memory=memory))
        assert newest_resumable(run) == expected


def _three(run: RunFolder) -> list[Path]:
    """Save three generations and a fourth, which replaces the oldest; return their places, newest first."""
    for update in range(1, 5):
        write_checkpoint(run.checkpoint, checkpoint(update, size=10), run.older)
    return [run.checkpoint, *run.older]


@pytest.mark.allow_warnings
@pytest.mark.parametrize("harm", [_damage, lambda path: path.write_bytes(b"")], ids=["flipped", "empty"])
@pytest.mark.parametrize("file", ["manifest.json", "agent.safetensors", "weights.safetensors", "state.json"])
def test_whatever_is_damaged_the_checkpoint_before_is_taken_and_what_was_passed_over_is_told(
    tmp_path: Path, harm: Callable[[Path], object], file: str
) -> None:
    run = RunFolder(tmp_path)
    places = _three(run)
    assert [read_checkpoint(place).info.updates for place in places] == [4, 3, 2]
    assert sorted(path.name for path in (*run.root.iterdir(), *run.previous.iterdir())) == [
        "1", "2", "checkpoint", "previous",
    ]  # fmt: skip
    harm(run.checkpoint / file)
    told: list[CheckpointError] = []
    assert newest_resumable(run, told.append) == places[1]
    (why,) = told
    assert f"{run.checkpoint} can't be used: {file}" in why.message
    harm(places[1] / "agent.safetensors")
    assert newest_resumable(run) == places[2]


@pytest.mark.allow_warnings
def test_an_older_one_that_is_damaged_is_not_told_as_passed_over(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    for place in _three(run)[1:]:
        (place / MANIFEST).write_text("{")
    told: list[CheckpointError] = []
    assert newest_resumable(run, told.append) == run.checkpoint
    assert not told


@pytest.mark.allow_warnings
def test_a_chosen_one_goes_before_newer_ones_and_where_it_is_gone_the_newest_is_taken_and_that_is_told(
    tmp_path: Path,
) -> None:
    run = RunFolder(tmp_path)
    _saved(run.history / "3", 1, 3)
    run.resume_from.write_text("history/3")
    _saved(run.checkpoint, 1, 9)
    told: list[CheckpointError] = []
    assert (newest_resumable(run, told.append), told) == (run.history / "3", [])
    shutil.rmtree(run.history / "3")
    assert newest_resumable(run, told.append) == run.checkpoint
    assert [f"{run.history / '3'} can't be used" in error.message for error in told] == [True]
    shutil.rmtree(run.checkpoint)
    with pytest.raises(CheckpointError, match="can be resumed"):
        newest_resumable(run)  # it does not begin anew


def test_a_crash_at_any_step_of_a_fourth_generation_loses_no_state(tmp_path: Path) -> None:
    for operations in itertools.count():
        run = RunFolder(tmp_path / str(operations))
        for update in range(1, 4):
            write_checkpoint(run.checkpoint, checkpoint(update, size=10), run.older)
        ended = FUSE.ends(
            operations,
            lambda: write_checkpoint(run.checkpoint, checkpoint(4, size=10), run.older),  # noqa: B023
        )
        newest = newest_resumable(run)
        assert newest == run.checkpoint, operations
        updates = [read_checkpoint(one).info.updates for one in (newest, *run.older) if one.exists()]
        assert updates == sorted(updates, reverse=True), operations
        assert updates[0] >= 3, operations
        assert len(updates) >= 2, operations
        assert not [path for path in run.root.iterdir() if path.name.startswith(".")], operations
        if not ended:
            assert updates == [4, 3, 2]
            return


class _Killed(BaseException):
    """The process ended here."""


class _Fuse:
    EVENTS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")

    def __init__(self) -> None:
        self.left: int | None = None
        sys.addaudithook(self._hook)

    def _hook(self, event: str, _: Any) -> None:
        if self.left is not None and event in self.EVENTS:
            self.left -= 1
            if self.left < 0:
                self.left = None
                raise _Killed

    def ends(self, operations: int, action: Callable[[], object]) -> bool:
        """Carry an action out; return whether the "process" ended before its n-th operation on files."""
        self.left = operations
        try:
            action()
        except _Killed:
            return True
        finally:
            self.left = None
        return False


FUSE = _Fuse()  # an audit hook stays for the life of the interpreter


def _assert_whole(run: RunFolder, target: Path, allowed: set[int], at: object) -> None:
    """After a crash the newest checkpoint is one of these, and nothing else is left."""
    assert newest_resumable(run) == target, at
    assert read_checkpoint(target).info.updates in allowed, at
    assert [path.name for path in run.root.iterdir()] == [target.name], at


@pytest.mark.parametrize("name", ["checkpoint", "best_model"])
def test_a_crash_at_any_step_loses_nothing(tmp_path: Path, name: str) -> None:
    crashes = 0
    for operations in range(1000):
        run = RunFolder(tmp_path / str(operations))
        target = run.root / name
        write_checkpoint(target, checkpoint(1, size=2))
        if not FUSE.ends(operations, lambda: write_checkpoint(target, checkpoint(2, size=2))):  # noqa: B023
            break
        crashes += 1
        _assert_whole(run, target, {1, 2}, operations)
    assert read_checkpoint(target).info.updates == 2
    assert crashes > 15  # it has that many steps at least


def test_a_crash_while_putting_a_crash_right_loses_nothing(tmp_path: Path) -> None:
    template = RunFolder(tmp_path / "template")
    write_checkpoint(template.checkpoint, checkpoint(1, size=2))
    tried = 0
    for first in range(8, 1000, 2):
        run = RunFolder(tmp_path / str(first))
        shutil.copytree(template.root, run.root)
        if not FUSE.ends(first, lambda: write_checkpoint(run.checkpoint, checkpoint(2, size=2))):  # noqa: B023
            break
        for second in range(100):
            copy = RunFolder(tmp_path / f"{first}-{second}")
            shutil.copytree(run.root, copy.root)
            if not FUSE.ends(second, lambda: newest_resumable(copy)):  # noqa: B023
                break
            tried += 1
            _assert_whole(copy, copy.checkpoint, {1, 2}, (first, second))
    assert tried > 20


def test_a_full_disk_keeps_the_older_checkpoint(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        run = RunFolder(disk)
        write_checkpoint(run.checkpoint, checkpoint(1, size=50_000))
        with pytest.raises(UnsavedError, match=r"could not be saved.*no space left on .* MB free"):
            write_checkpoint(run.checkpoint, checkpoint(2, size=100_000))
        _assert_whole(run, run.checkpoint, {1}, "full")
        write_checkpoint(run.checkpoint, checkpoint(3, size=1000))
        _assert_whole(run, run.checkpoint, {3}, "freed")
