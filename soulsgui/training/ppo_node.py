"""Synchronous PPO: collect a round with the present weights from all clients, update, publish, repeat."""

import logging
import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.buffers.rollout import RolloutBatch
from soulsgui.training.checks import check_segments, select
from soulsgui.training.node import TrainingNode
from soulsgui.training.rounds import Round
from soulsgui.training.sessions import Session
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Reason, Segments
from soulsgui.wire.messages.server_config import ON_POLICY
from soulsgui.wire.messages.session import RoundShare

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Delivery:
    """Accepted segments of one chunk."""

    client: str
    segments: Segments


class PPOTrainingNode(TrainingNode):
    """Trains a `PPOAgent` in rounds.

    A round id is the id of the weights it is played with. A round closes when every member has delivered
    its share, or without those who did not within `ppo.round_timeout`. See `TrainingNode` for the arguments.
    """

    family = ON_POLICY

    def _make_agent(self) -> None:
        self._agent = PPOAgent(self.spaces, self.settings, self.settings.seed)
        self._round: Round | None = None
        self._deliveries: list[Delivery] = []
        self._round_began = 0.0
        self._rounds_trained = 0

    @property
    def agent(self) -> PPOAgent:
        """The learner."""
        return self._agent

    # --- samples -----------------------------------------------------------------------------------

    def _use(self, session: Session, segments: Segments) -> tuple[int, dict[str, int]]:
        now = self._round
        if now is None or session.client not in now.members:
            return 0, {Reason.LATE.value: segments.count}
        newest = self.model_id
        checked = check_segments(
            segments, self.spaces, self._publisher.digests, newest, newest, session.num_envs
        )
        refused = dict(checked.refused)
        accepted = checked.accepted & self._within_quota(now, session.client, segments, checked.accepted)
        surplus = int(np.count_nonzero(checked.accepted & ~accepted))
        if surplus:
            refused[Reason.NOT_ADMITTED.value] = surplus
        of_this_round = segments.model_id_first == newest
        now.deliver(session.client, int(segments.length[of_this_round].sum()))
        if accepted.any():
            self._deliveries.append(Delivery(session.client, select(segments, accepted)))
        return int(np.count_nonzero(accepted)), refused

    def _within_quota(self, now: Round, client: str, segments: Segments, accepted: Any) -> Any:
        """Return which segments fit into what the member still owes."""
        member = now.members[client]
        steps = np.cumsum(np.where(accepted, segments.length, 0))
        return steps <= member.quota - member.delivered

    def _client_dropped_out(self, client: str, reason: str) -> None:
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
        self._deliveries = []
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
        clients = len({delivery.client for delivery in self._deliveries})
        if self._deliveries:
            self._update(collect_s, clients)
        else:
            logger.warning("round %d is empty: the same weights go out again", self._round.round_id)
        self._round = None
        self.model_id += 1
        self._prepare_weights()
        every = self.settings.checkpoint.every_updates
        if self._deliveries and self.agent.updates % every == 0:
            self._desk.save_current()
        self._deliveries = []
        self._begin_round()

    def _update(self, collect_s: float, clients: int) -> None:
        self.phase = "updating"
        batch = make_batch(self._deliveries)
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


def make_batch(deliveries: list[Delivery]) -> RolloutBatch:
    """Return the segments of a round in an order that does not depend on when they arrived.

    Args:
        deliveries: At least one chunk's segments; ordered by client, environment, episode and step here.
    """
    keys = []
    for source, delivery in enumerate(deliveries):
        part = delivery.segments
        starts = np.concatenate([[0], np.cumsum(part.length)])
        for index in range(part.count):
            order = (
                delivery.client,
                int(part.env_index[index]),
                int(part.episode[index]),
                int(part.first_step[index]),
            )
            keys.append((order, source, index, int(starts[index]), int(part.length[index])))
    keys.sort()

    def steps(column: str) -> Any:
        return np.concatenate(
            [
                getattr(deliveries[source].segments, column)[start : start + n]
                for _, source, _, start, n in keys
            ]
        )

    flags = np.array([deliveries[source].segments.flags[index] for _, source, index, _, _ in keys])
    return RolloutBatch(
        obs=np.concatenate(
            [
                deliveries[source].segments.obs[start + index : start + index + n + 1]
                for _, source, index, start, n in keys
            ]
        ),
        lengths=np.array([n for *_, n in keys], np.int64),
        action=steps("action"),
        log_prob=steps("log_prob"),
        reward=steps("reward"),
        terminated=(flags & TERMINATED) > 0,
        truncated=(flags & TRUNCATED) > 0,
    )
