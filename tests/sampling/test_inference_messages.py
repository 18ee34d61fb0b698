"""Requests come back as they were sent, and what does not fit the spaces is refused."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.sampling.inference_messages import ActionOutcome, Request, RequestReader
from soulsgui.wire.codec import CodecError, pack, unpack
from tests.environments.toys import Room

NUMBERS = SpacesSpec(BoxSpec((2, 3), "float64"), DiscreteSpec(4))
MASKED = SpacesSpec(BoxSpec((), "float32", (-1,), (1,)), DiscreteSpec(3)).with_masks(True)
BOTH = SpacesSpec(observation_from_space(Room().observation_space), DiscreteSpec(2))
ENDED = np.array([False, True, False])


def _observations(spaces: SpacesSpec, seed: int) -> NDArray[Any]:
    if spaces is BOTH:
        room = Room().observation_space
        room.seed(seed)
        return np.stack([spaces.observation.read(room.sample()) for _ in range(3)])
    rng = np.random.default_rng(seed)
    return rng.uniform(-1, 1, (3, *spaces.observation.shape)).astype(spaces.observation.dtype)


def _request(spaces: SpacesSpec) -> Request:
    obs, mask, final_mask = _observations(spaces, 0), None, None
    if spaces.masked_actions:
        mask, final_mask = np.eye(3, dtype=np.bool_), np.eye(3, dtype=np.bool_)[::-1]
    next_obs = obs.copy()
    next_obs[1] = _observations(spaces, 1)[1]
    nobody, valid = np.zeros(3, np.bool_), np.array([True, True, False])
    reward = np.array([0.5, -3, 0], np.float32)
    next_mask = None if mask is None else np.where(ENDED[:, None], final_mask, mask)
    result = StepResult(next_obs, reward, nobody, ENDED, valid, obs, nobody, next_mask, mask)
    return Request("u", 7, obs, mask, ActionOutcome(result, valid & ~ENDED), 1.5, 2**32 - 1)


def _read(data: bytes, spaces: SpacesSpec) -> Request:
    reader = RequestReader(spaces)
    (request,) = reader.checked([reader.read(data)])
    return request


@pytest.mark.parametrize("spaces", [NUMBERS, MASKED, BOTH], ids=["numbers", "masked", "both"])
def test_a_request_comes_back_as_it_was_sent(spaces: SpacesSpec) -> None:
    sent = _request(spaces)
    read = _read(sent.pack(), spaces)
    assert (read.unroll, read.number, read.round_trip_ms, read.follows) == ("u", 7, 1.5, 2**32 - 1)
    assert sent.outcome is not None
    assert read.outcome is not None
    pairs = zip(
        (sent.obs, sent.mask, *sent.outcome.result), (read.obs, read.mask, *read.outcome.result), strict=True
    )
    for mine, theirs in pairs:
        np.testing.assert_array_equal(theirs, mine)
    np.testing.assert_array_equal(read.outcome.keep, sent.outcome.keep)
    first = _read(sent._replace(outcome=None).pack(), spaces)
    assert first.outcome is None


@pytest.mark.parametrize(
    "changed",
    [
        {"obs": None},
        {"obs": b""},
        {"obs": bytes(100)},
        {"obs": bytes(96)},
        {"obs": ["<f8", bytes(144)]},
        {"obs": np.full(18, np.inf).tobytes()},
        {"reward": bytes(8)},
        {"reward": np.full(3, 1e16, np.float32).tobytes()},
        {"flags": bytes(9)},
        {"flags": b"\2" * 12},
        {"final_obs": bytes(96)},
        {"final_mask": bytes(4)},
        {"number": -1},
        {"follows": "the last one"},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_what_does_not_fit_the_spaces_is_refused(changed: dict[str, Any]) -> None:
    told = unpack(_request(NUMBERS).pack())
    _read(pack(told), NUMBERS)
    with pytest.raises(CodecError):
        _read(pack(told | changed), NUMBERS)


def test_a_mask_leaves_an_action() -> None:
    told = unpack(_request(MASKED).pack())
    with pytest.raises(CodecError, match="leaves an action"):
        _read(pack(told | {"mask": bytes(9)}), MASKED)
    for name, size in (("mask", 9), ("final_mask", 3)):
        with pytest.raises(CodecError, match="0 and 1"):
            _read(pack(told | {name: b"\2" * size}), MASKED)


def test_requests_of_a_batch_are_told_apart() -> None:
    reader, first = RequestReader(NUMBERS), _request(NUMBERS)
    assert first.outcome is not None
    second = first._replace(number=8, obs=first.obs + 1)
    third = first._replace(unroll="v", number=0, obs=first.obs[:1], outcome=None)
    sent = [first, second, third]
    read = reader.checked([reader.read(one.pack()) for one in sent])
    for mine, theirs in zip(sent, read, strict=True):
        assert (theirs.unroll, theirs.number) == (mine.unroll, mine.number)
        np.testing.assert_array_equal(theirs.obs, mine.obs)
    for one in read[:2]:
        assert one.outcome is not None
        np.testing.assert_array_equal(one.outcome.result.next_obs[1], first.outcome.result.next_obs[1])
        np.testing.assert_array_equal(one.outcome.keep, first.outcome.keep)
    assert read[2].outcome is None


def test_the_end_of_another_clients_episode_can_not_be_taken() -> None:
    reader = RequestReader(NUMBERS)
    told = unpack(_request(NUMBERS).pack())
    without, twice = told | {"final_obs": b""}, told | {"final_obs": 2 * told["final_obs"]}
    with pytest.raises(CodecError, match="in place of 1 times"):
        reader.checked([reader.read(pack(one)) for one in (without, twice)])
