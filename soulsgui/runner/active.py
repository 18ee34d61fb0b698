"""The run that goes on: how its services are begun and ended. The conductor keeps what is known of it."""

import asyncio
import logging
import shutil
import time
from collections.abc import Awaitable, Callable
from typing import Any

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentMissingError
from soulsgui.runner.best import BestKeeper
from soulsgui.runner.bus import Bus, clear_run_keys
from soulsgui.runner.crew import Crew
from soulsgui.runner.opening import ActiveRun, choose_checkpoint, spaces_are_known, write_spaces
from soulsgui.runner.probe import Told
from soulsgui.runner.run import Reached, new_attempt_words
from soulsgui.runner.saved import SaveNews
from soulsgui.runner.services import EVALUATOR_HURRIED_GRACE_S
from soulsgui.system import atomic_write
from soulsgui.wire.messages.metrics import AttemptRow
from soulsgui.wire.messages.node import NodeState, Verdict

logger = logging.getLogger(__name__)

_MISSING_REMEDY = (
    "Install it on this computer; or, where only other computers play it: clients.local=0 and env.spaces=auto"
)

Probe = Callable[[Settings, Told], Awaitable[dict[str, Any]]]
LastVerdict = Callable[[], Awaitable[Verdict | None]]


class Active:
    """One run while it goes on.

    Attributes:
        begun: Whether its services have been started.
        check: What the check of its environment does, in words.
        ending: Why it is being ended; empty while it is not.
        error: What is wrong with it, when that is why.
        saves: Whether it is saved at its end.
        evaluates: Whether its last weights are evaluated at its end, as far as there is time.
        loss: What of it no checkpoint holds, in words, once it has ended; empty when everything is saved.
        save_news: Watches whether it can be saved.
        written_at: When its record was last written, monotonic seconds.
        trouble: What holds it up, as the trainer said last.
        paused: Whether it is to rest.
        diverged: That its training has diverged, as the trainer said last.
        told: Names of the figures about which something was told that is told once.

    Args:
        run: Its folder.
        settings: Its configuration.
        crew: Its services.
        best: Has its best model saved.
        seconds_before: How long it has gone on in earlier attempts.
    """

    def __init__(
        self, run: RunFolder, settings: Settings, crew: Crew, best: BestKeeper, seconds_before: float
    ) -> None:
        self.run = run
        self.settings = settings
        self.crew = crew
        self.best = best
        self.begun = False
        self.check = ""
        self.ending: Reached = ""
        self.error = ""
        self.saves = True
        self.evaluates = True
        self.loss = ""
        self.save_news = SaveNews()
        self.written_at = float("-inf")
        self.trouble = ""
        self.paused = run.paused.exists()
        self.diverged = ""
        self.told: set[str] = set()
        self._seconds_before = seconds_before
        self._began_at = time.monotonic()
        self._began = time.time()
        self._choice_pending = True
        self._came_to: dict[int, int] = {}

    def seconds(self, now: float) -> float:
        """Return how long the run has gone on, over all attempts."""
        # The turn of the runner may have begun before the run.
        return self._seconds_before + max(now - self._began_at, 0.0)

    def left(self) -> ActiveRun:
        """Return what the next runner must know if this one should crash."""
        return ActiveRun(
            run_id=self.run.run_id,
            clients=self.crew.clients,
            began=self._began,
            seconds_before=self._seconds_before,
            ending=self.ending,
            error=self.error,
            saves=self.saves,
        )

    def end_because(self, reached: Reached, error: str = "", saves: bool = True) -> None:
        """Note that it is to be ended.

        Args:
            reached: Why.
            error: What is wrong with it, when that is why.
            saves: Whether it is saved first.
        """
        self.ending, self.error, self.saves = reached, error, saves

    async def start(self, bus: Bus, probe: Probe) -> None:
        """Start the services of a new run; if that fails, nothing of it is left.

        Raises:
            EnvironmentCheckError: The environment can't be made, does not work, or is none for the algorithm
                or the network: then nothing was started.
            ServiceError: A service can't be started at all.
        """
        probing = asyncio.ensure_future(probe(self.settings, self._note_check))
        try:
            await bus.call(clear_run_keys(bus.keys))
            if self.settings.fits_any_environment and not self.settings.client.step_seconds:
                # The trainer loads for longer than the probe takes; if the probe fails, so does the start.
                # A game in real time is often one program: nobody else starts it meanwhile.
                await self.crew.start()
                await self._take_spaces(probing)
            else:
                await self._take_spaces(probing)
                await self.crew.start()
            self.begun = True
        except BaseException:
            probing.cancel()
            await asyncio.gather(probing, return_exceptions=True)
            await self.crew.abandon()
            shutil.rmtree(self.run.root, ignore_errors=True)
            raise

    async def resume(self, bus: Bus, probe: Probe, checkpoint: str) -> None:
        """Start the services of a run that has been before; if that fails, none of them is left.

        Args:
            bus: The way to the server.
            probe: Tells the spaces of the environment.
            checkpoint: What to begin from, by its path below the run's folder; empty takes the newest.

        Raises:
            EnvironmentCheckError: The environment can't be made, or does not work.
            ServiceError: A service can't be started at all.
        """
        self.best.await_attempt()
        try:
            self.rest(False)
            choose_checkpoint(self.run, checkpoint)
            if not spaces_are_known(self.run):
                await self._take_spaces(probe(self.settings, self._note_check))
            await bus.call(clear_run_keys(bus.keys, self.run.run_id))
            await self.crew.start()
            self.begun = True
        except BaseException:
            await self.crew.abandon()
            raise

    def _note_check(self, doing: str) -> None:
        self.check = doing

    async def _take_spaces(self, probing: Awaitable[dict[str, Any]]) -> None:
        """Write what the probe finds; where the environment is not installed, the trainer asks a client.

        Raises:
            EnvironmentCheckError: The environment can't be made, or does not work.
        """
        try:
            write_spaces(self.run, await probing)
        except EnvironmentMissingError as error:
            if not self.settings.a_client_may_tell_the_spaces:
                raise EnvironmentMissingError(error.message, error.remedy or _MISSING_REMEDY) from error
            logger.warning("%s Its spaces are told by the first client that joins.", error.message)

    async def adopt(self, left: ActiveRun) -> list[str]:
        """Take over the services that live on from an earlier runner.

        If there are any, the others are started, unless the run is being ended.

        Args:
            left: What that runner wrote down.

        Returns:
            Who was taken over.
        """
        adopted = await self.crew.adopt(start_others=not self.ending)
        if adopted:
            self._began_at, self._began = time.monotonic(), time.time()
            self._seconds_before = left.seconds(self._began)
            self.begun = True
        return adopted

    def rest(self, paused: bool) -> None:
        """Note, also for a trainer that begins later, whether the run is to rest.

        Raises:
            OSError: It can't be written.
        """
        if paused:
            atomic_write(self.run.paused, b"")
        else:
            self.run.paused.unlink(missing_ok=True)
        self.paused = paused

    def note_progress(self, trainer: NodeState | None) -> None:
        """Remember how far the trainer came in its present attempt."""
        if trainer is not None:
            self._came_to[trainer.attempt] = trainer.env_steps

    def begin_attempt(self, row: AttemptRow) -> str:
        """Take note of a new attempt of the trainer.

        Returns:
            What became of the attempt before, in words; empty when this runner has not seen one.
        """
        if row.run_id != self.run.run_id:
            return ""
        self.best.attempt_began(row.model_id)
        steps_before = self._came_to.get(row.attempt - 1)
        return "" if steps_before is None else new_attempt_words(steps_before, row)

    def note_checkpoint(self, trainer: NodeState | None) -> None:
        """Take the choice of a checkpoint back once the trainer has saved one of this attempt."""
        if self._choice_pending and trainer is not None and trainer.checkpoint_env_steps is not None:
            self._choice_pending = False
            choose_checkpoint(self.run, "")

    async def end(self, last_verdict: LastVerdict) -> None:
        """End the services, saved or not as was wished.

        Args:
            last_verdict: Tells what telemetry says once it has counted all that was played.
        """
        await self.best.settle()
        # What the clients played last may make another model the best: they end first.
        reached = self.ending in ("mean_return", "env_steps")
        hurried_s = EVALUATOR_HURRIED_GRACE_S if self.saves and self.evaluates else 0.0
        await self.crew.end_clients(None if reached and self.evaluates else hurried_s)
        verdict = await last_verdict() if self.saves else None
        # Asked for before the stop, so the trainer obeys in this order, and one wait serves both.
        last_best = asyncio.create_task(self.best.last(verdict))
        await asyncio.sleep(0)
        try:
            await self.crew.end(self.saves)
        finally:
            last_best.cancel()
            await asyncio.gather(last_best, return_exceptions=True)
