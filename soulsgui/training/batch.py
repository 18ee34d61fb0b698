"""The chunks of one read as a learner sees them: judged together, let in client by client, taken over."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from soulsgui.rl.buffers.collecting import CollectedSegments
from soulsgui.training.checks import Codes
from soulsgui.training.session import Session
from soulsgui.wire.messages.chunk import TERMINATED, TRUNCATED, Segments

Ints = NDArray[np.int64]
Steps = NDArray[np.int32]


@dataclass(frozen=True)
class Owned:
    """Segments of several clients, those of one after those of the other.

    Attributes:
        segments: `S` segments.
        sessions: Of whom they are.
        counts: How many of them are of each session.
    """

    segments: Segments
    sessions: Sequence[Session]
    counts: Ints

    @property
    def num_envs(self) -> Ints:
        """Environments that the client of each segment announced, `[S]`."""
        return np.repeat(np.array([one.num_envs for one in self.sessions], np.int64), self.counts)


@dataclass(frozen=True)
class Accepted:
    """What the learner takes over.

    Attributes:
        segments: `S` segments, those of one client after those of the other.
        clients: Client of each, as a position in `names`, `[S]`.
        names: The clients.
        chunks: In how many chunks they came.
        sessions: Id of the session of each of `names`.
    """

    segments: Segments
    clients: Ints
    names: Sequence[str]
    chunks: int
    sessions: Sequence[str]


def source_numbers(accepted: Accepted) -> Ints:
    """Number where segments come from, `[S]` int64: alike for one environment of one client's session.

    The numbers are the same in every process, so that a saved memory goes on with sessions that go on.
    """
    named = zip(accepted.names, accepted.sessions, strict=True)
    numbers = [_number_of(f"{client} {session}") for client, session in named]
    return np.array(numbers, np.int64)[accepted.clients] + accepted.segments.env_index


def _number_of(words: str) -> int:
    """Return 46 bits of words' hash, with 17 free ones for the environment (`heartbeat.MAX_ENVS`)."""
    return int.from_bytes(hashlib.blake2b(words.encode(), digest_size=8).digest(), "big") >> 18 << 17


def collected(accepted: Accepted, clients: Ints) -> CollectedSegments:
    """Return segments in the form in which they are collected for an actor and its critic.

    Args:
        accepted: `S` segments.
        clients: Number of the client of each, `[S]`.
    """
    segments = accepted.segments
    return CollectedSegments(
        client=clients,
        env_index=segments.env_index,
        episode=segments.episode,
        first_step=segments.first_step,
        lengths=segments.length,
        terminated=(segments.flags & TERMINATED) > 0,
        truncated=(segments.flags & TRUNCATED) > 0,
        obs=np.asarray(segments.obs),
        action=segments.action,
        log_prob=segments.log_prob,
        reward=segments.reward,
        action_mask=segments.action_mask,
        state=segments.state,
        source=source_numbers(accepted),
    )


class Taker(Protocol):
    """Who takes samples over: a learner's side of the intake."""

    def came_late(self, model_ids: Ints, lengths: Steps) -> None:
        """Take note of segments that are refused as late.

        Args:
            model_ids: Weights that chose the first action of each, `[S]`; whatever was sent.
            lengths: Steps of each, `[S]`.
        """
        ...

    def judge(self, owned: Owned) -> Codes:
        """Say of each segment whether it is good, and why not, as far as it does not depend on others."""
        ...

    def admit_all(self, session: Session, steps: int) -> bool:
        """Let chunks of good segments in; return False, having done nothing, when not all are wanted."""
        ...

    def admit(self, session: Session, lengths: Steps, model_ids: Ints, codes: Codes) -> None:
        """Let one chunk in.

        Args:
            session: Of whom it is.
            lengths: Steps of its segments, `[S]`.
            model_ids: Weights that chose the first action of each, `[S]`.
            codes: What was said of each, `[S]`; changed for those that are not wanted because of what came
                before.
        """
        ...

    def take_in(self, accepted: Accepted) -> None:
        """Take over what was let in."""
        ...

    def dropped_out(self, client: str, reason: str) -> None:
        """Take note that a client won't deliver what it was asked for."""
        ...
