"""How the run of a server stands: which one goes on, what is known of it, and that written down."""

import asyncio
import logging

from soulsgui.config.paths import Folders, RunFolder
from soulsgui.runner.active import Active
from soulsgui.runner.knowledge import Knowledge
from soulsgui.runner.library import Library
from soulsgui.runner.opening import choose_checkpoint, remember_active
from soulsgui.runner.run import Reached, RunRecord, RunView, goal_reached, seen_as, with_progress
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER
from soulsgui.wire.messages.node import NodeState

logger = logging.getLogger(__name__)

_WRITE_EVERY_S = 5.0


class Standing:
    """The run that goes on, or the last one.

    Attributes:
        active: The run that goes on, None when there is none.
        record: What is known of it, or of the last one.
        over: Set while no run goes on.
        loss: What of the run that ended last no checkpoint holds, in words; empty when everything is saved.

    Args:
        folders: The user's folders.
        library: The runs.
        knowledge: What is read from the server.
    """

    def __init__(self, folders: Folders, library: Library, knowledge: Knowledge) -> None:
        self._folders = folders
        self._library = library
        self._knowledge = knowledge
        self.active: Active | None = None
        self.record: RunRecord = library.last_record()
        self.loss = ""
        self.over = asyncio.Event()
        self.over.set()
        self._owed: tuple[RunFolder, RunRecord] | None = None
        self._owed_at = float("-inf")

    def node(self, name: str) -> NodeState | None:
        """Return the state of a node of the run that goes on."""
        state = self._knowledge.node(name)
        return state if state is not None and state.run_id == self.record.id else None

    def set_active(self, active: Active | None) -> None:
        """Say which run goes on, and write that down for the runner after a crash of this one."""
        self.active = active
        try:
            remember_active(self._folders, active.left() if active is not None else None)
        except Exception:
            # Only a runner after a crash of this one would read it.
            logger.exception("which run goes on can't be written down")
        finally:
            if active is None:
                self.over.set()
            else:
                self.over.clear()

    def look(self, now: float, wall_time: float) -> Reached:
        """Take what the nodes say into the record.

        Args:
            now: Monotonic time, seconds.
            wall_time: Seconds since the epoch.

        Returns:
            Why the run is to be ended, empty while it is not.
        """
        active = self.active
        if active is None:
            self._write_what_is_owed(now)
            return ""
        trainer, telemetry = self.node(TRAINER), self.node(TELEMETRY)
        status = active.crew.trainer_status() if active.begun else None
        present = trainer if status is not None and status.state == "running" else None
        known = self._knowledge
        evaluator = self.node(EVALUATOR)
        verdict = telemetry.verdict if telemetry is not None else None
        view = RunView(
            status,
            present,
            bool(active.ending),
            known.reachable,
            known.disk_full,
            active.check,
            evaluating=evaluator is not None and evaluator.phase == "evaluating",
            confirming=verdict is not None and verdict.to_confirm is not None,
        )
        active.note_progress(trainer)
        progress = with_progress(self.record, trainer, telemetry, wall_time)
        seen = seen_as(progress, view, active.seconds(now))
        self.record = seen.model_copy(update={"wished_pause": active.paused})
        return goal_reached(trainer, telemetry) or ("failed" if self.record.state == "failed" else "")

    def write_now_and_then(self, active: Active, now: float) -> None:
        """Write the record when it was not written for a while."""
        if now - active.written_at >= _WRITE_EVERY_S:
            active.written_at = now
            self.note_record(active.run)

    def note_record(self, run: RunFolder) -> None:
        """Write the record; what can't be written of a run that is over is tried again."""
        error = self._write(run, self.record)
        if error is not None:
            logger.error("the record of run %s can't be written: %s", run.run_id, error)
        self._owed = (run, self.record) if error is not None and self.record.reached else None

    def _write_what_is_owed(self, now: float) -> None:
        if self._owed is None or now - self._owed_at < _WRITE_EVERY_S:
            return
        self._owed_at = now
        run, record = self._owed
        if self._write(run, record) is None:  # it was told when it failed first
            self._owed = None
            logger.info("the record of run %s is written", run.run_id)

    def _write(self, run: RunFolder, record: RunRecord) -> Exception | None:
        """Write a record, and that a run that is over goes on from its newest state; return what failed.

        Nothing ends for want of a record: the disk may be full for a while.
        """
        try:
            if record.reached:
                choose_checkpoint(run, "")
            self._library.write_record(run, record)
        except Exception as error:
            return error
        return None
