"""Segments whose numbers tell where they belong, and transitions out of a ring as they are drawn."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from soulsgui.experience.segments import Segments
from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay
from tests.experience.segments import segments_of

Piece = tuple[int, int, int, int]
"""A segment: source, episode, first step, length."""


def pieces(*parts: Piece, **columns: Any) -> Segments:
    """Return segments; step k of episode e is seen as (e, k), its action and its reward are k + 1.

    Each begins with the state (e, k); its masks are `mask_of` what is seen.
    """
    rows = np.array(
        [(episode, first + k) for _, episode, first, n in parts for k in range(n + 1)], np.float32
    )
    steps = np.array([first + k for _, _, first, n in parts for k in range(n)])
    source, episode, first, length = np.array(parts).T
    told = {"obs": rows, "action": steps + 1, "reward": (steps + 1).astype(np.float32)}
    told |= {"source": source, "episode": episode, "first_step": first, "action_mask": mask_of(rows)}
    told["state"] = {"state": np.stack((episode, first), axis=1).astype(np.float32)}
    return segments_of(length, **told | columns)


def mask_of(obs: NDArray[Any]) -> NDArray[np.bool_]:
    """Return masks `[..., 3]` of what `pieces` show, with the first action always valid."""
    found: NDArray[np.bool_] = (
        obs.sum(-1, keepdims=True).astype(np.int64) >> np.arange(-1, 2).clip(0)
    ) % 2 == 1
    found[..., 0] = True
    return found


def in_slots(ring: UniformReplay, slots: NDArray[np.integer[Any]]) -> NStepBatch:
    """Return the transitions in slots `[B]`; their discount is 1, or 0 where they ended finally."""
    return ring.windows(slots.astype(np.int64), np.zeros(0, np.int64), 1, 1.0)


def drawn(ring: UniformReplay, count: int, rng: np.random.Generator) -> NStepBatch:
    """Draw transitions uniformly, as `in_slots` returns them; a ValueError where there is none yet."""
    return in_slots(ring, ring.draw(count, rng))


class Players:
    """Sources that send segments by turns, now and then with a gap or a new episode."""

    def __init__(self, *sources: int, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.at = {source: [number, 0] for number, source in enumerate(sources or (7, 8))}

    def play(self) -> tuple[Piece, bool]:
        """Return the next segment, and whether its episode ends with it."""
        source, length = int(self.rng.choice(list(self.at))), int(self.rng.integers(1, 7))
        where, ends = self.at[source], bool(self.rng.random() < 0.2)
        played = (source, where[0], where[1], length)
        where[1] += length + int(self.rng.random() < 0.1)
        if ends:
            where[:] = [where[0] + len(self.at), 0]
        return played, ends
