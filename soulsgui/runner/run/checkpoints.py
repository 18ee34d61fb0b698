"""The checkpoints of a run, listed and verified by their manifests, and the saving of its best model."""

import asyncio
import logging
import secrets
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError, NoCheckpointError
from soulsgui.runner.refusal import Refused
from soulsgui.runner.server.bus import ANSWER_LIMIT_S, Bus
from soulsgui.system import atomic_write, find_dir, read_small, replace_dir
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import BEST, NEWEST, CheckpointInfo, ErrorCode, ListedKind
from soulsgui.wire.keys import TRAINER
from soulsgui.wire.manifest import (
    MANIFEST,
    MEMORY,
    NOTE,
    PINNED,
    Manifest,
    packed_manifest,
    read_manifest,
    sha256_of,
    verify,
)
from soulsgui.wire.messages.node import Verdict
from soulsgui.wire.node_commands import NodeCommand

logger = logging.getLogger(__name__)

_MOVED_TRIES = 5
_STAYING = ("manual", "history")  # kinds that no newer ones replace
_LONGEST_NOTE = 64 * 1024
_MOST_HASHES = 10_000  # of files whose contents are remembered
_TOLD_BY_MANIFEST = Manifest.model_fields.keys() & CheckpointInfo.model_fields.keys()


class Checkpoints:
    """Lists the checkpoints of runs; hashes are remembered while the files don't change.

    `told` is told what is read at the moment, and which part of all was.
    """

    def __init__(self, told: Callable[[str, float], object] | None = None) -> None:
        self._told = told
        # By what a file is, not where: each checkpoint moves on when a newer one comes.
        self._hashes: dict[tuple[int, ...], str] = {}

    def list(self, run: RunFolder) -> list[CheckpointInfo]:
        """Return every checkpoint of a run, the newest first."""
        found = []
        places = _places(run)
        for number, (path, kind) in enumerate(places):
            if self._told is not None:
                self._told(f"reading {path.relative_to(run.root).as_posix()}", number / len(places))
            if (info := self._info(run, path, kind)) is not None:
                found.append(info)
        return sorted(found, key=lambda info: -info.created)

    def get(self, run: RunFolder, checkpoint: str) -> CheckpointInfo:
        """Return one checkpoint: by its path below the run's folder, `best`, or the `newest` whole one.

        The best model is the newest one only where there is nothing else.
        """
        if checkpoint == NEWEST:
            return self._newest(run)
        wanted = run.best_model.name if checkpoint == BEST else checkpoint.replace("\\", "/").strip("/")
        for path, kind in _places(run):
            named = path.relative_to(run.root).as_posix() == wanted
            if named and (info := self._info(run, path, kind)) is not None:
                return info
        raise NoCheckpointError(
            f"Run {run.run_id} has no checkpoint “{wanted}”.",
            f"See which there are: soulsgui checkpoints list {run.run_id}",
        )

    def _newest(self, run: RunFolder) -> CheckpointInfo:
        found = self.list(run)
        whole = [info for info in found if info.valid]
        if not whole:
            why = (
                f"none of its checkpoints is valid: {found[0].error}" if found else "it has no checkpoint yet"
            )
            raise CheckpointError(f"Run {run.run_id} can't be used: {why}.", "See: soulsgui runs list")
        return max(whole, key=lambda info: (info.attempt, info.updates, info.created))

    def get_resumable(self, run: RunFolder, checkpoint: str) -> CheckpointInfo:
        """Return one checkpoint that training can go on from: a good one with more than weights."""
        info = self.get(run, checkpoint)
        if not info.resumable:
            raise CheckpointError(
                _why_not_resumed(info, info.id),
                "Choose another checkpoint, or none to take the newest valid one.",
            )
        return info

    def check_resumable(self, run: RunFolder) -> None:
        """Make sure that a run whose checkpoints are damaged has another one to go on from.

        Raises:
            CheckpointError: It has none; the run would begin anew.
        """
        found = self.list(run)
        damaged = [info for info in found if not info.valid]
        if damaged and not any(info.resumable for info in found):
            raise CheckpointError(
                f"No checkpoint of {run.run_id} can be resumed: {damaged[0].id} is damaged "
                f"({damaged[0].error}).",
                "Restore a valid one, or move the damaged ones away to start again.",
            )

    def edit(self, run: RunFolder, checkpoint: str, note: str | None, pin: bool | None) -> CheckpointInfo:
        """Change note or pin of a checkpoint, None for neither, and return it.

        Of one that newer ones replace, a copy in the history is pinned, and returned.
        """
        info = self.get(run, checkpoint)
        if pin and info.kind not in _STAYING:
            info = self.take(run, Path(info.path))
        elif pin:
            (Path(info.path) / PINNED).touch()
        elif pin is False:
            (Path(info.path) / PINNED).unlink(missing_ok=True)
        if note is not None:
            atomic_write(Path(info.path) / NOTE, note.encode())
        return self.get(run, info.id)

    def take(self, run: RunFolder, source: Path) -> CheckpointInfo:
        """Copy a checkpoint, of this run or of another one, into the history of a run, and pin it there."""
        aside = run.history / f".{secrets.token_hex(8)}.new"
        try:
            manifest = copy_whole(source, aside)
            own = manifest.run_id == run.run_id
            target, number = run.history / str(manifest.model_id), 1
            while target.exists() and not own:
                number += 1
                target = run.history / f"{manifest.model_id}_{number}"
            if not own:  # of another run's attempts this one knows nothing: its own checkpoints are newer
                others = manifest.model_copy(update={"run_id": run.run_id, "attempt": 0})
                (aside / MANIFEST).write_bytes(packed_manifest(others))
            (aside / PINNED).touch()
            if target.exists():
                (target / PINNED).touch()
            else:
                replace_dir(aside, target)
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return self.get(run, target.relative_to(run.root).as_posix())

    def _info(self, run: RunFolder, path: Path, kind: ListedKind) -> CheckpointInfo | None:
        info = None
        for _ in range(_MOVED_TRIES):
            place = find_dir(path)
            if place is None:
                return None
            before = _identity(place)
            info = self._read(run, path, place, kind)
            # The trainer may have put another one into this place meanwhile.
            if info.valid or _identity(place) == before:
                break
        return info and info.model_copy(update={"allowed": {"run.resume": _why_not_resumed(info)}})

    def _read(self, run: RunFolder, path: Path, place: Path, kind: ListedKind) -> CheckpointInfo:
        name = path.relative_to(run.root).as_posix()
        try:
            manifest = read_manifest(place)
            note = _note_of(place)
            size = sum(file.stat().st_size for file in place.iterdir() if file.is_file())
            try:
                verify(place, manifest, self._sha256)
                error = ""
            except CheckpointError as fault:
                error = fault.message
        except CheckpointError as problem:
            return _broken(name, kind, place, problem.message)
        except OSError as problem:
            return _broken(name, kind, place, f"it can't be read: {problem}")
        told: dict[str, Any] = {name: getattr(manifest, name) for name in _TOLD_BY_MANIFEST}
        if not manifest.scored_by and manifest.score is not None and kind != "best":
            told["scored_by"] = "training"  # old ones do not say it; only the best may be either
        told |= {"id": name, "kind": kind, "path": str(path), "size_bytes": size, "note": note}
        told["pinned"] = (place / PINNED).exists()
        told |= {"valid": not error, "resumable": manifest.resumable and not error, "error": error}
        return CheckpointInfo(**told, memory=MEMORY in manifest.files and not manifest.memory_in_file)

    def _sha256(self, path: Path) -> str:
        status = path.stat()
        stamp = (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        if stamp not in self._hashes:
            if len(self._hashes) >= _MOST_HASHES:
                self._hashes.clear()
            self._hashes[stamp] = sha256_of(path)
        return self._hashes[stamp]


def copy_whole(source: Path, target: Path, memory: bool = True) -> Manifest:
    """Copy a checkpoint as it is at one moment into the folder `target`, and return what it says of itself.

    Its replay memory is left out where it is of no use in another place, or not wanted.
    """
    for _ in range(_MOVED_TRIES):
        try:
            return _copy(find_dir(source) or source, target, memory)
        except (CheckpointError, FileNotFoundError) as error:
            moved = error  # the trainer may have put another one into this place meanwhile
    raise CheckpointError(f"{source} can't be copied: {moved}", "Choose another checkpoint, or try again.")


def _copy(source: Path, target: Path, memory: bool) -> Manifest:
    shutil.rmtree(target, ignore_errors=True)  # what another try left
    manifest = read_manifest(source)
    files = dict(manifest.files)
    if manifest.memory_in_file or not memory:
        files.pop(MEMORY, None)
    target.mkdir(parents=True)
    for name in (*files, NOTE, PINNED):
        if Path(name).name == name and (source / name).is_file():  # `verify` refuses others
            shutil.copyfile(source / name, target / name)
    copied = manifest.model_copy(update={"files": files, "memory_in_file": False})
    verify(target, copied)
    (target / MANIFEST).write_bytes(packed_manifest(copied))
    return copied


def _places(run: RunFolder) -> list[tuple[Path, ListedKind]]:
    places: list[tuple[Path, ListedKind]] = [(run.checkpoint, "current"), (run.best_model, "best")]
    places += [(path, "previous") for path in run.older]
    places += [(path, "manual") for path in sorted(run.manual_saves.glob("[!.]*"))]
    return places + [(path, "history") for path in sorted(run.history.glob("[!.]*"))]


def _why_not_resumed(info: CheckpointInfo, called: str = "it") -> str:
    why = (info.error or "it contains only weights").rstrip(".")
    return "" if info.resumable else f"Training can't continue from {called}: {why}."


def _identity(place: Path) -> int | None:
    try:
        return place.stat().st_ino
    except FileNotFoundError:
        return None


def _note_of(place: Path) -> str:
    try:
        return read_small(place / NOTE, _LONGEST_NOTE).decode(errors="replace")
    except OSError:
        return ""


def _broken(name: str, kind: ListedKind, place: Path, error: str) -> CheckpointInfo:
    created = place.stat().st_mtime if place.exists() else 0.0
    return CheckpointInfo(
        id=name,
        kind=kind,
        path=str(place),
        model_id=-1,
        env_steps=0,
        created=created,
        size_bytes=0,
        valid=False,
        resumable=False,
        error=error,
    )


_GAP_S = 1.0
_SETTLE_S = 1.0


class BestModel:
    """Asks the trainer to save the best model: once per change, one save at a time.

    `saved` is model id and score of the one that is saved already. `oldest` is the id of the oldest weights
    that the trainer may still hold: those of earlier attempts are gone.
    """

    def __init__(self, bus: Bus, saved: tuple[int, float] | None = None) -> None:
        self.oldest = float("-inf")
        self._bus = bus
        self._saved = saved
        self._outstanding: tuple[int, float] | None = None
        self._last_at = float("-inf")
        self._asking: asyncio.Task[None] | None = None

    def due(self, verdict: Verdict | None, now: float, hurry: bool = False) -> tuple[int, float] | None:
        """Return (model id, score) to save, and note it, or None; a hurry waits for no gap and no answer."""
        if verdict is None or verdict.best_model_id is None or verdict.best_score is None:
            return None
        best = (verdict.best_model_id, verdict.best_score)
        if best in (self._saved, self._outstanding) or verdict.best_model_id < self.oldest:
            return None
        if not hurry and (self._outstanding is not None or now - self._last_at < _GAP_S):
            return None
        self._outstanding, self._last_at = best, now
        return best

    def answered(self, delivered: bool) -> None:
        """Note that the save was answered (or that nobody will answer)."""
        if delivered:
            self._saved = self._outstanding
        self._outstanding = None

    def look(self, verdict: Verdict | None, now: float) -> None:
        """Ask for a save if one is due."""
        due = self.due(verdict, now)
        if verdict is not None and due is not None:
            self._asking = asyncio.create_task(self._ask(*due, verdict.best_by))

    async def settle(self) -> None:
        """Wait for the answer to the last request, a moment at most."""
        if self._asking is not None and not self._asking.done():
            await asyncio.wait({self._asking}, timeout=_SETTLE_S)

    async def save_last(self, verdict: Verdict | None) -> None:
        """Ask for the last one, without the usual gap, and return when it is answered."""
        due = self.due(verdict, time.monotonic(), hurry=True)
        if verdict is not None and due is not None:
            await self._ask(*due, verdict.best_by)

    async def _ask(self, model_id: int, score: float, scored_by: str) -> None:
        args = {"kind": "best", "model_id": model_id, "score": score, "scored_by": scored_by}
        delivered = False
        try:
            await self._bus.ask(TRAINER, NodeCommand(command="save", args=args), ANSWER_LIMIT_S)
            delivered = True
        except Refused as error:
            # A refusal is final: the weights are gone. Without an answer it is asked again.
            delivered = error.code == ErrorCode.FAILED
            logger.info("the best model stays as it is: %s", error.message)
        except (redis.RedisError, *AWAY) as error:
            logger.info("the best model was not saved: %s", error)
        finally:
            self.answered(delivered)
