"""Where the node's checkpoints are ordered: by the runner's commands, by the node itself, at its end."""

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

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


Done = Callable[[CheckpointError | None], None]


@dataclass(frozen=True)
class _Order:
    target: Path
    checkpoint: Checkpoint
    done: Done


class Saver(threading.Thread):
    """One thread that writes one checkpoint after the other."""

    def __init__(self) -> None:
        super().__init__(name="saver", daemon=True)
        self._orders: queue.Queue[_Order | None] = queue.Queue()

    def save(self, target: Path, checkpoint: Checkpoint, done: Done) -> None:
        """Order a checkpoint; it must not change any more."""
        self._orders.put(_Order(target, checkpoint, done))

    def busy(self) -> bool:
        """Whether an order is waiting or being written."""
        return self._orders.unfinished_tasks > 0

    def finish(self) -> None:
        """Wait until everything that was ordered is written."""
        self._orders.join()

    def close(self) -> None:
        """Write what was ordered, and end."""
        self._orders.put(None)
        self.join()

    def run(self) -> None:
        """Write until closed."""
        while (order := self._orders.get()) is not None:
            error: CheckpointError | None = None
            try:
                write_checkpoint(order.target, order.checkpoint)
            except CheckpointError as failure:
                error = failure
                logger.error("%s", failure)
            except Exception as failure:
                # The thread must live: without it no checkpoint would be written any more.
                error = UnsavedError(order.target, repr(failure))
                logger.exception("%s", error.message)
            try:
                order.done(error)
            except Exception:
                logger.exception("what follows the checkpoint %s went wrong", order.target)
            self._orders.task_done()
        self._orders.task_done()


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
        self._node = node
        self._run = run
        self._keys = keys
        self._on_saved = on_saved
        self._reader = CommandReader(keys, name)
        self._saver = Saver()
        self._saver.start()
        self._answers: list[NodeAnswer] = []
        self._commands: Mapping[str, Callable[[NodeCommand], NodeAnswer | None]] = {
            "save": self._order,
            "rest": lambda command: self._done(command, self._node.rest),
            "pause": lambda command: self._done(command, self._node.pause),
            "continue": lambda command: self._done(command, self._node.go_on),
            "release": self._release,
            "stop": self._end,
            "hold": self._hold,
            "cut": self._cut,
        }
        self._ordered: set[Path] = set()
        self._trouble: CheckpointError | None = None
        self._owed: dict[Path, Checkpoint] = {}
        self._again = Backoff(_AGAIN_FIRST_S, _AGAIN_LONGEST_S)
        self._next_try = 0.0
        self._score: float | None = None
        self._next_look = 0.0
        self._next_score = 0.0

    @property
    def saving(self) -> bool:
        """Whether a checkpoint is being written."""
        return self._saver.busy()

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
                self._obey(command)
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
        self._saver.finish()
        try:
            if save:
                last = self._node.snapshot("current", self._score)
                if self.last_current is None or self.last_current.updates != last.info.updates:
                    self._save(self._run.checkpoint, last)
            self._save_owed_best()
        finally:
            self._saver.close()
        self._next_look = float("inf")
        self.look(connection)

    def _obey(self, command: NodeCommand) -> None:
        level = logging.DEBUG if command.command == "hold" else logging.INFO  # said every second
        what = command.args.get("kind") or command.args.get("client") or ""
        logger.log(level, "asked to %s", f"{command.command} {what}".rstrip())
        answer = self._commands.get(command.command, _unknown)(command)
        if answer is not None:
            self._answers.append(answer)

    def _end(self, command: NodeCommand) -> None:
        self._save(self._run.checkpoint, self._node.snapshot("current", self._score), command.id)
        self._node.shutdown()

    def _done(self, command: NodeCommand, do: Callable[[], None]) -> NodeAnswer:
        do()
        return NodeAnswer(id=command.id, ok=True)

    def _release(self, command: NodeCommand) -> NodeAnswer:
        client = str(command.args.get("client", ""))
        released = self._node.release(client)
        return NodeAnswer(id=command.id, ok=released, error="" if released else f"{client} is not cut off")

    def _order(self, command: NodeCommand) -> NodeAnswer | None:
        """Order a checkpoint; it is answered when it is written, unless it can't be ordered."""
        kind = command.args.get("kind", "manual")
        score = command.args.get("score", self._score)
        try:
            if kind == "best":
                by: ScoredBy = "evaluation" if command.args.get("scored_by") == "evaluation" else "training"
                checkpoint = self._node.weights_snapshot(int(command.args["model_id"]), score, by)
                self._save(self._run.best_model, checkpoint, command.id)
            elif kind == "manual":
                note = str(command.args.get("note", ""))
                snapshot = self._node.snapshot("manual", score, note, command.args.get("buffer") is True)
                self._save(self._manual_folder(), snapshot, command.id)
            elif kind == "current":
                self._save(self._run.checkpoint, self._node.snapshot("current", score), command.id)
            else:
                raise ValueError(f"there is no kind of checkpoint called {str(kind)!r}")
        except (CheckpointError, KeyError, ValueError, TypeError) as error:
            return NodeAnswer(id=command.id, ok=False, error=str(error))
        return None

    def _hold(self, command: NodeCommand) -> NodeAnswer:
        try:
            self._node.hold(float(command.args["seconds"]))
        except (KeyError, ValueError, TypeError) as error:
            return NodeAnswer(id=command.id, ok=False, error=str(error))
        return NodeAnswer(id=command.id, ok=True)

    def _cut(self, command: NodeCommand) -> NodeAnswer:
        try:
            entries = self._node.cut_off(str(command.args["client"]), str(command.args["reason"]))
        except (KeyError, redis.RedisError, OSError) as error:
            return NodeAnswer(id=command.id, ok=False, error=str(error))
        return NodeAnswer(id=command.id, ok=True, result={"entries": entries})

    def _manual_folder(self) -> Path:
        stamp = datetime.now().strftime("%Y-%m-%d_%H-%M-%S")
        path, n = self._run.manual_saves / stamp, 1
        while path.exists() or path in self._ordered:
            n += 1
            path = self._run.manual_saves / f"{stamp}_{n}"
        return path

    def _save(self, target: Path, checkpoint: Checkpoint, command_id: str = "") -> None:
        def done(error: CheckpointError | None) -> None:
            self._ordered.discard(target)
            self._note(target, checkpoint, error)
            if error is None:
                if checkpoint.info.kind == "current":
                    self.last_current = checkpoint.info
                self._on_saved(checkpoint.info, target)
            if command_id:
                relative = target.relative_to(self._run.root).as_posix()
                self._answers.append(
                    NodeAnswer(
                        id=command_id,
                        ok=error is None,
                        result={"path": relative} if error is None else {},
                        error="" if error is None else str(error),
                    )
                )

        self._ordered.add(target)
        self._saver.save(target, checkpoint, done)

    def _note(self, target: Path, checkpoint: Checkpoint, error: CheckpointError | None) -> None:
        """Remember what is to be saved again: the regular one, the best one when there was no room for it."""
        kind = checkpoint.info.kind
        if kind == "current":
            self._trouble = error
        full = isinstance(error, UnsavedError) and error.disk_full
        if error is None:
            self._owed.pop(target, None)
        elif kind == "current" or (kind == "best" and full):
            if not self._owed:
                self._again.reset()
                self._next_try = time.monotonic() + self._again.delay_s()
            self._owed[target] = checkpoint

    def _try_again(self, now: float) -> None:
        # While nothing is being written, the writing thread touches none of this.
        if now < self._next_try or self._saver.busy() or not self._owed:
            return
        self._next_try = now + self._again.delay_s()
        self._save_owed_best()
        if self._run.checkpoint in self._owed:
            self.save_current()

    def _save_owed_best(self) -> None:
        best = self._owed.get(self._run.best_model)
        if best is not None:
            self._save(self._run.best_model, best)


def _unknown(command: NodeCommand) -> NodeAnswer:
    return NodeAnswer(id=command.id, ok=False, error=f"there is no command called {command.command!r}")


def score_of(connection: redis.Redis, keys: Keys, run_id: str) -> float | None:
    """Return the mean training return of a run as telemetry reports it now, None when it reports none."""
    state = NodeState.of_run(connection.get(keys.node(TELEMETRY)), run_id)
    return None if state is None else state.mean_return
