"""Replay of 10⁶ transitions of 8 numbers: append, draw uniformly, draw and update by priority.

Rates are by processor time: other programs on the cores don't count, though caches are shared with them.
"""

import importlib
import importlib.util
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.report import Measured, beside, run
from soulsgui.environments.box import BoxSpec
from soulsgui.rl.buffers.prioritised import PrioritisedReplay
from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay

_OBS = 8
_BATCH = 256
_SEGMENT = 64
_CHUNK = 64 * _SEGMENT
_ALPHA, _BETA = 0.6, 0.4
_GAMMA = 0.99
_NO_CHAINS = np.zeros(0, np.int64)


class BareRing:
    """What a ring costs at least: one array a field, both observations stored, nothing checked."""

    def __init__(self, capacity: int) -> None:
        self.capacity, self._at = capacity, 0
        observations: list[NDArray[Any]] = [np.zeros((capacity, _OBS), np.float32) for _ in range(2)]
        self._columns = [
            *observations,
            np.zeros(capacity, np.int64),
            np.zeros(capacity, np.float32),
            np.zeros(capacity, np.bool_),
        ]

    def add(self, *rows: NDArray[Any]) -> None:
        """Write transitions; the capacity is a multiple of their number."""
        for column, values in zip(self._columns, rows, strict=True):
            column[self._at : self._at + len(values)] = values
        self._at = (self._at + len(rows[0])) % self.capacity

    def sample(self, rng: np.random.Generator) -> list[NDArray[Any]]:
        """Draw a batch."""
        slots = rng.integers(self.capacity, size=_BATCH)
        return [column.take(slots, axis=0) for column in self._columns]


def _rate(once: Callable[[], object], times: int, each: int = 1) -> float:
    began = time.process_time()
    for _ in range(times):
        once()
    return each * times / (time.process_time() - began)


def _chunk(rng: np.random.Generator) -> tuple[dict[str, NDArray[Any]], list[NDArray[Any]]]:
    """Return the same steps as segments for our memory and as transitions for a bare ring."""
    segments = _CHUNK // _SEGMENT
    obs = rng.normal(size=(_CHUNK + segments, _OBS)).astype(np.float32)
    action = rng.integers(4, size=_CHUNK)
    reward = rng.normal(size=_CHUNK).astype(np.float32)
    ours = {
        "obs": obs,
        "lengths": np.full(segments, _SEGMENT),
        "action": action,
        "reward": reward,
        "terminated": np.ones(segments, np.bool_),
    }
    row = np.arange(_CHUNK) + np.arange(_CHUNK) // _SEGMENT
    return ours, [obs[row], obs[row + 1], action, reward, np.zeros(_CHUNK, np.bool_)]


def _cpprb(capacity: int, transitions: list[NDArray[Any]]) -> Callable[[], object]:
    """Return one draw and update of cpprb's prioritised buffer, full."""
    cpprb = importlib.import_module("cpprb")
    fields = {"obs": {"shape": _OBS}, "act": {}, "rew": {}, "next_obs": {"shape": _OBS}, "done": {}}
    buffer = cpprb.PrioritizedReplayBuffer(capacity, fields, alpha=_ALPHA)
    obs, next_obs, action, reward, done = transitions
    for _ in range(capacity // _CHUNK):
        buffer.add(obs=obs, act=action, rew=reward, next_obs=next_obs, done=done)
    rng = np.random.default_rng(0)

    def once() -> None:
        batch = buffer.sample(_BATCH, beta=_BETA)
        buffer.update_priorities(batch["indexes"], rng.random(_BATCH))

    return once


def measure(quick: bool) -> Sequence[Measured]:
    """Measure all figures; the reference of the last is cpprb where it is installed."""
    capacity = _CHUNK * (25 if quick else 250)
    repeats, draws = (3, 200) if quick else (7, 2_000)
    rng = np.random.default_rng(0)
    segments, transitions = _chunk(rng)
    box = BoxSpec((_OBS,), "float32")
    plain, ours, bare = (
        UniformReplay(capacity, box),
        PrioritisedReplay(UniformReplay(capacity, box), _ALPHA),
        BareRing(capacity),
    )
    chunks = capacity // _CHUNK
    for _ in range(chunks):  # full, so that what follows evicts
        plain.add(**segments)
        ours.add(**segments)
        bare.add(*transitions)

    def windows(ring: UniformReplay, slots: NDArray[np.int64]) -> NStepBatch:
        return ring.windows(slots, _NO_CHAINS, 1, _GAMMA)

    def uniform() -> NStepBatch:
        return windows(plain, plain.draw(_BATCH, rng))

    def prioritised() -> None:
        drawn = ours.draw(_BATCH, _BETA, rng)
        windows(ours.ring, ours.ring.slot(drawn.number))
        ours.update_priorities(drawn.number, rng.random(_BATCH))

    def appends(add: Callable[[], object]) -> Callable[[], float]:
        return lambda: _rate(add, chunks, _CHUNK)

    def batches(once: Callable[[], object]) -> Callable[[], float]:
        return lambda: _rate(once, draws)

    peer = importlib.util.find_spec("cpprb") is not None
    bare_add, bare_draw = appends(lambda: bare.add(*transitions)), batches(lambda: bare.sample(rng))
    best = batches(_cpprb(capacity, transitions)) if peer else bare_draw
    add, draw = f"append to {capacity:,} × {_OBS}", f"draw {_BATCH} from {capacity:,} × {_OBS}"
    steps, per_batch = "transitions/s", "batches/s"
    both = batches(prioritised)
    return [
        beside(add, steps, appends(lambda: plain.add(**segments)), "bare ring", bare_add, repeats),
        beside(
            f"{add} by priority", steps, appends(lambda: ours.add(**segments)), "bare ring", bare_add, repeats
        ),
        beside(draw, per_batch, batches(uniform), "bare ring", bare_draw, repeats),
        beside(
            f"{draw} by priority and update", per_batch, both, "cpprb" if peer else "bare ring", best, repeats
        ),
    ]


if __name__ == "__main__":
    run(measure)
