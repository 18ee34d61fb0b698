"""Evaluations by clients, where the server can't make the environment: whom to ask, and for what.

One evaluation is open at a time, and one client plays it. It is asked in its grant, together with the weights
that it is to play with; the weights are held until the evaluation after it is over, so that they can be saved
when they are the best. Telemetry counts what comes.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import redis

from soulsgui.config.schema import Settings
from soulsgui.training.intake import Intake
from soulsgui.training.publisher import Publisher, Standing
from soulsgui.training.session import Session
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, Keys
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import GreedyOrder

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
BEGIN_WITHIN_S = 5.0
"""A client that has not begun by then did not get the weights before newer ones came, or will not play."""


class Schedule:
    """When an evaluation is due: at the first weights on or behind each multiple of `every` updates. Pure.

    Weights that are there when it begins count as seen.

    Args:
        every: Updates between two evaluations, at least 1.
    """

    def __init__(self, every: int) -> None:
        self._every = every
        self._seen: tuple[int, int] | None = None

    def due(self, attempt: int, update: int) -> bool:
        """Whether weights are to be evaluated; those for which it is said count as evaluated.

        Args:
            attempt: The attempt they are of.
            update: Updates up to them.
        """
        before, self._seen = self._seen, (attempt, update)
        if before is None or before[0] != attempt:
            return False
        return update // self._every > before[1] // self._every


def next_in_turn(clients: Mapping[str, Session], last: str) -> Session | None:
    """Return the session that is asked after that of `last`, None when there is none."""
    behind = sorted(clients, key=lambda client: (client <= last, client))
    return clients[behind[0]] if behind else None


@dataclass(frozen=True)
class _Open:
    """An evaluation that a client was asked for (monotonic seconds)."""

    session: Session
    order: GreedyOrder
    since: float


class ClientEvaluations:
    """Asks clients for evaluations as long as the evaluator of the run says that it can't play.

    Args:
        settings: The run's configuration.
        run_id: The run.
        keys: Key names.
        intake: Knows the clients.
        publisher: Holds the weights and sends the grants.
        attempt: The attempt.
        update: Updates of the agent at its beginning: they count as evaluated.

    Attributes:
        asks: Whether it asks: the evaluator can't play, and there is a client that can. None while there is
            no client of whom that is known, and while the evaluator can.
    """

    def __init__(
        self,
        settings: Settings,
        run_id: str,
        keys: Keys,
        intake: Intake,
        publisher: Publisher,
        attempt: int,
        update: int,
    ) -> None:
        # In lockstep each client plays exactly its share.
        self._every = 0 if settings.determinism == "lockstep" else settings.evaluates_every
        self.asks: bool | None = None if self._every else False
        self._count = settings.evaluation.episodes
        self._run_id = run_id
        self._keys = keys
        self._intake = intake
        self._publisher = publisher
        self._attempt = attempt
        self._schedule = Schedule(max(self._every, 1))
        self._schedule.due(attempt, update)
        self._wanted = False
        self._open: _Open | None = None
        self._asked_last = ""
        self._counted = -1  # weights of the last evaluation that telemetry has counted
        self._next_look = 0.0

    def publishing(self, standing: Standing, now: float) -> None:
        """Ask with the weights that are about to be published, when an evaluation is due.

        Args:
            standing: Where the run is with them.
            now: Monotonic time, seconds.
        """
        if not self._every:
            return
        self._wanted |= self._schedule.due(self._attempt, standing.update)
        if not (self._wanted and self.asks and self._open is None):
            return
        players = {client: one for client, one in self._known().items() if self._can_play(client)}
        session = next_in_turn(players, self._asked_last)
        if session is None:
            return
        order = GreedyOrder(
            model_id=standing.model_id,
            count=self._count,
            attempt=self._attempt,
            update=standing.update,
            env_steps=standing.env_steps,
            episodes=standing.episodes,
        )
        logger.info("asks %s for %d greedy episodes of model %d", session.client, order.count, order.model_id)
        session.greedy, self._open = order, _Open(session, order, now)
        self._wanted, self._asked_last = False, session.client
        self._hold()

    def look(self, connection: redis.Redis, now: float) -> None:
        """Now and then: whether to ask at all, and what became of the evaluation that is open.

        Args:
            connection: The server.
            now: Monotonic time, seconds.

        Raises:
            redis.RedisError: The server is away; nothing is lost.
        """
        if not self._every or now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_S
        keys = [self._keys.node(name) for name in (EVALUATOR, TELEMETRY)]
        evaluator, telemetry = map(self._of_run, cast("list[bytes | None]", connection.mget(keys)))
        absent = evaluator is not None and evaluator.phase == "frozen"
        known = self._known() if absent else {}
        players = {client: one for client, one in known.items() if self._can_play(client)}
        self.asks = bool(players) if known else None
        if self._open is None:
            return
        if telemetry is not None and telemetry.evaluated == self._open.order.model_id:
            self._counted = telemetry.evaluated
            self._end(connection, self._open)
        elif why := self._given_up(self._open, players, now):
            logger.info("%s does not play model %d to its end: %s", *self._names(self._open), why)
            self._wanted = True
            self._end(connection, self._open)

    def _of_run(self, data: bytes | None) -> NodeState | None:
        state = NodeState.read(data)
        return state if state is not None and state.run_id == self._run_id else None

    def _known(self) -> dict[str, Session]:
        """Return the sessions that take part and have told of themselves."""
        beats = self._intake.beats
        return {
            client: session
            for client, session in self._intake.eligible().items()
            if client in beats and beats[client].session == session.id
        }

    def _can_play(self, client: str) -> bool:
        """Whether a client knows of evaluations; those of earlier versions, and loops by hand, do not."""
        return self._intake.beats[client].greedy is not None

    def _given_up(self, asked: _Open, players: Mapping[str, Session], now: float) -> str:
        """Return why nothing more is to be expected of an evaluation, empty while something is."""
        client = asked.session.client
        if players.get(client) is not asked.session:
            return self._intake.why_absent(client) or "it began anew"
        beat = self._intake.beats[client]
        begun = beat.greedy is not None and beat.greedy.model_id == asked.order.model_id
        return "" if begun or now < asked.since + BEGIN_WITHIN_S else "it has not begun"

    def _end(self, connection: redis.Redis, asked: _Open) -> None:
        """Ask for it no longer."""
        self._open = None
        asked.session.greedy = None
        self._hold()
        client = asked.session.client
        if self._intake.sessions.by_client.get(client) is asked.session:
            self._publisher.tell(connection, client, self._intake.sessions.grant(asked.session))

    def _hold(self) -> None:
        held = {self._counted} if self._open is None else {self._counted, self._open.order.model_id}
        self._publisher.hold(held)

    @staticmethod
    def _names(asked: _Open) -> tuple[str, int]:
        return asked.session.client, asked.order.model_id
