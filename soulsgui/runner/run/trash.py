"""The bin: runs and checkpoints that were thrown away, until they are put back or purged.

The checkpoints of a run lie in its own folder: they go with it, and never come into another of its name.
"""

import asyncio
import os
import secrets
import shutil
from collections.abc import Sequence
from pathlib import Path

from soulsgui.config.paths import RunFolder
from soulsgui.errors import NoCheckpointError, UsageError
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.library import Library, tree_bytes
from soulsgui.system import replace
from soulsgui.wire.control import CheckpointInfo, ErrorCode

_ROTATED = ("current", "previous", "best")
_LISTED = "soulsgui runs list --trashed"


class Bin:
    """The bin of a library; `runs` are those in it."""

    def __init__(self, folder: Path, library: Library) -> None:
        self.runs = Library(folder / "runs")
        self._library = library
        self._aside = folder / ".purged"  # what is being removed: half of a run must not be put back
        self.changing = asyncio.Lock()  # held by who moves or removes something: nothing returns half removed

    def clear(self) -> None:
        """Remove what a purge left that did not come to its end."""
        shutil.rmtree(self._aside, ignore_errors=True)

    def checkpoints_of(self, run: RunFolder) -> RunFolder:
        """Return the folder in which the thrown away checkpoints of a run stand as they stood in its own."""
        return RunFolder(run.trash / run.run_id)

    def throw_run(self, run: RunFolder) -> None:
        """Throw a run away."""
        if self._library.record(run).pinned:
            raise Refused(
                ErrorCode.NOT_NOW, f"Run {run.run_id} is pinned.", f"soulsgui runs edit {run.run_id} --pin no"
            )
        _move(run.root, self.runs.root / run.run_id)
        self._library.forget(run)

    def restore_run(self, run_id: str) -> RunFolder:
        """Put a run back."""
        thrown = self.runs.find(run_id, listed=_LISTED)
        back = RunFolder(self._library.root / thrown.run_id)
        _move(thrown.root, back.root)
        return back

    def throw_checkpoint(self, run: RunFolder, info: CheckpointInfo, goes_on: bool) -> None:
        """Throw a checkpoint of a run away, which may go on."""
        if info.pinned:
            remedy = f"soulsgui checkpoints edit {info.id} --run {run.run_id} --pin no"
            raise Refused(ErrorCode.NOT_NOW, f"The checkpoint {info.id} is pinned.", remedy)
        if goes_on and run.chosen == Path(info.path):
            what = f"Run {run.run_id} is about to continue from {info.id}."
            raise Refused(ErrorCode.NOT_NOW, what, "Try again when it has saved its next checkpoint.")
        if goes_on and info.kind in _ROTATED:
            what = f"Run {run.run_id} is active, and needs its {info.kind} checkpoint in case of a crash."
            raise Refused(ErrorCode.NOT_NOW, what, "Stop it first: soulsgui run stop")
        _move(Path(info.path), self.checkpoints_of(run).root / info.id)

    def restore_checkpoint(self, run: RunFolder, path: str) -> str:
        """Put a checkpoint back; return its path below the run's folder."""
        info = self._thrown(run, path)
        _move(Path(info.path), run.root / info.id)
        return info.id

    def purge_runs(self, run_id: str) -> int:
        """Remove a run of the bin for good, or with an empty id all; return how many bytes that frees."""
        if run_id:
            return self._remove([self.runs.find(run_id, True, _LISTED).root])
        return self._remove([*self.runs.root.glob("*")])

    def purge_checkpoints(self, run: RunFolder, path: str) -> int:
        """Remove a checkpoint of a run from the bin for good, or with an empty path all; as `purge_runs`."""
        thrown = self.checkpoints_of(run)
        found = [Path(self._thrown(run, path).path)] if path else [thrown.root]
        return self._remove([one for one in found if one.exists()])

    def _thrown(self, run: RunFolder, path: str) -> CheckpointInfo:
        try:
            return self._library.checkpoints.get(self.checkpoints_of(run), path)
        except NoCheckpointError as error:
            listed = f"soulsgui checkpoints list {run.run_id} --trashed"
            what = f"The bin of run {run.run_id} has no checkpoint “{path}”."
            raise NoCheckpointError(what, f"See which there are: {listed}") from error

    def _remove(self, folders: Sequence[Path]) -> int:
        size = sum(map(tree_bytes, folders))
        for folder in folders:
            _move(folder, self._aside / secrets.token_hex(8))
        if folders:
            shutil.rmtree(self._aside)
        return size


def _move(source: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise UsageError(f"{target} already exists.", "Move it away, or delete it from the bin for good.")
    target.parent.mkdir(parents=True, exist_ok=True)
    replace(source, target)
