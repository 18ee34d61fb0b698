"""The batch of a round: the same whatever came first."""

import numpy as np

from soulsgui.rl.buffers.rollout import RolloutBatch
from soulsgui.training.ppo_node import Delivery, make_batch
from soulsgui.wire.messages.chunk import Segments
from tests.wire.chunks import segments


def test_the_batch_does_not_depend_on_the_order_of_arrival() -> None:
    rng = np.random.default_rng(3)
    deliveries = []
    for client in ("b", "a"):
        for part in range(3):
            made = segments((3, 1, 2), first_step=np.full(3, part * 10), episode=np.array([1, 0, 1]))
            made = segments(
                (3, 1, 2),
                first_step=np.full(3, part * 10),
                episode=np.array([1, 0, 1]),
                obs=rng.normal(size=made.obs.shape).astype(np.float32),
                reward=rng.normal(size=6).astype(np.float32),
                flags=np.array([part % 3, 0, 1], np.uint8),
            )
            deliveries.append(Delivery(client, made))
    expected = make_batch(deliveries)
    for _ in range(5):
        order = rng.permutation(len(deliveries))
        _assert_equal(make_batch([deliveries[n] for n in order]), expected)
    split = [_split(delivery) for delivery in deliveries]
    _assert_equal(make_batch([part for parts in split for part in parts]), expected)


def _split(delivery: Delivery) -> list[Delivery]:
    """Return the same segments as one delivery each."""
    made, parts = delivery.segments, []
    starts = np.concatenate([[0], np.cumsum(made.length)])
    for n in range(made.count):
        first, last = int(starts[n]), int(starts[n + 1])
        steps = slice(first, last)
        one = {name: getattr(made, name)[n : n + 1] for name in Segments.__dataclass_fields__}
        one |= {name: getattr(made, name)[steps] for name in ("action", "reward", "log_prob")}
        one["obs"] = made.obs[first + n : last + n + 1]
        parts.append(Delivery(delivery.client, Segments(**one)))
    return parts[::-1]


def _assert_equal(first: RolloutBatch, second: RolloutBatch) -> None:
    for name in RolloutBatch.__dataclass_fields__:
        np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
