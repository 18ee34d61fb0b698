"""The runs in the data folder: their folders, their records, their checkpoints."""

import json
import logging
import os
import re
import shutil
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from soulsgui.config.errors import ConfigError, Problem, nearest
from soulsgui.config.layers import load_run_settings
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import CheckpointError, UsageError, printable
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.checkpoints import Checkpoints
from soulsgui.runner.run.record import LIVE_STATES, RunRecord, interrupted
from soulsgui.runner.services.logs import read_lines
from soulsgui.system import atomic_write, explained, find_dir, read_small
from soulsgui.telemetry.store import client_names
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.manifest import MANIFEST
from soulsgui.wire.messages.metrics import EVALUATION_METRICS

logger = logging.getLogger(__name__)


LATEST = "latest"
UNPACKED = ".import"
"""How the folder begins in which a run is unpacked before it is in the library."""

_ANY = RunFolder(Path())

_FOLDERS = frozenset(
    path.name for path in (_ANY.checkpoint, _ANY.previous, _ANY.best_model, _ANY.manual_saves, _ANY.history)
)
"""Where the checkpoints of a run lie: how their names begin, which no run's does."""

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
        self._settings: tuple[tuple[Path, int, int], Settings | list[Problem]] | None = None

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
        """Return every run, the newest first."""
        if not self.root.is_dir():
            return []
        found = (RunFolder(path) for path in self.root.iterdir() if path.is_dir())
        return sorted((run for run in found if _has_record(run)), key=self._place, reverse=True)

    def next_number(self) -> int:
        """Return the number of the next run: greater than that of every other one."""
        return 1 + max((self._number(run) for run in self.folders()), default=0)

    def _place(self, run: RunFolder) -> tuple[int, str, int, str]:
        """Sort key: the number; without one, the second and then the order in which they were written."""
        written_ns = run.config.stat().st_mtime_ns if run.config.exists() else 0
        return self._number(run), run.run_id[:_STAMP_LENGTH], written_ns, run.run_id

    def _number(self, run: RunFolder) -> int:
        """Return the number of a run, which never changes."""
        if run.run_id not in self._numbers:
            record = self.record(run)
            if not record.created:
                return 0  # it can't be read at the moment
            self._numbers[run.run_id] = record.number
        return self._numbers[run.run_id]

    def find(self, run_id: str, whole: bool = False, listed: str = "soulsgui runs list") -> RunFolder:
        """Return a run by its id, by a beginning of it or a name that fits no other, or `latest`.

        No beginning will do for a `whole` id: the run that was meant may be gone, and `A` begins `A-2`.
        """
        runs = self.folders()
        if run_id == LATEST and runs:
            return runs[0]
        fits: tuple[Callable[[RunFolder], bool], ...] = (
            lambda run: run.run_id == run_id,
            lambda run: not whole and run.run_id.startswith(run_id),
            lambda run: run_id in (run.run_id[_STAMP_LENGTH + 1 :], self.record(run).name),
        )
        alike = next((some for fit in fits if (some := [run for run in runs if run_id and fit(run)])), [])
        if len(alike) == 1:
            return alike[0]
        several = ", ".join(run.run_id for run in alike[:_NAMED])
        reason = f"{run_id!r} fits several runs: {several}." if alike else f"There is no run {run_id!r}."
        if run_id == LATEST:
            reason = "There is no run yet."
        remedy = f"See which there are: {listed}"
        if "/" in run_id:
            remedy += ". To go on from one of its checkpoints: soulsgui run resume RUN --checkpoint KIND/NAME"
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
        """Return the record of the newest run; an empty one before the first."""
        runs = self.folders()
        record = self.record(runs[0]) if runs else RunRecord()
        return interrupted(record) if record.state in LIVE_STATES else record

    def write_record(self, run: RunFolder, record: RunRecord) -> None:
        """Write the record of a run."""
        atomic_write(run.run, record.model_dump_json(indent=1).encode())
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
            stat = run.config.stat()
        except OSError:
            return load_run_settings(run.config)
        version = (run.config, stat.st_mtime_ns, stat.st_size)
        if self._settings is None or self._settings[0] != version:
            try:
                self._settings = version, load_run_settings(run.config)
            except ConfigError as error:
                if isinstance(error.__cause__, OSError):  # rights that are mended leave the version as it is
                    raise
                self._settings = version, error.problems
        found = self._settings[1]
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

    The name is its folder; or a run (id, how it begins, or its folder), whose newest whole checkpoint is
    meant; `RUN/CHECKPOINT` as `checkpoints list` shows it, `RUN/best`; `latest`, `best` and, without `RUN/`,
    what `checkpoints list` shows, of the newest run.
    """
    path = Path(name)
    if (path / MANIFEST).exists():
        return path.absolute()
    if path.is_dir() and RunFolder(path.absolute()).run.exists():
        return checkpoint_path(library, RunFolder(path.absolute()), "")
    inside = sorted(one.parent.name for one in path.glob(f"*/{MANIFEST}")) if path.is_dir() else []
    if inside:
        raise CheckpointError(
            f"{printable(name)} holds checkpoints: {', '.join(map(printable, inside))}.",
            f"Name one of them: {printable(str(path / inside[-1]))}",
        )
    run, slash, checkpoint = name.partition("/")
    if path.is_absolute() or run in (".", ".."):
        raise CheckpointError(
            f"There is no checkpoint at {printable(name)}.", "See which there are: soulsgui checkpoints list"
        )
    if name == control.BEST or run in _FOLDERS:
        run, slash, checkpoint = LATEST, "/", name
    folder = library.find(run)
    return checkpoint_path(library, folder, checkpoint if slash else "")


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
                    f"{path} is a link, or no file at all: a run has nothing but its folder.",
                    "Put the file itself in its place, or take it away.",
                )


def checkpoint_path(library: Library, run: RunFolder, checkpoint: str) -> Path:
    """Return the folder of a checkpoint of a run: by its id, `best`, or empty for the newest whole one.

    The best model is the newest one only where there is nothing else.
    """
    if checkpoint:
        wanted = run.best_model.name if checkpoint == control.BEST else checkpoint
        return Path(library.checkpoints.get(run, wanted).path)
    found: list[control.CheckpointInfo] = library.checkpoints.list(run)
    whole = [info for info in found if info.valid]
    if not whole:
        why = f"none of its checkpoints is whole: {found[0].error}" if found else "it has no checkpoint yet"
        raise CheckpointError(f"Run {run.run_id} can't be evaluated: {why}.", "See: soulsgui runs list")
    return Path(max(whole, key=lambda info: (info.attempt, info.updates, info.created)).path)


def named(known: Sequence[str], wanted: str, what: str) -> str:
    """Return which of some ids, the newest first, is meant: by how it begins, its name, or `latest`."""
    if wanted == LATEST and known:
        return known[0]
    fits: tuple[Callable[[str], bool], ...] = (
        lambda one: one == wanted,
        lambda one: one.startswith(wanted),
        lambda one: one.endswith(f"_{wanted}"),
    )
    alike = next((some for fit in fits if (some := [one for one in known if wanted and fit(one)])), [])
    if len(alike) == 1:
        return alike[0]
    reason = f"{wanted!r} fits several {what}s." if alike else f"There is no {what} {wanted!r}."
    raise Refused(ErrorCode.NOT_FOUND, reason, f"There are: {', '.join(known[:_NAMED]) or 'none yet'}")


def run_stem(name: str, wall_time: float) -> str:
    """Return the beginning of an id: the time, and what a name has that a folder may be called."""
    stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(wall_time))
    slug = re.sub(r"[^A-Za-z0-9.-]+", "-", name).strip("-.")[:_NAME_LENGTH]
    return f"{stamp}_{slug}" if slug else stamp


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


def server_logs(folders: Folders) -> Path:
    """Logs of what lives longer than a run."""
    return folders.server / "logs"


def refuse_unknown(
    run: RunFolder, params: control.HistoryQueryParams, found: control.History, present: Iterable[str]
) -> None:
    """Refuse a query, whose answer was empty, of a metric or client that a run does not know.

    What may yet come is no mistake: a run without rows, or `present` clients without an episode.
    """
    metrics = [*found.metrics, *(one for one in EVALUATION_METRICS if one not in found.metrics)]
    if tuple(found.last_update) != (0, 0) and params.metric not in metrics:
        raise _unknown("metric", params.metric, metrics)
    clients = sorted({*client_names(run.store), *present})
    if params.client and params.client not in clients:
        raise _unknown("client", params.client, clients)


def _unknown(what: str, name: str, known: list[str]) -> Refused:
    near = nearest(name, known)
    hint = f"Did you mean {near}? " if near else ""
    return Refused(
        ErrorCode.BAD_REQUEST,
        f"The run has no {what} {name!r}.",
        f"{hint}There are: {', '.join(known) or 'none yet'}",
    )


def log_paths(folders: Folders, library: Library, run_id: str) -> dict[str, Path]:
    """Return the logs there are, by service: those of a run (`latest` need not exist), and others."""
    found = {path.stem: path for path in sorted(server_logs(folders).glob("*.log"))}
    if run_id != LATEST or library.folders():
        run = library.find(run_id)
        found |= {path.stem: path for path in sorted(run.logs.glob("*.log"))}
    return found


def log_lines(
    paths: Mapping[str, Path], params: control.HistoryLogsParams
) -> tuple[list[control.LogLine], int]:
    """Return lines of one log, or the newest of all by time, and the number of the first line there is."""
    if params.service:
        path = paths.get(params.service)
        if path is None:
            known = ", ".join(paths) or "none"
            raise Refused(ErrorCode.NOT_FOUND, f"{params.service!r} has no log.", f"There are: {known}")
        return read_lines(path, params.service, params.before, params.n, params.level, params.filter)
    if params.before is not None:
        raise Refused(
            ErrorCode.BAD_REQUEST,
            "before: lines are numbered per service.",
            "Name the service to page back.",
        )
    timed: list[tuple[float, control.LogLine]] = []
    for service, path in paths.items():
        lines, _ = read_lines(path, service, None, params.n, params.level, params.filter)
        moment = 0.0
        for line in lines:
            # A line without a time of its own (of a traceback) belongs to the one before it.
            moment = line.time if line.time is not None else moment
            timed.append((moment, line))
    timed.sort(key=lambda pair: pair[0])
    return [line for _, line in timed[-params.n :]], 1
