"""Synchronous PPO: collect a round with the present weights from all clients, update, publish, repeat."""

import logging
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.config.schema import Settings
from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.errors import counted
from soulsgui.experience.segments import Ints
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.buffers.rollout import RolloutStore
from soulsgui.training.agents import make_agent
from soulsgui.training.attempt import BLOCK_MS, Attempt, TrainingRun
from soulsgui.training.compiling import Compiling
from soulsgui.training.intake.checks import CODES, GOOD, Codes, check_segments
from soulsgui.training.intake.chunks import Accepted, Owned, Steps
from soulsgui.training.intake.sessions import NEW_SESSION, REFUSED, Session
from soulsgui.training.learners.membership import BY_A_PERSON, Round, Speeds, balanced_quotas, named
from soulsgui.training.status import Stopwatch
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.server_config import ON_POLICY
from soulsgui.wire.messages.session import RoundShare

logger = logging.getLogger(__name__)

_LONGEST_TURN_S = 1.0  # a turn that took longer was not spent on collecting: this process was held up

_SHARE_BYTES = 2**28
_STEP_BYTES = 32  # action, reward, log-probability and their like of one step, about


def most_envs(n_steps: int, observation_bytes: int) -> int:
    """Return how many environments a client may have for its share of a round to be held in memory."""
    return max(1, min(_SHARE_BYTES // (n_steps * (observation_bytes + _STEP_BYTES)), MAX_NUM_ENVS))


class RoundLearner:
    """Trains a `PPOAgent` in rounds.

    A round id is the id of the weights it is played with. A round closes when every member has delivered
    its share; what becomes of it when one is lost, `ppo.lost_member` says.
    """

    family = ON_POLICY
    remembered_ids = 1
    attempt: Attempt

    def __init__(self, run: TrainingRun) -> None:
        self.run, self.status = run, run.status
        self.agent: PPOAgent = make_agent("ppo", run.settings, run.spaces, run.device)
        self.agent.after_step = run.status.alive
        # On the CPU the curve of a seed is the same to the bit; not with a change at some time or other.
        self._compiling = Compiling(run, self.agent.compiled_loss, exact=run.device == "cpu", window=2)
        self.round: Round | None = None
        self._expected: set[str] = set()  # the members of the newest round
        self._untold: set[str] = set()  # clients whose share has grown, or is not theirs any more
        self.speeds = Speeds()
        self.store = RolloutStore()
        self._numbers: dict[str, int] = {}  # of the clients that have delivered
        self._round_began = 0.0
        self._rounds_trained = 0
        self._first_client_at: float | None = None

    def begin(self, attempt: Attempt) -> None:
        """Use an attempt's server and clients; each client's share of a round is to fit into memory."""
        self.attempt = attempt
        obs = self.run.spaces.observation
        size = int(np.prod(obs.shape)) * np.dtype(obs.dtype).itemsize
        attempt.intake.sessions.most_envs = most_envs(self.run.settings.ppo.n_steps, size)

    def configure(self, settings: Settings) -> None:
        """Learn by other values of live settings from the update of this round on."""
        self.agent.settings = settings

    def finish(self) -> None:
        """Every round was told of."""

    def close(self, keep_memory: bool) -> None:
        """Compile nothing any more."""
        self._compiling.close()

    def weights(self, published: bool = True) -> dict[str, NDArray[Any]]:
        """Return the agent's weights."""
        return self.agent.export_weights()

    def state(self, with_memory: bool) -> tuple[dict[str, float], Mapping[str, NDArray[Any]]]:
        """Nothing but the agent is saved."""
        return {}, {}

    def load(self, pacing: Mapping[str, float], memory: Mapping[str, NDArray[Any]]) -> None:
        """Nothing but the agent is saved."""

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of the present weights from members of the round, as `chunks.SampleSink`."""
        newest, members = self.run.model_id, self.round.members if self.round is not None else {}
        digests = self.attempt.publisher.digests
        codes = check_segments(owned.segments, self.run.spaces, digests, newest, newest, owned.num_envs)
        is_member = np.array([session.client in members for session in owned.sessions], np.bool_)
        codes[~np.repeat(is_member, owned.counts)] = CODES[Reason.LATE]
        return codes

    def wants(self, session: Session) -> float:
        """Return what the member still owes, as `chunks.SampleSink`."""
        member = self.round.members.get(session.client) if self.round is not None else None
        return 0 if member is None else member.quota - member.delivered

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let in of a chunk what fits into what the member still owes, as `chunks.SampleSink`."""
        member = self.round.members.get(session.client) if self.round is not None else None
        if self.round is None or member is None:
            return
        good = codes == GOOD
        fits = np.cumsum(np.where(good, lengths, 0)) <= member.quota - member.delivered
        codes[good & ~fits] = CODES[Reason.NOT_ADMITTED]
        self.round.deliver(session.client, int(lengths[model_ids == self.run.model_id].sum()))

    def insert(self, accepted: Accepted) -> None:
        """Keep samples for the update at the end of the round, as `chunks.SampleSink`."""
        numbers = np.array([self._numbers.setdefault(name, len(self._numbers)) for name in accepted.names])
        self.store.add(accepted.segments, numbers[accepted.clients])
        self.status.staleness.accept(np.zeros(accepted.segments.count, np.int64), accepted.segments.length)

    def evaluate(self, command_id: str, episodes: int) -> None:
        """Refuse: clients that play a round together play nothing beside it."""
        raise ValueError("clients that play in rounds are not asked for evaluations")

    def forget(self, client: str) -> int:
        """Nothing is remembered beyond a round."""
        return 0

    def lost(self, client: str, reason: str) -> None:
        """Treat a member that won't deliver the rest by the round's policy, as `chunks.SampleSink`."""
        now = self.round
        if now is None or client not in now.members:
            return
        if reason == REFUSED:
            if (member := now.ask_again(client)) is not None:
                if member.refused_chunks == 1:
                    told = "%s %s: it is asked for the rest of round %d again"
                    logger.warning(told, client, REFUSED, now.round_id)
                self._set_share(client, member.share)
                self._untold.add(client)
            return
        session = self.attempt.intake.sessions.by_client.get(client)
        if reason == NEW_SESSION and session is not None and session.status == "accepted":
            member = now.begin_session(client, session.num_envs)
            if member is not None:
                self._set_share(client, member.share)
                return
        self._lose(now, {client: reason})

    def _lose(self, now: Round, reasons: dict[str, str]) -> None:
        members, absent = set(now.members), set(now.absent)
        there = self.attempt.intake.eligible()
        others = {client: there[client].num_envs for client in members - set(reasons) if client in there}
        grown = now.lose(reasons, self.speeds.of(others))
        for client in grown:
            self._set_share(client, now.members[client].share)
        lost = members - set(now.members)
        self._untold |= lost.union(grown)
        for client in lost:
            self._set_share(client, None)
            logger.warning("%s is out of round %d: %s", client, now.round_id, now.left_out[client])
        for client in set(now.absent) - absent:
            logger.warning("round %d waits for %s: %s", now.round_id, client, now.absent[client])
        self._stop_for(now.stopped)

    def _set_share(self, client: str, steps: int | None) -> None:
        session, now = self.attempt.intake.sessions.by_client.get(client), self.round
        if session is not None and now is not None:
            session.round = None if steps is None else RoundShare(round_id=now.round_id, steps=steps)

    def _stop_for(self, reason: str) -> None:
        if reason and not self.status.stop_reason:
            self.status.stop_reason = f"{reason} (ppo.lost_member: stop)"
            logger.warning("the run is to be stopped: %s", self.status.stop_reason)

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Count what is refused as late, as `chunks.SampleSink`."""
        self.attempt.refused_late(self.agent.updates, model_ids, lengths)

    def read(self, connection: redis.Redis) -> None:
        """Take what came, and wait a little for the first of it."""
        self.attempt.intake.take(connection, BLOCK_MS)
        if self.attempt.intake.reader.idle:
            self.attempt.stop.wait(BLOCK_MS / 1000)

    def update(self, seconds: float) -> None:
        """Begin, go on with, or close a round; publish what was not sent."""
        if self.round is None:
            self._begin_round()
        elif self.attempt.unpublished:
            self.attempt.publish(self.attempt.intake.sessions.grants())
        else:
            self._go_on(self.round, seconds)
        status = self.status
        if status.stop_reason:
            status.phase, status.detail, status.trouble = "waiting", status.stop_reason, ""

    def _go_on(self, now: Round, seconds: float) -> None:
        """Look after the present round; first tell clients that their share has grown, or is nobody's now."""
        if self._untold:
            sessions = self.attempt.intake.sessions
            there = (sessions.by_client[name] for name in self._untold if name in sessions.by_client)
            grants = {session.client: sessions.grant(session) for session in there}
            self.attempt.publisher.tell_all(self.attempt.link.redis, grants)
            self._untold.clear()
        for client in [name for name in now.absent if not self.attempt.intake.why_absent(name)]:
            now.returned(client)
        # While nobody is granted anything more, nobody is late.
        late = now.pass_time(0.0 if self.attempt.intake.sessions.held else min(seconds, _LONGEST_TURN_S))
        if late:
            self._lose(now, late)
        if now.complete and not self.status.stop_reason:
            self._close_round(now)
        elif not self.status.stop_reason:
            self.status.phase, self.status.detail = "waiting" if now.at_rest else "collecting", now.waits_for
            self.status.trouble = f"The round is {now.waits_for}" if now.absent else ""

    def _begin_round(self) -> None:
        """Begin a round with whoever is there, when they are enough; until then publish and wait."""
        goal = self.run.settings.stop.env_steps
        self.status.stop_reached = goal is not None and self.run.env_steps >= goal
        members = self.attempt.intake.eligible()
        obstacle = "its steps are made" if self.status.stop_reached else self._obstacle(members)
        self.status.waits["learner"].set(not self.status.stop_reached, time.monotonic())
        if obstacle or self.status.stop_reason:
            self.status.phase, self.status.detail = "waiting", obstacle
            if self.attempt.unpublished:
                self.attempt.publish(self.attempt.intake.sessions.grants())
            return
        ppo = self.run.settings.ppo
        num_envs = {client: session.num_envs for client, session in members.items()}
        self.speeds.forget_all_but(self.attempt.intake.sessions.by_client)
        quotas = None
        if ppo.balance:
            quotas = balanced_quotas(ppo.n_steps, num_envs, self.speeds.of(num_envs))
        self.round = now = Round.begin(
            self.run.model_id, ppo.n_steps, ppo.round_timeout, num_envs, ppo.lost_member, quotas
        )
        self.store.begin(sum(member.quota for member in now.members.values()))
        self._numbers, self._expected, self._untold = {}, set(members), set()
        for client in self.attempt.intake.sessions.by_client:
            self._set_share(client, now.members[client].share if client in now.members else None)
        self.status.phase, self.status.detail = "collecting", ""
        self._round_began = time.perf_counter()
        self.attempt.unpublished = True  # until it has succeeded: the grants go out with the weights
        self.attempt.publish(self.attempt.intake.sessions.grants())

    def _obstacle(self, members: Mapping[str, Session]) -> str:
        """Return why no round can begin with these members, in words; empty when one can."""
        missed = {}
        if self.run.settings.ppo.lost_member in ("wait", "stop"):
            reasons = {
                client: self.attempt.intake.why_absent(client) for client in self._expected - set(members)
            }
            missed = {client: reason for client, reason in reasons.items() if reason not in BY_A_PERSON}
        waits = bool(missed) and self.run.settings.ppo.lost_member == "wait"
        # Whole at once: another thread tells it.
        self.status.trouble = f"The next round is waiting for {named(missed)}" if waits else ""
        if waits:
            return f"waiting for {named(missed)}"
        if missed:
            self._stop_for(f"The next round lost {named(missed)}")
        if members and self._first_client_at is None:
            self._first_client_at = time.monotonic()
        needed = self._needed()
        return f"{len(members)} of {needed} clients are ready" if len(members) < needed else ""

    def _needed(self) -> int:
        """Return how many clients the next round needs: the first of an attempt more than later ones."""
        ppo = self.run.settings.ppo
        if self._rounds_trained:
            return 1
        # Local clients may have been taken away since the run began: nobody is waited for without an end
        # where a member that is lost in a round is not, either.
        patient = ppo.lost_member in ("wait", "stop") or self.run.settings.determinism == "lockstep"
        since = self._first_client_at
        late = since is not None and time.monotonic() - since > ppo.round_timeout
        return ppo.n_clients or (1 if late and not patient else max(self.run.settings.clients.local, 1))

    def _close_round(self, now: Round) -> None:
        """Train on the round, or, when nobody delivered, send the same weights out under a new id."""
        collect_s = time.perf_counter() - self._round_began
        self.status.detail, self.status.trouble = "", ""
        for client, member in now.members.items():
            if member.speed is not None:
                self.speeds.note(client, member.speed, member.unit)
        moment = time.monotonic()
        self.status.waits["learner"].set(False, moment)
        self.status.waits["clients"].set(True, moment)
        delivered = self.store.steps > 0
        clients = len(self.store.clients)
        if delivered:
            self._update(collect_s, clients)
        else:
            logger.warning("round %d is empty: the same weights go out again", now.round_id)
        self.round = None
        self.run.model_id += 1
        self.attempt.prepare(self.agent, self.weights())
        every = self.run.settings.checkpoint.every_updates
        if delivered and self.agent.updates % every == 0:
            self.attempt.checkpoints.save_current()
        self.status.waits["clients"].set(False, time.monotonic())
        self._begin_round()

    def _update(self, collect_s: float, clients: int) -> None:
        self.status.phase = "updating"
        batch = self.store.batch(list(self._numbers))
        moment = self.run.moment
        self.run.count(batch)
        goal = self.run.settings.stop.env_steps
        expected = (goal - self.run.env_steps) / batch.steps if goal else float("inf")
        with Stopwatch(self.status.timings["update"]), self._compiling.update(expected):
            values = self.agent.update(batch, moment)
        self._rounds_trained += 1
        update_s, now = self.status.timings["update"].last_s, time.monotonic()
        logger.info(
            "update %d: %d steps by %s, collected in %.3f s, trained in %.3f s",
            self.agent.updates, batch.steps, counted(clients, "client"), collect_s, update_s,
        )  # fmt: skip
        values |= {
            "collect_s": collect_s,
            "update_s": update_s,
            "learner_wait_s": self.status.waits["learner"].take(now),
            "ingest_wait_s": self.status.waits["clients"].take(now),
            "clients": float(clients),
            "round_steps": float(batch.steps),
            "env_steps_per_s": batch.steps / (collect_s + update_s),
        }
        self.attempt.tell_update(self.agent.updates, self.agent.updates - 1, values)
