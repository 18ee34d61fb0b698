"""Synchronous PPO: collect a round with the present weights from all clients, update, publish, repeat."""

import logging
import time
from collections.abc import Mapping

import numpy as np

from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.buffers.collecting import RolloutStore
from soulsgui.training.admission import most_envs
from soulsgui.training.agents import make_ppo
from soulsgui.training.batch import Accepted, Ints, Owned, Steps, collected
from soulsgui.training.checks import CODES, GOOD, Codes, check_segments
from soulsgui.training.compiling import Compiling
from soulsgui.training.node import TrainingNode
from soulsgui.training.quotas import Speeds, balanced_quotas
from soulsgui.training.rounds import BY_A_PERSON, NEW_SESSION, Round, named
from soulsgui.training.session import Session
from soulsgui.wire.messages.chunk import Reason
from soulsgui.wire.messages.server_config import ON_POLICY, state_of
from soulsgui.wire.messages.session import RoundShare

logger = logging.getLogger(__name__)

_LONGEST_TURN_S = 1.0
"""A turn that took longer was not spent on collecting: this process was held up."""


class PPOTrainingNode(TrainingNode):
    """Trains a `PPOAgent` in rounds.

    A round id is the id of the weights it is played with. A round closes when every member has delivered
    its share; what becomes of it when one is lost, `ppo.lost_member` says. See `TrainingNode` for the
    arguments.
    """

    family = ON_POLICY

    def _make_agent(self) -> None:
        self._agent = make_ppo(self.settings, self.spaces, self.device)
        self._agent.after_step = self._alive
        # On the CPU the curve of a seed is the same to the bit; not with a change at some time or other.
        exact = self.device == "cpu"
        wish, part = self.settings.learner.compiles, self._agent.compiled_loss
        self._compiling = Compiling(wish, part, exact, self.device, window=2)
        self._round: Round | None = None
        self._expected: set[str] = set()  # the members of the newest round
        self._untold: set[str] = set()  # members whose share has grown
        self._speeds = Speeds()
        self._store = RolloutStore(
            self.spaces.observation,
            self.spaces.masked_actions,
            state_of(self._agent.policy_spec()),
            self.spaces.action.shape,
            self.spaces.action.dtype,
        )
        self._numbers: dict[str, int] = {}  # of the clients that have delivered
        self._round_began = 0.0
        self._rounds_trained = 0

    @property
    def agent(self) -> PPOAgent:
        """The learner."""
        return self._agent

    def _begin_attempt(self) -> None:
        obs = self.spaces.observation
        size = int(np.prod(obs.shape)) * np.dtype(obs.dtype).itemsize
        self._intake.sessions.most_envs = most_envs(self.settings.ppo.n_steps, size)
        super()._begin_attempt()

    def _close(self) -> None:
        try:
            super()._close()
        finally:
            self._compiling.close()

    # --- samples -----------------------------------------------------------------------------------

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of the present weights from members of the round, as `batch.Taker`."""
        newest, members = self.model_id, self._round.members if self._round is not None else {}
        digests = self._publisher.digests
        codes = check_segments(owned.segments, self.spaces, digests, newest, newest, owned.num_envs)
        is_member = np.array([session.client in members for session in owned.sessions], np.bool_)
        codes[~np.repeat(is_member, owned.counts)] = CODES[Reason.LATE]
        return codes

    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks in that fit into what the member still owes, as `batch.Taker`."""
        member = self._round.members.get(session.client) if self._round is not None else None
        if self._round is None or member is None or member.delivered + steps > member.quota:
            return False
        self._round.deliver(session.client, steps)
        return True

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let in of a chunk what fits into what the member still owes, as `batch.Taker`."""
        member = self._round.members.get(session.client) if self._round is not None else None
        if self._round is None or member is None:
            return
        good = codes == GOOD
        fits = np.cumsum(np.where(good, lengths, 0)) <= member.quota - member.delivered
        codes[good & ~fits] = CODES[Reason.NOT_ADMITTED]
        self._round.deliver(session.client, int(lengths[model_ids == self.model_id].sum()))

    def take_in(self, accepted: Accepted) -> None:
        """Keep samples for the update at the end of the round, as `batch.Taker`."""
        numbers = np.array([self._numbers.setdefault(name, len(self._numbers)) for name in accepted.names])
        self._store.add(collected(accepted, numbers[accepted.clients]))
        self.staleness.accept(np.zeros(accepted.segments.count, np.int64), accepted.segments.length)

    def dropped_out(self, client: str, reason: str) -> None:
        """Treat a member that won't deliver the rest by the policy of the round, as `batch.Taker`."""
        now = self._round
        if now is None or client not in now.members:
            return
        session = self._intake.sessions.by_client.get(client)
        if reason == NEW_SESSION and session is not None and session.status == "accepted":
            member = now.begin_session(client, session.num_envs)
            if member is not None:
                self._set_share(client, member.share)
                return
        self._lose({client: reason})

    def _lose(self, reasons: dict[str, str]) -> None:
        """Treat members that won't deliver the rest, by the policy of the round."""
        now = self._round
        assert now is not None
        members, absent = set(now.members), set(now.absent)
        grown = now.lose(reasons, self._speeds_of(members - set(reasons)))
        for client in grown:
            self._set_share(client, now.members[client].share)
        self._untold |= set(grown)
        for client in members - set(now.members):
            self._set_share(client, None)
            logger.warning("%s is out of round %d: %s", client, now.round_id, now.left_out[client])
        for client in set(now.absent) - absent:
            logger.warning("round %d waits for %s: %s", now.round_id, client, now.absent[client])
        self._stop_for(now.stopped)

    def _set_share(self, client: str, steps: int | None) -> None:
        session, now = self._intake.sessions.by_client.get(client), self._round
        if session is not None and now is not None:
            session.round = None if steps is None else RoundShare(round_id=now.round_id, steps=steps)

    def _stop_for(self, reason: str) -> None:
        """Let the run be ended when there is a reason."""
        if reason and not self.stop_reason:
            self.stop_reason = f"{reason} (ppo.lost_member: stop)"
            logger.warning("the run is to be stopped: %s", self.stop_reason)

    def _speeds_of(self, clients: set[str]) -> dict[str, float]:
        """Return the steps per second of those clients that are there."""
        there = self._intake.eligible()
        return self._speeds.of({client: there[client].num_envs for client in clients & set(there)})

    # --- rounds ------------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        if self._round is None:
            self._begin_round()
        elif self._unpublished:
            self._publish()
        else:
            self._go_on(self._round, seconds)
        if self.stop_reason:
            self.phase, self.detail, self.trouble = "waiting", self.stop_reason, ""
            self.rest()

    def _go_on(self, now: Round, seconds: float) -> None:
        """Look after the present round."""
        self._tell_grown(now)
        for client in [name for name in now.absent if not self._intake.why_absent(name)]:
            now.returned(client)
        # While nobody is granted anything more, nobody is late.
        late = now.pass_time(0.0 if self._intake.sessions.held else min(seconds, _LONGEST_TURN_S))
        if late:
            self._lose(late)
        if now.complete and not self.stop_reason:
            self._close_round(now)
        elif not self.stop_reason:
            self.phase, self.detail = "waiting" if now.at_rest else "collecting", now.waits_for
            self.trouble = f"The round is {now.waits_for}" if now.absent else ""

    def _tell_grown(self, now: Round) -> None:
        """Tell members that their share has grown.

        Raises:
            redis.RedisError: The server is away; who was not told is told later.
        """
        for client in sorted(self._untold):
            session = self._intake.sessions.by_client.get(client)
            if session is not None and client in now.members:
                self._publisher.tell(self._link.redis, client, self._intake.sessions.grant(session))
            self._untold.discard(client)

    def _begin_round(self) -> None:
        """Begin a round with whoever is there, when they are enough; until then publish and wait."""
        goal = self.settings.stop.env_steps
        self.goal_reached = goal is not None and self.env_steps >= goal
        members = self._intake.eligible()
        obstacle = "goal reached" if self.goal_reached else self._obstacle(members)
        self._waits["learner"].set(not self.goal_reached, time.monotonic())
        if obstacle or self.stop_reason:
            self.phase, self.detail = "waiting", obstacle
            if self._unpublished:
                self._publish()
            return
        ppo = self.settings.ppo
        num_envs = {client: session.num_envs for client, session in members.items()}
        self._speeds.forget_all_but(self._intake.sessions.by_client)
        quotas = None
        if ppo.balance:
            quotas = balanced_quotas(ppo.n_steps, num_envs, self._speeds.of(num_envs))
        self._round = now = Round.begin(
            self.model_id, ppo.n_steps, ppo.round_timeout, num_envs, ppo.lost_member, quotas
        )
        self._store.begin(sum(member.quota for member in now.members.values()))
        self._numbers, self._expected, self._untold = {}, set(members), set()
        for client in self._intake.sessions.by_client:
            self._set_share(client, now.members[client].share if client in now.members else None)
        self.phase, self.detail = "collecting", ""
        self._round_began = time.perf_counter()
        self._unpublished = True  # until it has succeeded: the grants go out with the weights
        self._publish()

    def _obstacle(self, members: Mapping[str, Session]) -> str:
        """Return why no round can begin with these members, in words; empty when one can."""
        missed = {}
        if self.settings.ppo.lost_member in ("wait", "stop"):
            reasons = {client: self._intake.why_absent(client) for client in self._expected - set(members)}
            missed = {client: reason for client, reason in reasons.items() if reason not in BY_A_PERSON}
        waits = bool(missed) and self.settings.ppo.lost_member == "wait"
        # Whole at once: another thread tells it.
        self.trouble = f"The next round is waiting for {named(missed)}" if waits else ""
        if waits:
            return f"waiting for {named(missed)}"
        if missed:
            self._stop_for(f"The next round lost {named(missed)}")
        needed = self._needed()
        return f"{len(members)} of {needed} clients" if len(members) < needed else ""

    def _needed(self) -> int:
        """Return how many clients the next round needs: the first of an attempt more than later ones."""
        if self._rounds_trained:
            return 1
        return max(self.settings.ppo.n_clients or self.settings.clients.local, 1)

    def _close_round(self, now: Round) -> None:
        """Train on the round, or, when nobody delivered, send the same weights out under a new id."""
        collect_s = time.perf_counter() - self._round_began
        self.detail, self.trouble = "", ""
        self._note_speeds(now)
        moment = time.monotonic()
        self._waits["learner"].set(False, moment)
        self._waits["clients"].set(True, moment)
        delivered = self._store.steps > 0
        clients = len(self._store.clients)
        if delivered:
            self._update(collect_s, clients)
        else:
            logger.warning("round %d is empty: the same weights go out again", now.round_id)
        self._round = None
        self.model_id += 1
        self._prepare_weights()
        every = self.settings.checkpoint.every_updates
        if delivered and self.agent.updates % every == 0:
            self._desk.save_current()
        self._waits["clients"].set(False, time.monotonic())
        self._begin_round()

    def _note_speeds(self, now: Round) -> None:
        for client, member in now.members.items():
            if member.speed is not None:
                self._speeds.note(client, member.speed, member.unit)

    def _update(self, collect_s: float, clients: int) -> None:
        self.phase = "updating"
        batch = self._store.batch(list(self._numbers))
        moment = self.moment
        # Before the update: the reporting thread never tells of an update without its steps.
        self.env_steps += batch.steps
        self.episodes += int(np.count_nonzero(batch.terminated | batch.truncated))
        goal = self.settings.stop.env_steps
        expected = (goal - self.env_steps) / batch.steps if goal else float("inf")
        with self.monitor_timing(self._timings["update"]), self._compiling.update(expected):
            values = self.agent.update(batch, moment)
        self._rounds_trained += 1
        update_s, now = self._timings["update"].last_s, time.monotonic()
        logger.info(
            "update %d: %d steps by %d client(s), collected in %.3f s, trained in %.3f s",
            self.agent.updates, batch.steps, clients, collect_s, update_s,
        )  # fmt: skip
        values |= {
            "collect_s": collect_s,
            "update_s": update_s,
            "learner_wait_s": self._waits["learner"].take(now),
            "ingest_wait_s": self._waits["clients"].take(now),
            "clients": float(clients),
            "round_steps": float(batch.steps),
            "env_steps_per_s": batch.steps / (collect_s + update_s),
        }
        self._tell_update(self.agent.updates - 1, values)
