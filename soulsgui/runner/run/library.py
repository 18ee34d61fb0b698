"""The runs in the data folder: their folders, their records, their checkpoints."""

import itertools
import json
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import CheckpointError, UsageError, printable
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.record import LIVE_STATES, RunRecord, interrupted
from soulsgui.system import atomic_write, explained, find_dir, read_small
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.manifest import MANIFEST

logger = logging.getLogger(__name__)


LATEST = "latest"
UNPACKED = ".import"
"""How the folder begins in which a run is unpacked before it is in the library."""

_ANY = RunFolder(Path())

_FOLDERS = (_ANY.checkpoint, _ANY.previous, _ANY.best_model, _ANY.manual_saves, _ANY.history)
_CHECKPOINTS = frozenset(("", control.BEST, control.NEWEST, *(path.name for path in _FOLDERS)))
"""How the names of checkpoints begin, which no run's does."""

_NAME_LENGTH = 40
_NAMED = 10
_STAMP_LENGTH = len("2026-01-01_00-00-00")
_SIZE_AGE_S = 10.0
_OLD_SIZE_AGE_S = 600.0


class Library:
    """The runs of a data folder: one folder each."""

    def __init__(self, runs: Path) -> None:
        self.root = runs
        self.checkpoints = Checkpoints()
        self._sizes: dict[str, tuple[float, int]] = {}
        self._numbers: dict[str, int] = {}
        self._settings: tuple[tuple[Path, int, int, int], Settings | list[Problem]] | None = None

    def create(self, name: str, wall_time: float) -> RunFolder:
        """Make the folder of a new run; the user's name for it may be empty."""
        self.root.mkdir(parents=True, exist_ok=True)
        base = run_stem(name, wall_time)
        for number in range(1, 1000):
            path = self.root / (base if number == 1 else f"{base}-{number}")
            try:
                path.mkdir()
            except FileExistsError:
                continue
            run = RunFolder(path)
            try:
                run.logs.mkdir()
            except OSError:
                path.rmdir()
                raise
            return run
        raise FileExistsError(f"{self.root / base} and a thousand like it exist already")

    def clear(self, going_on: RunFolder | None = None) -> None:
        """Remove what imports, evaluations and copies left that did not come to their end.

        In the history of the run that goes on somebody may be writing.
        """
        left = [*self.root.glob(f"{UNPACKED}*"), *self.root.glob(f"*/{_ANY.watched}")]
        torn = self.root.glob(f"*/{_ANY.history}/.*.new")
        left += [one for one in torn if going_on is None or one.parents[1] != going_on.root]
        for one in left:
            shutil.rmtree(one, ignore_errors=True)

    def forget(self, run: RunFolder) -> None:
        """Forget what is remembered of a run that was moved away: another one may get its id."""
        self._sizes.pop(run.run_id, None)
        self._numbers.pop(run.run_id, None)

    def folders(self) -> list[RunFolder]:
        """Return every run: first the one that was begun or gone on with last; others' come after ours."""
        if not self.root.is_dir():
            return []
        found = (RunFolder(path) for path in self.root.iterdir() if path.is_dir())
        return sorted((run for run in found if _has_record(run)), key=self._place, reverse=True)

    def next_number(self) -> int:
        """Return the number of the next run: greater than that of every other one."""
        return 1 + max((self._number(run) for run in self.folders()), default=0)

    def _place(self, run: RunFolder) -> tuple[int, str, int, str]:
        """Sort key: the number; without one, the second and then the order in which they were written."""
        try:
            written_ns = run.config.stat().st_mtime_ns
        except OSError:  # it may be thrown away at this moment
            written_ns = 0
        return self._number(run), run.run_id[:_STAMP_LENGTH], written_ns, run.run_id

    def _number(self, run: RunFolder) -> int:
        """Return the number of a run, which changes only when it is gone on with."""
        number = self._numbers.get(run.run_id)
        if number is None:
            record = self.record(run)
            if not record.created:
                return 0  # it can't be read at the moment
            number = self._numbers[run.run_id] = record.number
        return number

    def find(self, run_id: str, whole: bool = False, listed: str = "soulsgui runs list") -> RunFolder:
        """Return a run by its id, by a beginning of it or a name that fits no other, or `latest`.

        No beginning will do for a `whole` id: the run that was meant may be gone, and `A` begins `A-2`.
        """
        exact = RunFolder(self.root / run_id)
        # Its own name alone: Windows finds a folder by others, too.
        there = self.root.is_dir() and any(path.name == run_id for path in self.root.iterdir())
        if there and run_id != LATEST and _has_record(exact):
            return exact
        runs = self.folders()
        if run_id == LATEST and runs:
            return runs[0]
        fits: tuple[Callable[[RunFolder], bool], ...] = (
            lambda run: not whole and run.run_id.startswith(run_id),
            lambda run: run_id in (run.run_id[_STAMP_LENGTH + 1 :], self.record(run).name),
        )
        alike = next((some for fit in fits if (some := [run for run in runs if run_id and fit(run)])), [])
        if len(alike) == 1:
            return alike[0]
        several = ", ".join(run.run_id for run in alike[:_NAMED])
        reason = f"“{run_id}” matches several runs: {several}." if alike else f"There is no run “{run_id}”."
        remedy = f"See which there are: {listed}"
        if run_id == LATEST:
            reason, remedy = "There is no run yet.", "Start one: soulsgui run start"
        if "/" in run_id:
            remedy += (
                ". To continue from one of its checkpoints: soulsgui run resume RUN --checkpoint KIND/NAME"
            )
        raise Refused(ErrorCode.NOT_FOUND, reason, remedy)

    def record(self, run: RunFolder) -> RunRecord:
        """Return the record of a run; a damaged one holds the error in its place."""
        try:
            found, why = RunRecord.read(read_small(run.run)), "run.json is damaged"
        except OSError as error:
            found, why = None, explained(error)[0]
        found = found or RunRecord(state="failed", error=why)
        return found.model_copy(update={"id": run.run_id, "dir": str(run.root)})

    def versions(self, run: RunFolder) -> dict[str, Any]:
        """Return the versions of packages that a run was begun with, none where they can't be read."""
        try:
            found = json.loads(read_small(run.versions))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def best(self, run: RunFolder) -> tuple[int, float] | None:
        """Return model id and score of the best model that was saved, None while there is none."""
        best = (info for info in self.checkpoints.list(run) if info.kind == "best" and info.valid)
        return next(((info.model_id, info.score) for info in best if info.score is not None), None)

    def last_record(self) -> RunRecord:
        """Return the record of the latest run; an empty one before the first."""
        runs = self.folders()
        record = self.record(runs[0]) if runs else RunRecord()
        return interrupted(record) if record.state in LIVE_STATES else record

    def write_record(self, run: RunFolder, record: RunRecord) -> None:
        """Write the record of a run."""
        atomic_write(run.run, record.model_dump_json(indent=1).encode())
        self._numbers.pop(run.run_id, None)
        if record.state not in LIVE_STATES:
            # From now on it is looked at seldom.
            self._sizes.pop(run.run_id, None)

    def write_settings(self, run: RunFolder, settings: Settings) -> None:
        """Write the configuration of a run, without secrets."""
        atomic_write(run.config, json.dumps(public_tree(settings), indent=1).encode())
        self._settings = None  # the clock of files is coarse

    def settings(self, run: RunFolder) -> Settings:
        """Return the configuration of a run; a ConfigError names every mistake."""
        # Every status asks whether the newest run can be resumed; to read and check its settings takes 70 ms,
        # and to find what is wrong with damaged ones many seconds.
        try:
            written = run.config.stat()
        except OSError:
            return load_run_settings(run.config)
        version = (run.config, written.st_mtime_ns, written.st_size, written.st_ino)
        known = self._settings  # another thread may put those of another run in its place at any moment
        if known is None or known[0] != version:
            try:
                known = version, load_run_settings(run.config)
            except ConfigError as error:
                if isinstance(error.__cause__, OSError):  # rights that are mended leave the version as it is
                    raise
                known = version, error.problems
            self._settings = known
        found = known[1]
        if isinstance(found, Settings):
            return found
        raise ConfigError(found)

    def summaries(self, active: RunRecord | None) -> list[control.RunSummary]:
        """Return every run, the newest first; of the `active` one the record on disk is a little older."""
        return [self.summary(run, active) for run in self.folders()]

    def summary(self, run: RunFolder, active: RunRecord | None) -> control.RunSummary:
        """Return one run."""
        record = self.record(run)
        if active is not None and active.id == run.run_id:
            record = active
        elif record.state in LIVE_STATES:
            record = interrupted(record)
        return control.RunSummary(
            **record.model_dump(include=set(control.RunSummary.model_fields)),
            size_bytes=self._size(run, _SIZE_AGE_S if record.state in LIVE_STATES else _OLD_SIZE_AGE_S),
            resumable=run.config.exists()
            and (
                find_dir(run.checkpoint) is not None
                or any(one.exists() for one in (run.previous, run.manual_saves, run.history))
            ),
        )

    def _size(self, run: RunFolder, greatest_age_s: float) -> int:
        now = time.monotonic()
        at, size = self._sizes.get(run.run_id, (float("-inf"), 0))
        if now - at >= greatest_age_s:
            size = tree_bytes(run.root)
            self._sizes[run.run_id] = (now, size)
        return size


def find_checkpoint(library: Library, name: str) -> Path:
    """Return the folder of a checkpoint that somebody named.

    The name is its folder, or what `named_checkpoint` takes; of a run, also by its folder, the newest whole
    checkpoint is meant.
    """
    path = Path(name)
    if (path / MANIFEST).exists():
        return path.absolute()
    if path.is_dir() and RunFolder(path.absolute()).run.exists():
        return Path(library.checkpoints.get(RunFolder(path.absolute()), control.NEWEST).path)
    inside = sorted(one.parent.name for one in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if inside:
        raise CheckpointError(
            f"{printable(name)} holds checkpoints: {', '.join(map(printable, inside))}.",
            f"Name one of them: {printable(str(path / inside[-1]))}",
        )
    if path.is_absolute() or name.partition("/")[0] in (".", ".."):
        raise CheckpointError(
            f"There is no checkpoint at {printable(name)}.", "See which there are: soulsgui checkpoints list"
        )
    run, checkpoint = named_checkpoint(library, name, LATEST)
    return Path(library.checkpoints.get(run, checkpoint or control.NEWEST).path)


def named_checkpoint(library: Library, name: str, run: str) -> tuple[RunFolder, str]:
    """Return which run a checkpoint is of that somebody named, and its name in there; empty: a run was named.

    The name is what `checkpoints list` shows, `best` or `newest`, of `run`; or one of these behind another
    run, as in `RUN/best`.
    """
    first, _, rest = name.replace("\\", "/").partition("/")
    return (library.find(run), name) if first in _CHECKPOINTS else (library.find(first), rest)


def refuse_links(run: RunFolder) -> None:
    """Refuse a run in which anything leads elsewhere: what is written or read there lies outside of it."""
    for folder, folders, files in os.walk(run.root):
        for name in (*folders, *files):
            path = Path(folder, name)
            if not os.path.lexists(path):
                continue  # whoever trains has put another one into its place
            mode = path.lstat().st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                raise UsageError(
                    f"{path} is a link, or not a file: a run only has files in its own folder.",
                    "Replace it with the file itself, or remove it.",
                )


def named(known: Sequence[str], wanted: str, what: str, starting: str) -> str:
    """Return which of some ids, the newest first, is meant: by how it begins, its name, or `latest`.

    `starting` is the command that makes the first one.
    """
    if not known:
        raise Refused(ErrorCode.NOT_FOUND, f"There is no {what} yet.", f"Start one: soulsgui {starting}")
    if wanted == LATEST:
        return known[0]
    fits: tuple[Callable[[str], bool], ...] = (
        lambda one: one == wanted,
        lambda one: one.startswith(wanted),
        lambda one: one.endswith(f"_{wanted}"),
    )
    alike = next((some for fit in fits if (some := [one for one in known if wanted and fit(one)])), [])
    if len(alike) == 1:
        return alike[0]
    reason = f"“{wanted}” matches several {what}s." if alike else f"There is no {what} “{wanted}”."
    raise Refused(ErrorCode.NOT_FOUND, reason, f"There are: {', '.join(known[:_NAMED])}")


def run_stem(name: str, wall_time: float) -> str:
    """Return the beginning of an id: the time, and what a name has that a folder may be called."""
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(wall_time))
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:_NAME_LENGTH]
    return f"{stamp}_{slug}" if slug else stamp


def unused(stem: str, names: Collection[str]) -> str:
    """Return how an id that begins so goes on where others of the same second begin so, too."""
    numbered = (f"{stem}-{number}" for number in itertools.count(2))
    return next(one for one in itertools.chain([stem], numbered) if one not in names)


def _has_record(run: RunFolder) -> bool:
    try:
        return run.run.exists()
    except OSError as error:  # somebody else's folder among ours, such as lost+found
        logger.info("%s is left out: %s", run.root, error)
        return False


def tree_bytes(root: Path) -> int:
    """Return how large a file is, or all below a folder; what links lead to is elsewhere, and not counted."""
    total = 0
    below = (Path(folder, name) for folder, _, names in os.walk(root) for name in names)
    for file in [root] if root.is_symlink() or root.is_file() else below:
        try:
            total += file.lstat().st_size
        except OSError:  # it is gone meanwhile
            continue
    return total
