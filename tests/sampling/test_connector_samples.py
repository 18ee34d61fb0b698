"""What a loop written by hand hands over: read with care, and made segments of its episodes."""

import json
import math
from functools import partial
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import UsageError
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.policies.action_heads import HeadSpec
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.policies.policy import Policy, actor_spec, make_policy
from soulsgui.sampling.connectors import base as room
from soulsgui.sampling.connectors.base import ActionCache
from soulsgui.sampling.connectors.samples import (
    Assembler,
    EpisodeInfo,
    Sample,
    read_episode_info,
    read_sample,
)
from soulsgui.wire.codec import WeightsHeader, pack, pack_sample
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, pack_chunk
from soulsgui.wire.messages.session import Episode
from tests.environments.toys import SPACES_TAKEN, Room
from tests.wire.chunks import unpack_chunk

SPACES = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(3, start=1))
OBS = np.zeros(2, np.float32)


def _packed(**changed: Any) -> bytes:
    step = {
        "obs": OBS,
        "action": 2,
        "reward": 0.5,
        "next_obs": OBS + 1,
        "info": {},
        "model_id": 4,
        "step_id": 7,
    }
    return pack_sample(**({"terminated": False, "truncated": True} | step | changed))


def test_samples_are_read() -> None:
    for action in (2, np.int64(2), np.array(2), np.array([2])):
        sample = read_sample(_packed(action=action), SPACES)
        assert (sample.action, sample.reward, sample.terminated, sample.truncated) == (2, 0.5, False, True)
    assert (sample.model_id, sample.step_id, sample.log_prob) == (4, 7, None)
    np.testing.assert_array_equal(sample.next_obs, OBS + 1)
    for log_prob in (-0.25, np.float32(-0.25), np.array([-0.25])):
        assert read_sample(_packed(info={"log_prob": log_prob}), SPACES).log_prob == -0.25


@pytest.mark.parametrize(
    "changed",
    [
        *({"action": action} for action in (0, 4, np.array([1, 2]), "left")),
        *({"reward": reward} for reward in (math.nan, 1e16)),
        *({"info": info} for info in ([], {"log_prob": "low"})),
        *({"obs": np.zeros(3, np.float32)}, {"next_obs": np.float32(1)}, {"step_id": -1}, {"model_id": None}),
    ],
)
def test_what_is_no_sample_is_refused(changed: dict[str, Any]) -> None:
    for data in (_packed(**changed), b"garbage", pack([1, 2, 3])):
        with pytest.raises(UsageError):
            read_sample(data, SPACES)


def test_episodes_are_told_in_a_few_words_or_as_the_message_of_the_wire() -> None:
    assert read_episode_info(b'{"total_return": 21, "length": 20}') == EpisodeInfo(21.0, 20, True, 0.0, 0)
    figures = {"total_return": -1.5, "length": 3, "terminated": False, "seconds": 0.5, "env_index": 1}
    message = Episode.model_validate({"run_id": "r", "attempt": 1, "number": 5, "model_id": 3} | figures)
    for told in (json.dumps(figures), message.to_json()):
        assert read_episode_info(told.encode()) == EpisodeInfo(-1.5, 3, False, 0.5, 1)


NUMBERS_OF_NONE = ("[1]", '"x"', "NaN", "1e999")


@pytest.mark.parametrize(
    "data",
    ["", "[]", "3", "{}", '{"total_return": 1}', '{"total_return": 1, "length": 0}', "\udcff"]
    + [f'{{"total_return": {number}, "length": 1}}' for number in NUMBERS_OF_NONE],
)
def test_what_tells_of_no_episode_is_refused(data: str) -> None:
    with pytest.raises(UsageError):
        read_episode_info(data.encode(errors="surrogateescape"))


MASKED = SpacesSpec(BoxSpec((2,), "float32"), DiscreteSpec(3, start=1, masked=True))


def _masks(here: Any, after: Any, **changed: Any) -> bytes:
    info = {"action_mask": here, "next_action_mask": after}
    return _packed(info={name: mask for name, mask in info.items() if mask is not None}, **changed)


def test_masks_are_read_and_may_be_left_out_at_an_end() -> None:
    sample = read_sample(_masks(np.array([0, 1, 1], np.int8), [1.0, 0.0, 0.0]), MASKED)
    assert sample.mask.tolist() == [False, True, True]
    assert sample.next_mask.tolist() == [True, False, False]
    for after in (None, np.zeros(3)):
        assert read_sample(_masks([0, 1, 1], after, terminated=True), MASKED).next_mask is None
    assert read_sample(_masks([0, 1], [0, 0]), SPACES).mask is None  # of an environment without masks


@pytest.mark.parametrize(
    "data",
    [
        _packed(),
        _masks([0, 1, 1], None),
        _masks(None, [0, 1, 1]),
        _masks([0, 1], [0, 1, 1]),
        _masks([0, 1, 1], [[0, 1, 1]]),
        _masks("all", [0, 1, 1]),
        _masks([[1], 2], [0, 1, 1]),
        _masks([0, 0, 0], [0, 1, 1]),
        _masks([1, 0, 1], [0, 1, 1]),
        _masks([0, 1, 1], [0, 0, 0], truncated=False),
    ],
)
def test_masks_that_cannot_be_are_refused_in_words(data: bytes) -> None:
    with pytest.raises(UsageError, match="mask"):
        read_sample(data, MASKED)


CARDS = SpacesSpec(
    observation_from_space(spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)])),
    DiscreteSpec(2),
)
ROOM = SpacesSpec(observation_from_space(Room().observation_space), DiscreteSpec(2))


def test_observations_of_parts_are_pushed_as_the_environment_shows_them_and_assembled() -> None:
    sample = read_sample(_packed(obs=(14, 10, 0), next_obs=(np.int64(20), 10, 1), action=1), CARDS)
    assert (sample.obs.tolist(), sample.next_obs.tolist()) == ([14, 10, 0], [20, 10, 1])
    room = Room()
    first, after = room.reset()[0], room.step(0)[0]
    seen = read_sample(_packed(obs=first, next_obs=after, action=1), ROOM)
    np.testing.assert_array_equal(seen.next_obs, ROOM.observation.read(after))
    for wrong in ((14, 10), (14, 10, 0.5), {"a": 1}, 3):
        with pytest.raises(UsageError, match="This is not a sample"):
            read_sample(_packed(obs=wrong, next_obs=(1, 1, 1), action=1), CARDS)
    for run, shown in ((CARDS, (1, 2, 0)), (ROOM, first)):
        step = partial(_packed, obs=shown, next_obs=shown, action=1, info={"log_prob": 0.0})
        samples = [read_sample(step(step_id=number), run) for number in (0, 1)]
        made = Assembler(run, 16).assemble(samples, HEADER, _not_asked)
        assert run.observation.contains(made.obs).all()
        assert len(made.obs) == 4, "each step was the last of its episode"


def _not_asked(*_: Any) -> Any:
    raise AssertionError("asked")


NUMBERS = SpacesSpec(BoxSpec((2,), "float32", (0.0,), (50.0,)), DiscreteSpec(2))
HEADER = WeightsHeader("run-1", 1, 5, 40, "00000000000000ff")


def _step(step_id: int, terminated: bool = False, truncated: bool = False, **changed: Any) -> Sample:
    fields: dict[str, Any] = {
        "action": step_id % 2,
        "reward": float(step_id),
        "log_prob": None,
        "model_id": 5,
    }
    seen = {"obs": np.array([step_id, 0.0]), "next_obs": np.array([step_id + 1, 0.0])}
    return Sample(terminated=terminated, truncated=truncated, step_id=step_id, **(fields | seen | changed))


def _asked(obs: NDArray[Any], action: Any, mask: Any) -> NDArray[np.float32]:
    """Tells the first number of the observation that was acted on."""
    return -obs[:, 0]


def _assemble(assembler: Assembler, *samples: Sample) -> Segments:
    segments = assembler.assemble(samples, HEADER, _asked)
    return unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32")


def _places(segments: Segments) -> list[tuple[int, int, int]]:
    """Return episode, first step and length of each."""
    return list(zip(segments.episode, segments.first_step, segments.length, strict=True))


def test_steps_come_back_as_segments_of_their_episodes() -> None:
    assembler = Assembler(NUMBERS, 256)
    samples = [_step(n) for n in range(3)] + [_step(3, terminated=True)]
    found = _assemble(assembler, *samples, _step(0), _step(1, truncated=True), _step(0))
    assert _places(found) == [(0, 0, 4), (1, 0, 2), (2, 0, 1)]
    assert found.flags.tolist() == [TERMINATED, TRUNCATED, 0]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]
    assert found.action.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert found.reward.tolist() == [0, 1, 2, 3, 0, 1, 0]
    assert found.log_prob.tolist() == [0, -1, -2, -3, 0, -1, 0]
    for name, value in {"model_id_first": 5, "model_id_last": 5, "digest": 255, "env_index": 0}.items():
        assert (getattr(found, name) == value).all()
    # Probabilities are asked for only where they were not said.
    found = _assemble(Assembler(NUMBERS, 256), _step(0), _step(1, log_prob=-0.5), _step(2))
    assert found.log_prob.tolist() == [0, -0.5, -2]
    all_said = Assembler(NUMBERS, 256).assemble([_step(0, log_prob=-1.0)], HEADER, _not_asked)
    assert all_said.log_prob.tolist() == [-1]


def test_an_episode_goes_on_in_the_next_call_left_out_steps_cut_and_one_given_up_ends() -> None:
    assembler = Assembler(NUMBERS, 256)
    _assemble(assembler, _step(0), _step(1))
    assert _places(_assemble(assembler, _step(2), _step(3, terminated=True))) == [(0, 2, 2)]
    found = _assemble(assembler, *(_step(n) for n in (0, 1, 2, 5, 6, 0, 1)))
    assert _places(found) == [(1, 0, 3), (1, 5, 2), (2, 0, 2)]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 3, 5, 6, 7, 0, 1, 2]
    found = _assemble(assembler, _step(2, obs=np.array([-3, 99]), next_obs=np.array([51, 1])))
    assert found.obs.tolist() == [[0, 50], [50, 1]], "moved into their bounds"


@pytest.mark.parametrize(("side", "capacity"), [(8, 256), (512, None)])
def test_what_is_assembled_at_once_fits_into_a_chunk(side: int, capacity: int | None) -> None:
    assembler = Assembler(SpacesSpec(BoxSpec((side, side), "float32"), DiscreteSpec(2)), 256)
    image = np.zeros((side, side), np.float32)
    ended = [_step(0, terminated=True, obs=image, next_obs=image, log_prob=0.0)] * assembler.capacity
    packed = pack_chunk("r", "c", assembler.assemble(ended, HEADER, _not_asked))
    assert len(packed) <= MAX_CHUNK_BYTES
    assert assembler.capacity == (capacity or MAX_CHUNK_BYTES // (2 * image.nbytes + 128))


BOX, CHOICES = (action_from_space(SPACES_TAKEN[takes]) for takes in ("box", "choices"))


def _policy(spec: ActionSpec) -> Policy:
    head = HeadSpec(spec.to_json())
    return make_policy(actor_spec(MLPPolicySpec((2,), head.outputs, 0, (), "tanh", False).to_json(), head))


POLICY = _policy(BOX)


def test_the_newest_draws_are_stored_as_they_were_drawn_and_choices_pass_as_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    remembered = ActionCache(BOX)
    latents = np.float32([[0.1, -0.2, 0.3], [30, 0, 0], [-50, 60, 0], [40, 0, 0]])
    taken = [remembered.given_out(latent, POLICY) for latent in latents]
    np.testing.assert_array_equal(taken[1], taken[3])
    for action, latent in zip(taken, latents[[0, 3, 2, 3]], strict=True):
        assert SPACES_TAKEN["box"].contains(action)
        np.testing.assert_array_equal(remembered.stored(BOX.read(action), POLICY), latent)
    nobody_drew = BOX.read(np.float32([1.0, 0.25, 6.0]))
    stored = remembered.stored(nobody_drew, POLICY)
    np.testing.assert_allclose(POLICY.to_environment(stored[None])[0], nobody_drew, rtol=1e-5)
    monkeypatch.setattr(room, "_MOST_DRAWN", 2)
    remembered = ActionCache(BOX)
    for number in range(5):
        remembered.given_out(np.float32([0.01 * number, 0, 0]), POLICY)
    assert len(remembered._drawn) == 2, "the oldest are forgotten"
    remembered, action, policy = ActionCache(CHOICES), np.array([2, 6, -1]), _policy(CHOICES)
    np.testing.assert_array_equal(remembered.given_out(action, policy), action)
    assert remembered.stored(action, policy) is action
    assert not remembered._drawn
