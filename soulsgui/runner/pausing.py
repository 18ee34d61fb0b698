"""The pause of a run: its clients are granted nothing, its learner rests, and everything is kept."""

from typing import Literal

import redis

from soulsgui.runner.active import Active
from soulsgui.runner.bus import Bus
from soulsgui.runner.events import EventLog
from soulsgui.runner.refusal import Refused, no_run
from soulsgui.runner.standing import Standing
from soulsgui.runner.supervisor import Supervisor
from soulsgui.wire.commands import NodeCommand
from soulsgui.wire.connection import AWAY
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.keys import TRAINER

_ANSWER_LIMIT_S = 8.0


class Pausing:
    """Lets the run that goes on rest, and go on.

    A file in the run's folder says that it rests, for a trainer that is started meanwhile.

    Args:
        standing: The run that goes on.
        supervisor: Runs the trainer.
        bus: The way to it.
        events: Where to note what happened.
    """

    def __init__(self, standing: Standing, supervisor: Supervisor, bus: Bus, events: EventLog) -> None:
        self._standing = standing
        self._supervisor = supervisor
        self._bus = bus
        self._events = events

    async def pause(self) -> bool:
        """Let the run rest until `go_on`.

        Returns:
            Whether it rests already; else it does so as soon as its trainer can.

        Raises:
            Refused: No run goes on, or it is being ended.
            OSError: Its folder can't be written.
        """
        active = self._active()
        if not active.paused:
            active.rest(True)
            self._tell_of("was paused", active)
        return await self._tell("pause")

    async def go_on(self) -> bool:
        """Let the run go on.

        Returns:
            Whether it goes on already; else it does so as soon as its trainer can.

        Raises:
            Refused: No run goes on, it is being ended, or it was not paused.
            OSError: Its folder can't be written.
        """
        active = self._active()
        if not active.paused:
            record = self._standing.record
            waits = f" ({record.detail})" if record.detail else ""
            raise Refused(
                ErrorCode.NOT_NOW,
                f"Run {record.id} was not paused: it is {record.state}{waits}.",
                "See how it is: soulsgui status",
            )
        active.rest(False)
        self._tell_of("goes on after a pause", active)
        return await self._tell("continue")

    def _tell_of(self, what: str, active: Active) -> None:
        words = f"Run {self._standing.record.title} {what}"
        self._events.add("info", words, run_id=active.run.run_id)

    def _active(self) -> Active:
        active = self._standing.active
        if active is None:
            raise no_run()
        if active.ending:
            raise Refused(ErrorCode.NOT_NOW, "The run is being ended.", "Wait for that: soulsgui status")
        return active

    async def _tell(self, what: Literal["pause", "continue"]) -> bool:
        """Tell the trainer; one that is not there, or busy, learns it from the file or when it has time."""
        if not self._supervisor.running(TRAINER):
            return False
        try:
            await self._bus.ask(TRAINER, NodeCommand(command=what), _ANSWER_LIMIT_S)
        except Refused as error:
            if error.code is not ErrorCode.NO_ANSWER:
                raise
            return False
        except (redis.RedisError, *AWAY):
            return False
        return True
