"""One run while it goes on."""

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, Literal

import redis

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentMissingError, NoCheckpointError
from soulsgui.runner.events import Level
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.checkpoints import BestModel
from soulsgui.runner.run.record import (
    END_WORDS,
    NO_RATES,
    ActiveRun,
    Reached,
    RunNews,
    RunRecord,
    RunView,
    ended,
    goal_reached,
    loss_words,
    run_state,
    with_progress,
)
from soulsgui.runner.run.services import EVALUATOR_HURRIED_GRACE_S, RunContext, RunServices, client_name
from soulsgui.runner.run.start import choose_checkpoint, live_change, spaces_are_known, write_spaces
from soulsgui.runner.server.bus import ANSWER_LIMIT_S, clear_run_keys
from soulsgui.system import atomic_write, find_dir
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.control.states import Topic
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, TRAINER
from soulsgui.wire.messages.live import LiveChange
from soulsgui.wire.messages.metrics import AttemptRow, Row, UpdateRow
from soulsgui.wire.messages.node import NodeState, Verdict
from soulsgui.wire.node_commands import NodeCommand

logger = logging.getLogger(__name__)

_MISSING_REMEDY = (
    "Install it on this computer; or, where only other computers play it: clients.local=0 and env.spaces=auto"
)

_WRITE_EVERY_S = 5.0
_PAUSE_LIMIT_S = 8.0
_LAST_TURN_S = 1.0
_COUNTED_S = 3.0
_STATES_TO_COUNT = 2


class RunSession:
    """One run from the check of its environment until its services have ended.

    It is begun by `start`, `resume` or `adopt`, and `look` tells when it is to be ended. Then follow, in this
    order, `end_because`, `end` (unless none of its services lives), `find_loss`, `finish` and `tell_the_end`.
    """

    def __init__(
        self,
        context: RunContext,
        run: RunFolder,
        settings: Settings,
        record: RunRecord,
        left: ActiveRun | None = None,
    ) -> None:
        own = [client_name(number) for number in range(1, settings.clients.local + 1)]
        clients = left.clients if left is not None else own
        self.run = run
        self.settings = settings
        self.record = record
        self.services = RunServices(context, run, settings, clients)
        self.ending: Reached = ""  # Why it is being ended; empty while it is not
        self.evaluates = True  # Whether its last weights are evaluated at its end, as far as there is time
        # What of it no checkpoint holds, in words, once it has ended; empty when everything is saved.
        self.loss = ""
        self.owes_record = False  # Whether its record could not be written, though it is over
        self._context = context
        self._best = BestModel(context.bus, context.library.best(run))
        self._news = RunNews(context.events, run.run_id, settings.stop.mean_return)
        self._started = False
        self._check = ""
        self._paused = run.paused.exists()
        self._error = ""
        self._saves = True
        self._seconds_before = record.seconds
        self._began_at = time.monotonic()
        self._began = time.time()
        self._written_at = float("-inf")
        self._chosen_after: int | None = 0  # a checkpoint may be chosen for attempts after this one
        self._came_to: dict[int, int] = {}
        if left is not None:
            self.end_because(left.ending, left.error, left.saves)

    def left(self) -> ActiveRun:
        """Return what the next runner must know if this one should crash."""
        return ActiveRun(
            run_id=self.run.run_id,
            clients=self.services.clients,
            began=self._began,
            seconds_before=self._seconds_before,
            ending=self.ending,
            error=self._error,
            saves=self._saves,
        )

    def tell(self, level: Level, words: str, cause: str = "", remedy: str = "", topic: Topic = "") -> None:
        """Note that something happened to the run."""
        self._context.events.add(level, words, cause, remedy, run_id=self.run.run_id, topic=topic)

    def _node(self, name: str) -> NodeState | None:
        return self._context.server_state.node_of(name, self.run.run_id)

    async def start(self) -> None:
        """Start the services of a new run; if that fails, nothing of it is left."""
        probing = asyncio.ensure_future(self._context.probe(self.settings, self._note_check))
        bus = self._context.bus
        try:
            await bus.call(clear_run_keys(bus.keys))
            # The trainer loads for longer than the probe takes; if the probe fails, so does the start.
            # A game in real time is often one program: nobody else starts it meanwhile.
            at_once = self.settings.fits_any_environment and not self.settings.client.step_seconds
            if at_once:
                await self.services.start()
            await self._take_spaces(probing)
            if not at_once:
                await self.services.start()
            self._started = True
        except BaseException:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            await self.services.abandon()
            shutil.rmtree(self.run.root, ignore_errors=True)
            raise

    async def resume(self, checkpoint: str) -> None:
        """Start the services of a run from a checkpoint (its path; empty: the newest), or none of them."""
        bus = self._context.bus
        # Nothing is saved before the trainer has begun an attempt: what is best now, another process held.
        self._best.oldest = float("inf")
        try:
            self._rest(False)
            choose_checkpoint(self.run, checkpoint)
            if not spaces_are_known(self.run):
                await self._take_spaces(self._context.probe(self.settings, self._note_check))
            await bus.call(clear_run_keys(bus.keys, self.run.run_id))
            await self.services.start()
            self._started = True
        except BaseException:
            await self.services.abandon()
            raise

    def _note_check(self, doing: str) -> None:
        self._check = doing

    async def _take_spaces(self, probing: Awaitable[dict[str, Any]]) -> None:
        """Write what the probe finds; where the environment is not installed, the trainer asks a client."""
        try:
            write_spaces(self.run, await probing)
        except EnvironmentMissingError as error:
            if not self.settings.a_client_may_tell_the_spaces:
                raise EnvironmentMissingError(error.message, error.remedy or _MISSING_REMEDY) from error
            logger.warning("%s The first client that joins reports its spaces.", error.message)

    async def adopt(self, left: ActiveRun) -> list[str]:
        """Take over services of an earlier runner and return their names; if any, start the others."""
        adopted = await self.services.adopt(start_others=not self.ending)
        if adopted:
            self._began_at, self._began = time.monotonic(), time.time()
            self._seconds_before = left.seconds(self._began)
            self._started = True
        return adopted

    def look(self, now: float, wall_time: float) -> tuple[Reached, str] | None:
        """Take in what the nodes say, and act on it; return why the run is to be ended, None while not."""
        self._take_in(now, wall_time)
        if self.ending or not self._started:
            return None  # whatever its services say, its environment is still being checked
        trainer, telemetry = self._node(TRAINER), self._node(TELEMETRY)
        if reached := goal_reached(trainer, telemetry):
            return reached, ""
        if self.record.state == "failed":
            return "failed", self.record.detail
        if trainer is not None:
            if trainer.stop_reason:
                return "stopped", trainer.stop_reason
            self._news.look(trainer)
            begun = self._chosen_after is not None and trainer.attempt > self._chosen_after
            if begun and trainer.checkpoint_env_steps is not None:
                # The trainer has saved in this attempt: started again, it begins from there.
                self._chosen_after = None
                choose_checkpoint(self.run, "")
        self._best.look(telemetry.verdict if telemetry is not None else None, now)
        if now - self._written_at >= _WRITE_EVERY_S:
            self._written_at = now
            self.note_record()
        return None

    def _take_in(self, now: float, wall_time: float) -> None:
        trainer, telemetry, evaluator = self._node(TRAINER), self._node(TELEMETRY), self._node(EVALUATOR)
        status = self.services.trainer_status() if self._started else None
        verdict = telemetry.verdict if telemetry is not None else None
        state, detail = run_state(
            RunView(
                status,
                trainer if status is not None and status.state == "running" else None,
                bool(self.ending),
                self._context.server_state.reachable,
                self._context.server_state.disk_full,
                self._check,
                evaluating=evaluator is not None and evaluator.phase == "evaluating",
                confirming=verdict is not None and verdict.to_confirm is not None,
            )
        )
        if trainer is not None:
            self._came_to[trainer.attempt] = trainer.env_steps
        # The turn of the runner may have begun before the run.
        seconds = self._seconds_before + max(now - self._began_at, 0.0)
        changes: dict[str, object] = {"state": state, "detail": detail}
        changes |= {"seconds": seconds, "wished_pause": self._paused}
        if state == "paused" or status is None or status.state != "running":
            changes |= NO_RATES  # the trainer's last word is of when it still learned
        self.record = with_progress(self.record, trainer, telemetry, wall_time).model_copy(update=changes)

    def take_rows(self, rows: Sequence[Row]) -> None:
        """Look at new rows of the curves: what a new attempt cost, and figures that ask for a change."""
        for row in rows:
            if isinstance(row, UpdateRow):
                self._news.take_row(row)
            elif isinstance(row, AttemptRow) and row.run_id == self.run.run_id:
                self._best.oldest = row.model_id
                chosen = self._chosen_after is not None
                self._news.take_attempt(row, None if chosen else self._came_to.get(row.attempt - 1))

    async def set_clients(self, count: int) -> None:
        """Start or stop clients of our own until there are so many."""
        await self.services.set_clients(count)
        self.record = self.record.model_copy(update={"local_clients": count})

    async def apply(self, values: Mapping[str, Any], undoes: bool = False) -> LiveChange | None:
        """Let the trainer go on with other values of live settings; None where it does so as soon as it can.

        They stand in the configuration of the run before it is told: one that begins anew has them, too.
        """
        settings, changes = live_change(self.run, values)
        written = self.run.config.read_bytes()
        self._context.library.write_settings(self.run, settings)
        args = {"values": {one.key: one.after for one in changes}, "undoes": undoes}
        change: LiveChange | None = None
        try:
            command = NodeCommand(command="configure", args=args)
            answer = await self._context.bus.ask(TRAINER, command, ANSWER_LIMIT_S)
            change = LiveChange.model_validate(answer.result)
        except Exception as error:
            # Where it, or Redis, is only busy, it finds the command when that is over.
            busy = isinstance(error, Refused) and error.code is ErrorCode.NO_ANSWER
            if not (busy or isinstance(error, redis.TimeoutError)):
                atomic_write(self.run.config, written)
                raise
        self.settings = settings
        since = (
            f"from update {change.update + 1:,} on" if change is not None else "as soon as the trainer can"
        )
        words = ", ".join(map(str, changes))
        self.tell("info", f"{self.record.called} continues with {words} {since}")
        evaluates = any(one.key.startswith("evaluation.") for one in changes)
        if evaluates and self._context.supervisor.running(EVALUATOR):
            await self._context.supervisor.restart(EVALUATOR)
        return change

    def write_record(self) -> Exception | None:
        """Write the record, and that a run that is over goes on from its newest state; return what failed."""
        # Nothing ends for want of a record: the disk may be full for a while.
        try:
            if self.record.reached:
                choose_checkpoint(self.run, "")
            self._context.library.write_record(self.run, self.record)
        except Exception as error:
            return error
        return None

    def note_record(self) -> None:
        """Write the record, or tell that it can't be written."""
        error = self.write_record()
        if error is not None:
            logger.error("the record of run %s can't be written: %s", self.run.run_id, error)
        self.owes_record = error is not None and bool(self.record.reached)

    async def load(self, checkpoint: str) -> None:
        """Start the trainer anew from a checkpoint (its path), once it has saved where it is.

        Redis, telemetry and the clients go on meanwhile: it is a new attempt, under model ids of its own.
        """
        save = NodeCommand(command="save", args={"kind": "current"})
        await self._context.bus.ask(TRAINER, save, ANSWER_LIMIT_S)
        if find_dir(self.run.root / checkpoint) is None:  # once it is chosen, it stays
            what = f"{checkpoint} was deleted while {self.run.run_id} was being saved."
            raise NoCheckpointError(what, "Choose another one; the run continues as before.")
        self._chosen_after = self.record.attempt
        choose_checkpoint(self.run, checkpoint)
        # Nothing is saved as the best before the attempt has begun: this trainer may not hold it.
        self._best.oldest = float("inf")
        self.tell("info", f"{self.record.called} continues from {checkpoint}")
        await self._context.supervisor.restart(TRAINER)

    async def pause(self) -> bool:
        """Let the run rest until `go_on`, with everything kept; return whether it rests already."""
        if not self._paused:
            self._rest(True)
            self.tell("info", f"{self.record.called} was paused")
        return await self._tell_trainer("pause")

    async def go_on(self) -> bool:
        """Let the run go on; return whether it does already, as by `pause`."""
        self.check_paused()
        self._rest(False)
        self.tell("info", f"{self.record.called} continues after a pause")
        return await self._tell_trainer("continue")

    def check_paused(self) -> None:
        """Raise that the run was not paused, where it was not."""
        if not self._paused:
            waits = f" ({self.record.detail})" if self.record.detail else ""
            raise Refused(
                ErrorCode.NOT_NOW,
                f"Run {self.record.id} was not paused: it is {self.record.state}{waits}.",
                "See how it is: soulsgui status",
            )

    def _rest(self, paused: bool) -> None:
        """Note, also for a trainer that begins later, whether the run is to rest."""
        if paused:
            atomic_write(self.run.paused, b"")
        else:
            self.run.paused.unlink(missing_ok=True)
        self._paused = paused

    async def _tell_trainer(self, what: Literal["pause", "continue"]) -> bool:
        """Tell the trainer; one that is not there, or busy, learns it from the file or when it has time."""
        if not self._context.supervisor.running(TRAINER):
            return False
        try:
            await self._context.bus.ask(TRAINER, NodeCommand(command=what), _PAUSE_LIMIT_S)
        except Refused as error:
            if error.code is not ErrorCode.NO_ANSWER:
                raise
            return False
        except (redis.RedisError, *AWAY):
            return False
        return True

    def end_because(self, reached: Reached, error: str = "", saves: bool = True) -> None:
        """Note why it is to be ended, what is wrong with it when that is why, and whether it is saved."""
        self.ending, self._error, self._saves = reached, error, saves

    def hurry(self) -> None:
        """Note that nobody waits for it to be saved any more."""
        self._saves = self.evaluates = False

    async def end(self) -> None:
        """End the services, with or without a last checkpoint, and read their last states."""
        await self._best.settle()
        # What the clients played last may make another model the best: they end first.
        reached = self.ending in ("mean_return", "env_steps")
        hurried_s = EVALUATOR_HURRIED_GRACE_S if self._saves and self.evaluates else 0.0
        await self.services.end_clients(None if reached and self.evaluates else hurried_s)
        verdict = await self._last_verdict() if self._saves else None
        # Asked for before the stop, so the trainer obeys in this order, and one wait serves both.
        last_best = asyncio.create_task(self._best.save_last(verdict))
        await asyncio.sleep(0)
        try:
            await self.services.end(self._saves)
        finally:
            last_best.cancel()
            await asyncio.gather(last_best, return_exceptions=True)
        await self._context.bus.let_clients_rest()
        # What was being read when the last service ended may be older than its last words.
        for _ in range(2):
            await self._context.server_state.next_turn(_LAST_TURN_S)

    async def _last_verdict(self) -> Verdict | None:
        """Return what telemetry says once it has read everything that is on the server now."""
        deadline = time.monotonic() + _COUNTED_S
        ticks: set[int] = set()
        # What it said last it may have said before; the state after the next one knows all.
        while (state := self._node(TELEMETRY)) is not None and time.monotonic() < deadline:
            ticks.add(state.tick)
            if len(ticks) > _STATES_TO_COUNT:
                break
            await self._context.server_state.next_turn(_LAST_TURN_S)
        return state.verdict if state is not None else None

    async def find_loss(self) -> None:
        """Find the updates that an ended run has not saved."""
        if not self._saves:
            return
        try:
            self._take_in(time.monotonic(), time.time())
            found = await asyncio.to_thread(self._context.library.checkpoints.list, self.run)
            self.loss = loss_words(self.record, found, self._why_unsaved())
        except OSError as error:
            logger.error("whether run %s is saved can't be seen: %s", self.run.run_id, error)

    def _why_unsaved(self) -> str:
        trainer, outcome = self._node(TRAINER), self._context.supervisor.outcome_of(TRAINER)
        said = (trainer.unsaved or trainer.error) if trainer is not None else ""
        return said or (f"the trainer {outcome.words}" if outcome is not None else "the trainer is gone")

    def finish(self) -> None:
        """Note that it is over."""
        try:
            self._take_in(time.monotonic(), time.time())
            over = ended(self.record, self.ending, self._error or self._unsaved)
            self.record = over.model_copy(update={"restarts": self.services.restarts()})
            self.note_record()
            self._context.roster.set_local([])
            self._rest(False)
        except Exception:
            # Whatever went wrong with what is told of it: the run is over, and others wait for that.
            logger.exception("the end of run %s could not be noted", self.run.run_id)

    @property
    def _unsaved(self) -> str:
        return f"Not saved: {self.loss}" if self.loss else ""

    def tell_the_end(self) -> None:
        """Tell how it ended, and what of it was not saved."""
        unsaved, failed = self._unsaved, self.ending == "failed"
        remedy = f"Look at its logs: soulsgui logs {TRAINER}" if failed else ""
        if unsaved and not failed:
            remedy = (
                "Fix the cause, then continue from its last checkpoint: soulsgui run resume "
                f"{self.run.run_id}"
            )
        self.tell(
            "error" if failed or unsaved else "warning" if self._error else "info",
            f"{self.record.called} {END_WORDS[self.ending]}",
            ". ".join(words for words in (self._error, unsaved) if words),
            remedy,
            "goal" if self.ending in ("mean_return", "env_steps") else "given_up" if failed else "",
        )
