"""When the trainer's checkpoints are written, in what order, and what is tried again."""

import logging
import secrets
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.sections.run import CheckpointSettings
from soulsgui.errors import CheckpointError
from soulsgui.system import replace_dir
from soulsgui.training.checkpoint import Checkpoint, UnsavedError, write_checkpoint
from soulsgui.training.history import History
from soulsgui.wire.connection import Backoff
from soulsgui.wire.keys import TELEMETRY, Keys
from soulsgui.wire.manifest import NOTE, PINNED, CheckpointKind, Manifest
from soulsgui.wire.messages.node import NodeState

if TYPE_CHECKING:
    from soulsgui.training.trainer import TrainingNode

logger = logging.getLogger(__name__)

Done = Callable[[str, CheckpointError | None], None]  # the place in the run's folder, why it failed

_SCORE_EVERY_S = 1.0
_AGAIN_FIRST_S = 1.0
_AGAIN_LONGEST_S = 10.0


class CheckpointManager:
    """Writes one checkpoint after the other, in a thread of its own."""

    def __init__(
        self,
        node: "TrainingNode",
        run: RunFolder,
        keys: Keys,
        settings: CheckpointSettings,
        on_saved: Callable[[Manifest, Path], None],
    ) -> None:
        self._history = History(run, settings)
        self.last_current: Manifest | None = None
        self._node, self._run, self._keys, self._on_saved = node, run, keys, on_saved
        self._saver = ThreadPoolExecutor(1, "saver")  # one checkpoint after the other
        self._writes: list[Future[None]] = []
        # The newest that nobody waits for, by kind, each with what is to be written.
        self._unasked: dict[CheckpointKind, tuple[Future[None], list[Checkpoint]]] = {}
        self._ordered: set[Path] = set()
        self._trouble: CheckpointError | None = None
        self._owed: dict[Path, Checkpoint] = {}
        self._again = Backoff(_AGAIN_FIRST_S, _AGAIN_LONGEST_S)
        self._next_try = 0.0
        self.score: float | None = None
        self._next_score = 0.0

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is waiting to be written, or being written."""
        return any(not write.done() for write in self._writes)

    @property
    def last_error(self) -> str:
        """Why the regular checkpoint could not be saved the last time; empty when it could."""
        trouble = self._trouble
        return trouble.message if trouble is not None else ""

    @property
    def disk_full(self) -> bool:
        """Whether that is because the disk is full: then nothing more is to be done that would be lost."""
        trouble = self._trouble
        return isinstance(trouble, UnsavedError) and trouble.disk_full

    @property
    def unsaved(self) -> str:
        """Since when and why the regular checkpoint can't be saved, in words; empty when it can."""
        trouble, last = self._trouble, self.last_current
        if trouble is None:
            return ""
        since = "yet" if last is None else f"since {datetime.fromtimestamp(last.created):%Y-%m-%d %H:%M}"
        reason = trouble.reason if isinstance(trouble, UnsavedError) else trouble.message
        return f"not saved {since}: {reason}"

    def look(self, connection: redis.Redis) -> None:
        """Now and then: read the score, try again what could not be saved."""
        now, updates = time.monotonic(), self._node.agent.updates
        if not self.disk_full and self._history.due(updates, now):
            self.save(self._node.snapshot("history", self.score))
        if now >= self._next_score:
            self._next_score = now + _SCORE_EVERY_S
            self.score = score_of(connection, self._keys, self._run.run_id)
        # While nothing is being written, the writing thread touches none of this.
        if now < self._next_try or self.saving or not self._owed:
            return
        self._next_try = now + self._again.delay_s()
        self._save_owed_best()
        if self._run.checkpoint in self._owed:
            self.save_current()

    def save_current(self, done: Done | None = None) -> None:
        """Order the regular checkpoint."""
        self.save(self._node.snapshot("current", self.score), done)

    def save(self, checkpoint: Checkpoint, done: Done | None = None) -> None:
        """Order a checkpoint, which must not change any more; `done` is called in the writing thread.

        Without `done` it takes the place of one of its kind that waits to be written: on a slow disk those
        would become ever more, and whoever asks for one would wait for them all.
        """
        match checkpoint.info.kind:
            case "current":
                target = self._run.checkpoint
            case "best":
                target = self._run.best_model
            case "manual":
                target = self._manual_folder()
                self._ordered.add(target)
            case "history":
                target = self._run.history / str(checkpoint.info.model_id)
                if (target / PINNED).exists():
                    return  # that model is kept already, for good
            case "watched":  # its folder goes with the evaluation that asked for it
                target = self._run.watched / secrets.token_hex(8)
        kind = checkpoint.info.kind
        if done is None and kind in self._unasked:
            before, its = self._unasked[kind]
            if before.cancel():
                its.clear()  # what is cancelled stays in line with all that it was given
        ordered = [checkpoint]
        write = self._saver.submit(lambda: self._write(target, ordered.pop(), done))
        if done is None:
            self._unasked[kind] = write, ordered
        self._writes = [*(one for one in self._writes if not one.done()), write]

    def keep_current_aside(self, note: str) -> None:
        """Move the regular checkpoint among the manual ones, so that the next one does not replace it."""
        if not self._run.checkpoint.exists():
            return
        target = self._manual_folder()
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            (self._run.checkpoint / NOTE).write_text(note, encoding="utf-8")
            replace_dir(self._run.checkpoint, target)
        except OSError as error:
            raise CheckpointError(
                f"The checkpoint {self._run.checkpoint} could not be kept aside: {error}",
                "Free some disk space, or move it away yourself.",
            ) from error

    def close(self, save: bool) -> None:
        """Write what was ordered, at last the regular checkpoint."""
        wait(self._writes)
        try:
            if save:
                last = self._node.snapshot("current", self.score)
                if self.last_current is None or self.last_current.updates != last.info.updates:
                    self.save(last)
            self._save_owed_best()
        finally:
            self._saver.shutdown()

    def _manual_folder(self) -> Path:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        path, n = self._run.manual_saves / stamp, 1
        while path.exists() or path in self._ordered:
            n += 1
            path = self._run.manual_saves / f"{stamp}_{n}"
        return path

    def _kept(self, target: Path, checkpoint: Checkpoint) -> tuple[Path, ...]:
        """Return where the checkpoints go that this one replaces: two, and one where each has a memory."""
        if target != self._run.checkpoint:
            return ()
        older = self._run.older
        kept = older[:1] if checkpoint.memory else older
        for surplus in older[len(kept) :]:
            shutil.rmtree(surplus, ignore_errors=True)
        return kept

    def _write(self, target: Path, checkpoint: Checkpoint, done: Done | None) -> None:
        """Write a checkpoint, in the thread for it."""
        error: CheckpointError | None = None
        try:
            write_checkpoint(target, checkpoint, self._kept(target, checkpoint))
        except CheckpointError as failure:
            error = failure
            logger.error("%s", failure)
        except Exception as failure:
            error = UnsavedError(target, repr(failure))
            logger.exception("%s", error.message)
        try:
            self._written(target, checkpoint, done, error)
        except Exception:
            logger.exception("what follows the checkpoint %s went wrong", target)

    def _written(
        self, target: Path, checkpoint: Checkpoint, done: Done | None, error: CheckpointError | None
    ) -> None:
        self._ordered.discard(target)
        kind = checkpoint.info.kind
        if kind == "current":
            self._trouble = error
        full = isinstance(error, UnsavedError) and error.disk_full
        if error is None:
            self._owed.pop(target, None)
            if kind == "current":
                self.last_current = checkpoint.info
            if kind != "watched":
                self._on_saved(checkpoint.info, target)
            if kind == "history":
                self._history.thin()
        elif kind == "current" or (kind == "best" and full):  # these are saved again
            if not self._owed:
                self._again.reset()
                self._next_try = time.monotonic() + self._again.delay_s()
            self._owed[target] = checkpoint
        if done is not None:
            done(target.relative_to(self._run.root).as_posix(), error)

    def _save_owed_best(self) -> None:
        best = self._owed.get(self._run.best_model)
        if best is not None:
            self.save(best)


def score_of(connection: redis.Redis, keys: Keys, run_id: str) -> float | None:
    """Return the mean training return of a run as telemetry reports it now, None when it reports none."""
    state = NodeState.of_run(connection.get(keys.node(TELEMETRY)), run_id)
    return None if state is None else state.mean_return
