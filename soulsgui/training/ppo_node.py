"""Synchronous PPO: collect a round with the present weights from all clients, update, publish, repeat."""

import logging
import time

import numpy as np

from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.buffers.collecting import CollectedSegments, RolloutStore
from soulsgui.training.batch import Accepted, Ints, Owned, Steps
from soulsgui.training.checks import CODES, GOOD, Codes, check_segments
from soulsgui.training.node import TrainingNode
from soulsgui.training.rounds import Round
from soulsgui.training.sessions import Session
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Reason
from soulsgui.wire.messages.server_config import ON_POLICY
from soulsgui.wire.messages.session import RoundShare

logger = logging.getLogger(__name__)


class PPOTrainingNode(TrainingNode):
    """Trains a `PPOAgent` in rounds.

    A round id is the id of the weights it is played with. A round closes when every member has delivered
    its share, or without those who did not within `ppo.round_timeout`. See `TrainingNode` for the arguments.
    """

    family = ON_POLICY

    def _make_agent(self) -> None:
        self._agent = PPOAgent(self.spaces, self.settings, self.settings.seed)
        self._round: Round | None = None
        self._store = RolloutStore(self.spaces.observation)
        self._numbers: dict[str, int] = {}  # of the clients that have delivered
        self._round_began = 0.0
        self._rounds_trained = 0

    @property
    def agent(self) -> PPOAgent:
        """The learner."""
        return self._agent

    # --- samples -----------------------------------------------------------------------------------

    def judge(self, owned: Owned) -> Codes:
        """Accept samples of the present weights from members of the round, as `batch.Taker`."""
        newest, members = self.model_id, self._round.members if self._round is not None else {}
        digests = self._publisher.digests
        codes = check_segments(owned.segments, self.spaces, digests, newest, newest, owned.num_envs).codes
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
        segments = accepted.segments
        numbers = np.array([self._numbers.setdefault(name, len(self._numbers)) for name in accepted.names])
        self._store.add(
            CollectedSegments(
                client=numbers[accepted.clients],
                env_index=segments.env_index,
                episode=segments.episode,
                first_step=segments.first_step,
                lengths=segments.length,
                terminated=(segments.flags & TERMINATED) > 0,
                truncated=(segments.flags & TRUNCATED) > 0,
                obs=segments.obs,
                action=segments.action,
                log_prob=segments.log_prob,
                reward=segments.reward,
            )
        )

    def dropped_out(self, client: str, reason: str) -> None:
        """Wait for this client no longer; what it has delivered counts."""
        self._forget_share(client)
        if self._round is not None and client in self._round.members:
            self._round.leave(client, reason)
            if client in self._round.left_out:
                logger.warning("%s is out of round %d: %s", client, self._round.round_id, reason)

    def _forget_share(self, client: str) -> None:
        session = self._intake.sessions.by_client.get(client)
        if session is not None:
            session.round = None

    # --- rounds ------------------------------------------------------------------------------------

    def _advance(self, seconds: float) -> None:
        if self._round is None:
            self._begin_round()
        elif self._unpublished:
            self._publish()
        else:
            for client in self._round.pass_time(seconds):
                self._forget_share(client)
                logger.warning(
                    "%s is left out of round %d: %s",
                    client,
                    self._round.round_id,
                    self._round.left_out[client],
                )
            self.detail = self._round.waits_for
            if self._round.complete:
                self._close_round()

    def _begin_round(self) -> None:
        """Begin a round with whoever is there, when they are enough; until then publish and wait."""
        goal = self.settings.stop.env_steps
        self.goal_reached = goal is not None and self.env_steps >= goal
        members = self._intake.eligible()
        needed = self._needed()
        if self.goal_reached or len(members) < needed:
            self.phase = "waiting"
            self.detail = "goal reached" if self.goal_reached else f"{len(members)} of {needed} clients"
            if self._unpublished:
                self._publish()
            return
        ppo = self.settings.ppo
        num_envs = {client: session.num_envs for client, session in members.items()}
        self._round = Round.begin(self.model_id, ppo.n_steps, ppo.round_timeout, num_envs)
        self._store.begin(sum(member.quota for member in self._round.members.values()))
        self._numbers = {}
        for client, session in self._intake.sessions.by_client.items():
            session.round = (
                RoundShare(round_id=self.model_id, steps_per_env=ppo.n_steps) if client in members else None
            )
        self.phase, self.detail = "collecting", ""
        self._round_began = time.perf_counter()
        self._unpublished = True  # until it has succeeded: the grants go out with the weights
        self._publish()

    def _needed(self) -> int:
        """Return how many clients the next round needs: the first of an attempt more than later ones."""
        if self._rounds_trained:
            return 1
        return max(self.settings.ppo.n_clients or self.settings.clients.local, 1)

    def _close_round(self) -> None:
        """Train on the round, or, when nobody delivered, send the same weights out under a new id."""
        assert self._round is not None
        collect_s = time.perf_counter() - self._round_began
        delivered = self._store.steps > 0
        clients = len(self._store.clients)
        if delivered:
            self._update(collect_s, clients)
        else:
            logger.warning("round %d is empty: the same weights go out again", self._round.round_id)
        self._round = None
        self.model_id += 1
        self._prepare_weights()
        every = self.settings.checkpoint.every_updates
        if delivered and self.agent.updates % every == 0:
            self._desk.save_current()
        self._begin_round()

    def _update(self, collect_s: float, clients: int) -> None:
        self.phase = "updating"
        batch = self._store.batch(list(self._numbers))
        goal = self.settings.stop.env_steps
        progress = min(self.env_steps / goal, 1.0) if goal else 0.0
        # Before the update: the reporting thread never tells of an update without its steps.
        self.env_steps += batch.steps
        self.episodes += int(np.count_nonzero(batch.terminated | batch.truncated))
        with self.monitor_timing(self._timings["update"]):
            values = self.agent.update(batch, progress)
        self._rounds_trained += 1
        update_s = self._timings["update"].last_s
        logger.info(
            "update %d: %d steps by %d client(s), collected in %.3f s, trained in %.3f s",
            self.agent.updates, batch.steps, clients, collect_s, update_s,
        )  # fmt: skip
        values |= {
            "collect_s": collect_s,
            "update_s": update_s,
            "clients": float(clients),
            "round_steps": float(batch.steps),
            "env_steps_per_s": batch.steps / (collect_s + update_s),
        }
        self._tell_update(self.agent.updates - 1, values)
