"""The end of a run: its services end in order, what became of it is noted, and what of it was not saved."""

import asyncio
import logging
import time

from soulsgui.runner.active import Active
from soulsgui.runner.bus import Bus
from soulsgui.runner.events import EventLog
from soulsgui.runner.knowledge import Knowledge
from soulsgui.runner.library import Library
from soulsgui.runner.run import END_WORDS, Reached, ended
from soulsgui.runner.saved import loss_words
from soulsgui.runner.standing import Standing
from soulsgui.runner.supervisor import Supervisor
from soulsgui.wire.keys import TELEMETRY, TRAINER
from soulsgui.wire.messages.node import Verdict

logger = logging.getLogger(__name__)

_LAST_TURN_S = 1.0
_COUNTED_S = 3.0
_STATES_TO_COUNT = 2


class Ending:
    """Ends runs.

    Attributes:
        lock: Held while the services of a run are ended.

    Args:
        standing: The run that goes on.
        library: The runs.
        supervisor: Runs the services.
        knowledge: What is read from the server.
        events: Where to note what happened.
        bus: Writes to the server.
    """

    def __init__(
        self,
        standing: Standing,
        library: Library,
        supervisor: Supervisor,
        knowledge: Knowledge,
        events: EventLog,
        bus: Bus,
    ) -> None:
        self.lock = asyncio.Lock()
        self._standing = standing
        self._library = library
        self._supervisor = supervisor
        self._knowledge = knowledge
        self._events = events
        self._bus = bus

    def wish(self, active: Active, reached: Reached, error: str = "", save: bool = True) -> None:
        """Note that the run is to be ended, also for the runner after a crash of this one."""
        active.end_because(reached, error, save)
        self._standing.set_active(active)

    async def end(self, active: Active) -> None:
        """End its services and note what became of it.

        Args:
            active: The run, of which it was noted that it is to be ended.
        """
        async with self.lock:
            try:
                await active.end(self._last_verdict)
                await self._bus.let_clients_rest()
                # What was being read when the last service ended may be older than its last words.
                for _ in range(2):
                    await self._knowledge.next_turn(_LAST_TURN_S)
            finally:
                await self.conclude(active)

    async def conclude(self, active: Active) -> None:
        """Note the end of a run whose services have ended, and what of it was not saved."""
        try:
            if active.saves:
                self._standing.look(time.monotonic(), time.time())
                found = await asyncio.to_thread(self._library.checkpoints.list, active.run)
                active.loss = loss_words(self._standing.record, found, self._why_unsaved())
        except OSError as error:
            logger.error("whether run %s is saved can't be seen: %s", active.run.run_id, error)
        finally:
            self.finish(active)

    def _why_unsaved(self) -> str:
        trainer, outcome = self._standing.node(TRAINER), self._supervisor.outcome_of(TRAINER)
        said = (trainer.unsaved or trainer.error) if trainer is not None else ""
        return said or (f"the trainer {outcome.words}" if outcome is not None else "the trainer is gone")

    async def _last_verdict(self) -> Verdict | None:
        """Return what telemetry says once it has read everything that is on the server now."""
        deadline = time.monotonic() + _COUNTED_S
        ticks: set[int] = set()
        # What it said last it may have said before; the state after the next one knows all.
        while (state := self._standing.node(TELEMETRY)) is not None and time.monotonic() < deadline:
            ticks.add(state.tick)
            if len(ticks) > _STATES_TO_COUNT:
                break
            await self._knowledge.next_turn(_LAST_TURN_S)
        return state.verdict if state is not None else None

    def finish(self, active: Active) -> None:
        """Note that a run is over."""
        self._standing.loss = active.loss
        unsaved = f"Not saved: {active.loss}" if active.loss else ""
        try:
            self._standing.look(time.monotonic(), time.time())
            restarts = active.crew.restarts()
            over = ended(self._standing.record, active.ending, active.error or unsaved)
            self._standing.record = over.model_copy(update={"restarts": restarts})
            self._standing.note_record(active.run)
            self._knowledge.roster.set_local([])
            active.rest(False)
        except Exception:
            # Whatever went wrong with what is told of it: the run is over, and others wait for that.
            logger.exception("the end of run %s could not be noted", active.run.run_id)
        finally:
            self._standing.set_active(None)
        self._tell_the_end(active, unsaved)

    def _tell_the_end(self, active: Active, unsaved: str) -> None:
        run_id, failed = active.run.run_id, active.ending == "failed"
        remedy = f"Look at its logs: soulsgui logs {TRAINER}" if failed else ""
        if unsaved and not failed:
            remedy = f"Mend the cause, then go on from its last checkpoint: soulsgui run resume {run_id}"
        self._events.add(
            "error" if failed or unsaved else "warning" if active.error else "info",
            f"Run {self._standing.record.title} {END_WORDS[active.ending]}",
            cause=". ".join(words for words in (active.error, unsaved) if words),
            remedy=remedy,
            run_id=run_id,
        )
