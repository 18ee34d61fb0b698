"""Evaluations by clients, where the server can't make the environment: whom to ask, and for what.

One evaluation is open at a time. One of the server's own clients plays it, or else up to three of the
invited, so that none decides alone what it gave. They are asked in their grants, together with the weights
that they are to play with; the weights are held until the evaluation after it is over, so that they can be
saved when they are the best. Telemetry counts what comes.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import redis

from soulsgui.config.sections.run import LEAST_TO_CONFIRM, MOST_TO_CONFIRM
from soulsgui.wire.keys import EVALUATOR, TELEMETRY, is_own_name
from soulsgui.wire.messages.heartbeat import GreedyPlay
from soulsgui.wire.messages.node import NodeState
from soulsgui.wire.messages.session import GreedyOrder

if TYPE_CHECKING:  # the evaluator uses `Schedule`, and does without torch
    from soulsgui.config.schema import Settings
    from soulsgui.training.attempt import Attempt
    from soulsgui.training.intake.sessions import Session
    from soulsgui.training.publisher import TrainingPosition

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 0.5
_LONGEST_GAP_S = 2.0  # a longer time between two looks was a pause of the run, or an absence of the server
BEGIN_WITHIN_S = 5.0
"""A client that has not begun by then did not get the weights before newer ones came, or will not play."""
STILL_FOR_S = 60.0
"""A client that has begun makes a step in this time, or in `client.hang_seconds` where that is longer."""
_INVITED_PLAYERS = 3
_TIMES_AS_LONG = 10
"""What the slowest of several who have played took, as often and a little longer the last one may take."""
EPISODE_WITHIN_S = 3600.0
"""Longest time for an episode: an environment may have no limit of its own, and a policy never lose."""


class Schedule:
    """When an evaluation is due: at the first new weights on or behind each multiple of `every` updates."""

    def __init__(self, every: int) -> None:
        self.every = every
        self._seen: tuple[int, int] | None = None

    def due(self, attempt: int, update: int) -> bool:
        """Whether weights are to be evaluated; those for which it is said count as evaluated."""
        before, self._seen = self._seen, (attempt, update)
        if before is None or before[0] != attempt:
            return False
        return update // self.every > before[1] // self.every


def next_in_turn(clients: Mapping[str, Session], last: str) -> list[Session]:
    """Return the sessions that are asked after that of `last`: an own one, or several of invited clients."""
    behind = sorted(clients, key=lambda client: (client <= last, client))
    own = [client for client in behind if is_own_name(client)]
    return [clients[client] for client in (own[:1] or behind[:_INVITED_PLAYERS])]


class Moving:
    """Whether an evaluation that has begun gets on: its client may beat for ever without playing it. Pure.

    Time is counted in looks: what passes without any (a pause, an absence of the server) is nobody's fault.
    """

    def __init__(self, count: int, still_for_s: float) -> None:
        self._count = count
        self._still_for_s = still_for_s
        self._played = self._steps = -1
        self._without_step_s = self._without_episode_s = 0.0
        self.seconds = 0.0  # of all looks

    def stuck(self, play: GreedyPlay, passed_s: float) -> str:
        """Return why nothing more is to be expected, empty while something is."""
        self.seconds += passed_s
        self._without_step_s += passed_s
        self._without_episode_s += passed_s
        played = min(play.played, self._count)
        if played > self._played:
            self._without_step_s = self._without_episode_s = 0.0
        elif play.steps > self._steps and played < self._count:
            self._without_step_s = 0.0
        self._played, self._steps = max(self._played, played), max(self._steps, play.steps)
        if self._without_step_s >= self._still_for_s:
            done = "its episodes did not come" if played == self._count else "it made no step"
            return f"{done} for {self._still_for_s:.0f} s"
        if self._without_episode_s >= EPISODE_WITHIN_S:
            return f"no episode ended for {EPISODE_WITHIN_S / 60:.0f} minutes"
        return ""


@dataclass(frozen=True)
class _Open:
    """An evaluation that clients were asked for (monotonic seconds)."""

    players: dict[str, tuple[Session, Moving]]
    order: GreedyOrder
    since: float
    asked: dict[str, int]  # episodes that somebody wants, by the id of the command


class ClientEvaluations:
    """Asks clients for evaluations as long as the evaluator of the run says that it can't play."""

    def __init__(self, attempt: Attempt, update: int) -> None:
        settings = attempt.run.settings
        # In lockstep each client plays exactly its share.
        self._in_step = settings.determinism == "lockstep"
        self._every = 0 if self._in_step else settings.evaluates_every
        # None: the evaluator can play, or no client is there of whom it is known.
        self.asks: bool | None = None if self._every else False
        self._count = settings.evaluation.episodes
        self._goal = settings.stop.mean_return
        self._judges = settings.stop.judged_by == "evaluation"
        self._still_for_s = max(STILL_FOR_S, settings.client.hang_seconds)
        self._run_id, self._attempt_number = attempt.run.folder.run_id, attempt.run.attempt
        self._keys = [attempt.keys.node(name) for name in (EVALUATOR, TELEMETRY)]
        self._intake, self._publisher = attempt.intake, attempt.publisher
        self._schedule = Schedule(max(self._every, 1))
        self._schedule.due(self._attempt_number, update)
        self._wanted = False
        self._asked: dict[str, int] = {}  # as `_Open.asked`, before it is open
        self._to_confirm: int | None = None
        self._confirmed: int | None = None
        self._open: _Open | None = None
        self._asked_last = ""
        self._failed: set[str] = set()  # who did not play to the end: asked again when there are no others
        self._counted = -1  # weights of the last evaluation that telemetry has counted
        self._next_look = self._looked_at = 0.0

    def configure(self, settings: Settings) -> None:
        """Ask as often, and for as many episodes, as live settings say now."""
        self._every = 0 if self._in_step else settings.evaluates_every
        self._schedule.every, self._count = max(self._every, 1), settings.evaluation.episodes

    def ask(self, command_id: str, episodes: int) -> None:
        """Ask with the next weights; `ValueError` says why nobody can be asked."""
        if self._in_step:
            raise ValueError("in lockstep clients play exactly their share")
        if not self._every:
            raise ValueError("clients are asked where evaluation.every_updates is not 0")
        if not self.asks:
            raise ValueError("no client that could play is there")
        self._asked[command_id] = episodes

    def publishing(self, position: TrainingPosition, now: float) -> None:
        """Ask with the weights that are about to be published, when an evaluation is due."""
        if not self._every:
            return
        confirms = None if self._to_confirm == self._confirmed else self._to_confirm
        self._wanted |= self._schedule.due(self._attempt_number, position.update) or confirms is not None
        if not ((self._wanted or self._asked) and self.asks and self._open is None):
            return
        players = self._players(self._known())
        others = {client: one for client, one in players.items() if client not in self._failed}
        if len(others) < min(len(players), 2):
            others = others or players  # one alone where the others fail: all are asked again next time
            self._failed.clear()
        asked = next_in_turn(others, self._asked_last)
        if not asked:
            return
        count = max(self._asked.values(), default=self._count)
        least = count if confirms is None else max(count, LEAST_TO_CONFIRM)
        goal = self._goal if self._judges or confirms is not None else None
        order = GreedyOrder(
            model_id=position.model_id,
            count=least if goal is None else max(least, MOST_TO_CONFIRM),
            attempt=self._attempt_number,
            update=position.update,
            env_steps=position.env_steps,
            episodes=position.episodes,
            confirms=confirms,
            goal=goal,
            least=least,
            players=len(asked),
            asked=list(self._asked),
        )
        names = ", ".join(session.client for session in asked)
        logger.info("asks %s for up to %d greedy episodes of model %d", names, order.count, order.model_id)
        for session in asked:
            session.greedy = order
        playing = {session.client: (session, Moving(order.count, self._still_for_s)) for session in asked}
        self._open = _Open(playing, order, now, self._asked)
        self._wanted, self._asked, self._asked_last = False, {}, asked[-1].client
        self._hold()

    def look(self, connection: redis.Redis, now: float) -> None:
        """Now and then: whether to ask at all, and what became of the evaluation that is open."""
        if not self._every or now < self._next_look:
            return
        self._next_look = now + LOOK_EVERY_S
        passed_s, self._looked_at = min(now - self._looked_at, _LONGEST_GAP_S), now
        told = cast("list[bytes | None]", connection.mget(self._keys))
        evaluator, telemetry = (NodeState.of_run(data, self._run_id) for data in told)
        verdict = None if telemetry is None else telemetry.verdict
        self._to_confirm = None if verdict is None else verdict.to_confirm
        absent = evaluator is not None and evaluator.phase == "frozen"
        known = self._known() if absent else {}
        players = self._players(known)
        self.asks = bool(players) if known else None
        if self._open is None:
            return
        if telemetry is not None and telemetry.evaluated == self._open.order.model_id:
            self._counted, self._confirmed = telemetry.evaluated, self._open.order.confirms
            self._end(connection, self._open)
            return
        played = {} if telemetry is None else telemetry.played
        if given_up := self._given_up(self._open, players, played, now, passed_s):
            for client, why in given_up.items():
                model_id = self._open.order.model_id
                logger.info("%s does not play model %d to its end: %s", client, model_id, why)
            self._failed |= given_up.keys()
            self._wanted, self._asked = True, self._open.asked | self._asked
            self._end(connection, self._open)

    def _known(self) -> dict[str, Session]:
        """Return the sessions that take part and have told of themselves."""
        beats = self._intake.roster.beats
        return {
            client: session
            for client, session in self._intake.eligible().items()
            if client in beats and beats[client].session == session.id
        }

    def _players(self, known: Mapping[str, Session]) -> dict[str, Session]:
        """Return those who know of evaluations; clients of earlier versions, and loops by hand, do not."""
        beats = self._intake.roster.beats
        return {client: one for client, one in known.items() if beats[client].greedy is not None}

    def _given_up(
        self,
        asked: _Open,
        players: Mapping[str, Session],
        played: Mapping[str, int],
        now: float,
        passed_s: float,
    ) -> dict[str, str]:
        """Return of whom nothing more is to be expected, and why; empty while something is of all.

        `played` is what telemetry has: who only says that it has played is not done.
        """
        beats, order, found = self._intake.roster.beats, asked.order, {}
        times = [
            moving.seconds
            for client, (_, moving) in asked.players.items()
            if played.get(client) == order.model_id
        ]
        latest_s = _TIMES_AS_LONG * max(times) + self._still_for_s if len(times) > 1 else math.inf
        for client, (session, moving) in asked.players.items():
            if played.get(client) == order.model_id:
                continue  # it waits for the others
            if players.get(client) is not session:
                there = self._intake.sessions.by_client.get(client) is session
                found[client] = self._intake.why_absent(client) or ("it can't" if there else "it restarted")
            elif (play := beats[client].greedy or GreedyPlay(model_id=-1)).model_id != order.model_id:
                found[client] = "" if now < asked.since + BEGIN_WITHIN_S else "it has not begun"
            else:
                found[client] = moving.stuck(play, passed_s)
                if moving.seconds >= latest_s:
                    found[client] = found[client] or "the others have long been done"
        return {client: why for client, why in found.items() if why}

    def _end(self, connection: redis.Redis, asked: _Open) -> None:
        self._open = None
        self._hold()
        grants = {}
        for client, (session, _) in asked.players.items():
            session.greedy = None
            if self._intake.sessions.by_client.get(client) is session:
                grants[client] = self._intake.sessions.grant(session)
        if grants:
            self._publisher.tell_all(connection, grants)

    def _hold(self) -> None:
        held = {self._counted} if self._open is None else {self._counted, self._open.order.model_id}
        self._publisher.hold(held)
