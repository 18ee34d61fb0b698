"""Where the node's checkpoints are ordered: by the runner's commands, by the node itself, at its end."""

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.system import replace_dir
from soulsgui.training.checkpoint import Checkpoint, UnsavedError, write_checkpoint
from soulsgui.wire.connection import Backoff
from soulsgui.wire.control import ScoredBy
from soulsgui.wire.keys import TELEMETRY, Keys
from soulsgui.wire.manifest import NOTE, Manifest
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand

if TYPE_CHECKING:
    from soulsgui.training.trainer import Trainer

logger = logging.getLogger(__name__)

_EVERY_S = 0.1
_SCORE_EVERY_S = 1.0
_AGAIN_FIRST_S = 1.0
_AGAIN_LONGEST_S = 10.0


class CheckpointManager:
    """Obeys commands and keeps the order of checkpoints."""

    def __init__(
        self,
        node: "Trainer",
        run: RunFolder,
        keys: Keys,
        name: str,
        on_saved: Callable[[Manifest, Path], None],
    ) -> None:
        self.last_current: Manifest | None = None
        self._node, self._run, self._keys, self._on_saved = node, run, keys, on_saved
        self._reader = CommandReader(keys, name)
        self._saver = ThreadPoolExecutor(1, "saver")  # one checkpoint after the other
        self._writes: list[Future[None]] = []
        self._answers: list[NodeAnswer] = []
        self._ordered: set[Path] = set()
        self._trouble: CheckpointError | None = None
        self._owed: dict[Path, Checkpoint] = {}
        self._again = Backoff(_AGAIN_FIRST_S, _AGAIN_LONGEST_S)
        self._next_try = 0.0
        self._score: float | None = None
        self._next_look = self._next_score = 0.0

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
        """Now and then: obey what is asked, answer what is done, try again what could not be saved."""
        while self._answers:
            self._reader.answer(connection, self._answers[0])
            del self._answers[0]
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _EVERY_S
            if now >= self._next_score:
                self._next_score = now + _SCORE_EVERY_S
                self._score = score_of(connection, self._keys, self._run.run_id)
            for command in self._reader.poll(connection):
                self._obey(connection, command)
            self._try_again(now)

    def save_current(self) -> None:
        """Order the regular checkpoint."""
        self._save(self._run.checkpoint, self._node.snapshot("current", self._score))

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
                "Free some disk space, or move it away by hand.",
            ) from error

    def close(self, connection: redis.Redis, save: bool) -> None:
        """Write what was ordered, at last the regular checkpoint, and answer."""
        wait(self._writes)
        try:
            if save:
                last = self._node.snapshot("current", self._score)
                if self.last_current is None or self.last_current.updates != last.info.updates:
                    self._save(self._run.checkpoint, last)
            self._save_owed_best()
        finally:
            self._saver.shutdown()
        self._next_look = float("inf")
        self.look(connection)

    def _obey(self, connection: redis.Redis, command: NodeCommand) -> None:
        level = logging.DEBUG if command.command == "hold" else logging.INFO  # said every second
        what = command.args.get("kind") or command.args.get("client") or ""
        logger.log(level, "asked to %s", f"{command.command} {what}".rstrip())
        try:
            result = self._carry_out(connection, command)
        except (CheckpointError, KeyError, ValueError, TypeError, redis.RedisError, OSError) as error:
            self._answers.append(NodeAnswer(id=command.id, ok=False, error=str(error)))
        else:
            if result is not None:
                self._answers.append(NodeAnswer(id=command.id, ok=True, result=result))

    def _carry_out(self, connection: redis.Redis, command: NodeCommand) -> dict[str, Any] | None:
        """Return what to answer a command; None when it is answered once its checkpoint is written."""
        args, intake = command.args, self._node.attempt.intake
        match command.command:
            case "save":
                self._order(command)
                return None
            case "stop":
                try:
                    self._save(self._run.checkpoint, self._node.snapshot("current", self._score), command.id)
                finally:
                    self._node.shutdown()
                return None
            case "rest":
                self._node.rest()
            case "pause":
                self._node.pause()
            case "continue":
                self._node.go_on()
            case "hold":
                self._node.hold(float(args["seconds"]))
            case "cut":
                return {"entries": intake.cut_off(connection, str(args["client"]), str(args["reason"]))}
            case "release":
                client = str(args.get("client", ""))
                if not intake.release(client):
                    raise ValueError(f"{client} is not cut off")
            case unknown:
                raise ValueError(f"there is no command called {unknown!r}")
        return {}

    def _order(self, command: NodeCommand) -> None:
        args, run = command.args, self._run
        kind, score = args.get("kind", "manual"), args.get("score", self._score)
        if kind == "best":
            by: ScoredBy = "evaluation" if args.get("scored_by") == "evaluation" else "training"
            checkpoint = self._node.weights_snapshot(int(args["model_id"]), score, by)
            self._save(run.best_model, checkpoint, command.id)
        elif kind == "manual":
            note, buffer = str(args.get("note", "")), args.get("buffer") is True
            self._save(self._manual_folder(), self._node.snapshot("manual", score, note, buffer), command.id)
        elif kind == "current":
            self._save(run.checkpoint, self._node.snapshot("current", score), command.id)
        else:
            raise ValueError(f"there is no kind of checkpoint called {str(kind)!r}")

    def _manual_folder(self) -> Path:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        path, n = self._run.manual_saves / stamp, 1
        while path.exists() or path in self._ordered:
            n += 1
            path = self._run.manual_saves / f"{stamp}_{n}"
        return path

    def _save(self, target: Path, checkpoint: Checkpoint, command_id: str = "") -> None:
        """Order a checkpoint; it must not change any more."""
        self._ordered.add(target)
        write = self._saver.submit(self._write, target, checkpoint, command_id)
        self._writes = [*(one for one in self._writes if not one.done()), write]

    def _write(self, target: Path, checkpoint: Checkpoint, command_id: str) -> None:
        """Write a checkpoint, in the thread for it."""
        error: CheckpointError | None = None
        try:
            write_checkpoint(target, checkpoint)
        except CheckpointError as failure:
            error = failure
            logger.error("%s", failure)
        except Exception as failure:
            error = UnsavedError(target, repr(failure))
            logger.exception("%s", error.message)
        try:
            self._written(target, checkpoint, command_id, error)
        except Exception:
            logger.exception("what follows the checkpoint %s went wrong", target)

    def _written(
        self, target: Path, checkpoint: Checkpoint, command_id: str, error: CheckpointError | None
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
            self._on_saved(checkpoint.info, target)
        elif kind == "current" or (kind == "best" and full):  # these are saved again
            if not self._owed:
                self._again.reset()
                self._next_try = time.monotonic() + self._again.delay_s()
            self._owed[target] = checkpoint
        if command_id:
            said = "" if error is None else str(error)
            result = {"path": target.relative_to(self._run.root).as_posix()} if error is None else {}
            self._answers.append(NodeAnswer(id=command_id, ok=error is None, result=result, error=said))

    def _try_again(self, now: float) -> None:
        # While nothing is being written, the writing thread touches none of this.
        if now < self._next_try or self.saving or not self._owed:
            return
        self._next_try = now + self._again.delay_s()
        self._save_owed_best()
        if self._run.checkpoint in self._owed:
            self.save_current()

    def _save_owed_best(self) -> None:
        best = self._owed.get(self._run.best_model)
        if best is not None:
            self._save(self._run.best_model, best)


def score_of(connection: redis.Redis, keys: Keys, run_id: str) -> float | None:
    """Return the mean training return of a run as telemetry reports it now, None when it reports none."""
    state = NodeState.of_run(connection.get(keys.node(TELEMETRY)), run_id)
    return None if state is None else state.mean_return
