"""What the trainer does when it is told to: each command of the runner is carried out and answered."""

import logging
import time
from functools import partial
from typing import TYPE_CHECKING, Any

import redis

from soulsgui.config.errors import ConfigError
from soulsgui.errors import CheckpointError
from soulsgui.training.checkpoint_manager import CheckpointManager
from soulsgui.wire.keys import Keys
from soulsgui.wire.manifest import ScoredBy
from soulsgui.wire.node_commands import CommandReader, NodeAnswer, NodeCommand

if TYPE_CHECKING:
    from soulsgui.training.trainer import TrainingNode

logger = logging.getLogger(__name__)

_EVERY_S = 0.1


class CommandHandler:
    """Reads the trainer's commands, carries them out and answers them."""

    def __init__(self, trainer: "TrainingNode", keys: Keys, checkpoints: CheckpointManager) -> None:
        self._trainer, self._checkpoints = trainer, checkpoints
        self._reader = CommandReader(keys, trainer.name)
        self._answers: list[NodeAnswer] = []
        self._next_look = 0.0

    def look(self, connection: redis.Redis) -> None:
        """Now and then: answer what is done, carry out what is asked."""
        self.answer(connection)
        now = time.monotonic()
        if now >= self._next_look:
            self._next_look = now + _EVERY_S
            for command in self._reader.poll(connection):
                self._obey(connection, command)

    def answer(self, connection: redis.Redis) -> None:
        """Send the answers of what is done."""
        while self._answers:
            self._reader.answer(connection, self._answers[0])
            del self._answers[0]

    def _obey(self, connection: redis.Redis, command: NodeCommand) -> None:
        level = logging.DEBUG if command.command in ("hold", "wait") else logging.INFO  # said every second
        what = command.args.get("kind") or command.args.get("client") or ""
        logger.log(level, "asked to %s", f"{command.command} {what}".rstrip())
        try:
            result = self._carry_out(connection, command)
        except (
            CheckpointError,
            ConfigError,
            KeyError,
            ValueError,
            TypeError,
            redis.RedisError,
            OSError,
        ) as error:
            self._answers.append(NodeAnswer(id=command.id, ok=False, error=str(error)))
        else:
            if result is not None:
                self._answers.append(NodeAnswer(id=command.id, ok=True, result=result))

    def _carry_out(self, connection: redis.Redis, command: NodeCommand) -> dict[str, Any] | None:
        """Return what to answer a command; None when it is answered once its checkpoint is written."""
        args, trainer = command.args, self._trainer
        match command.command:
            case "save":
                self._save(command)
                return None
            case "stop":
                try:
                    self._checkpoints.save_current(partial(self._saved, command.id))
                finally:
                    trainer.shutdown()
                return None
            case "rest":
                trainer.rest()
            case "pause":
                trainer.pause()
            case "continue":
                trainer.go_on()
            case "hold":
                trainer.hold(float(args["seconds"]))
            case "wait":
                trainer.wait(float(args["seconds"]), str(args["why"]))
            case "cut":
                intake = trainer.attempt.intake
                return {"entries": intake.cut_off(connection, str(args["client"]), str(args["reason"]))}
            case "release":
                client = str(args.get("client", ""))
                if not trainer.attempt.intake.release(client):
                    raise ValueError(f"{client} is not cut off")
            case "configure":
                return trainer.configure(dict(args["values"]), args.get("undoes") is True).model_dump()
            case "evaluate":
                trainer.learner.evaluate(command.id, int(args["episodes"]))
                return {"attempt": trainer.training.attempt}
            case "purge":
                return {"transitions": trainer.learner.forget(str(args["client"]))}
            case unknown:
                raise ValueError(f"there is no command called “{unknown}”")
        return {}

    def _save(self, command: NodeCommand) -> None:
        args, trainer, checkpoints = command.args, self._trainer, self._checkpoints
        kind, score = args.get("kind", "manual"), args.get("score", checkpoints.score)
        if kind == "best":
            by: ScoredBy = "evaluation" if args.get("scored_by") == "evaluation" else "training"
            checkpoint = trainer.weights_snapshot(int(args["model_id"]), score, by)
        elif kind == "watched":
            model_id = args.get("model_id")
            newest = trainer.training.model_id
            checkpoint = trainer.weights_snapshot(
                newest if model_id is None else int(model_id), None, "", kind
            )
        elif kind == "manual":
            note, buffer = str(args.get("note", "")), args.get("buffer") is True
            checkpoint = trainer.snapshot("manual", score, note, buffer)
        elif kind == "current":
            checkpoint = trainer.snapshot("current", score)
        else:
            raise ValueError(f"there is no kind of checkpoint called “{kind}”")
        checkpoints.save(checkpoint, partial(self._saved, command.id))

    def _saved(self, command_id: str, place: str, error: CheckpointError | None) -> None:
        """Answer a command whose checkpoint is written, or can't be; called by the writing thread."""
        result = {"path": place} if error is None else {}
        said = "" if error is None else str(error)
        self._answers.append(NodeAnswer(id=command_id, ok=error is None, result=result, error=said))
