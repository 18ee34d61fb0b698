"""From samples told one by one to segments: whole episodes, pieces with gaps, bounds and probabilities."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from soulsgui.environments.spaces import BoxSpec
from soulsgui.sampling.assembling import Assembler
from soulsgui.sampling.samples import Sample
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, TERMINATED, TRUNCATED, Segments, pack_chunk
from soulsgui.wire.weights import WeightsHeader
from tests.wire.unpacking import unpack_chunk

BOX = BoxSpec((2,), "float32", (0.0,), (50.0,))
HEADER = WeightsHeader("run-1", 1, 5, 40, "00000000000000ff")


def _sample(step_id: int, terminated: bool = False, truncated: bool = False, **changed: Any) -> Sample:
    fields: dict[str, Any] = {
        "obs": np.array([step_id, 0.0]),
        "action": step_id % 2,
        "reward": float(step_id),
        "next_obs": np.array([step_id + 1, 0.0]),
        "log_prob": None,
        "model_id": 5,
    }
    return Sample(terminated=terminated, truncated=truncated, step_id=step_id, **(fields | changed))


def _asked(
    obs: NDArray[Any], action: NDArray[np.int64], mask: NDArray[np.bool_] | None
) -> NDArray[np.float32]:
    """Tells the first number of the observation that was acted on."""
    return -obs[:, 0]


def _assemble(assembler: Assembler, *samples: Sample) -> Segments:
    segments = assembler.assemble(samples, HEADER, _asked)
    return unpack_chunk(pack_chunk("r", "c", segments), "r", "c", (2,), "float32")


def test_steps_come_back_as_segments_of_their_episodes() -> None:
    assembler = Assembler(BOX, 256)
    samples = [_sample(n) for n in range(3)] + [_sample(3, terminated=True)]
    found = _assemble(assembler, *samples, _sample(0), _sample(1, truncated=True), _sample(0))
    assert found.episode.tolist() == [0, 1, 2]
    assert found.first_step.tolist() == [0, 0, 0]
    assert found.length.tolist() == [4, 2, 1]
    assert found.flags.tolist() == [TERMINATED, TRUNCATED, 0]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]
    assert found.action.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert found.reward.tolist() == [0, 1, 2, 3, 0, 1, 0]
    assert found.log_prob.tolist() == [0, -1, -2, -3, 0, -1, 0]
    assert (found.model_id_first == 5).all()
    assert (found.model_id_last == 5).all()
    assert (found.digest == 255).all()
    assert (found.env_index == 0).all()


def test_an_episode_goes_on_in_the_next_call() -> None:
    assembler = Assembler(BOX, 256)
    _assemble(assembler, _sample(0), _sample(1))
    found = _assemble(assembler, _sample(2), _sample(3, terminated=True))
    assert (found.episode.tolist(), found.first_step.tolist(), found.length.tolist()) == ([0], [2], [2])
    found = _assemble(assembler, _sample(0))
    assert (found.episode.tolist(), found.first_step.tolist()) == ([1], [0])


def test_left_out_steps_cut_and_an_episode_that_was_given_up_ends() -> None:
    found = _assemble(Assembler(BOX, 256), *(_sample(n) for n in (0, 1, 2, 5, 6, 0, 1)))
    assert found.length.tolist() == [3, 2, 2]
    assert found.first_step.tolist() == [0, 5, 0]
    assert found.episode.tolist() == [0, 0, 1]
    assert found.obs[:, 0].tolist() == [0, 1, 2, 3, 5, 6, 7, 0, 1, 2]


def test_probabilities_are_asked_for_only_where_they_were_not_said() -> None:
    found = _assemble(Assembler(BOX, 256), _sample(0), _sample(1, log_prob=-0.5), _sample(2))
    assert found.log_prob.tolist() == [0, -0.5, -2]

    def never(*_: object) -> NDArray[np.float32]:
        raise AssertionError("asked")

    all_said = Assembler(BOX, 256).assemble([_sample(0, log_prob=-1.0)], HEADER, never)
    assert all_said.log_prob.tolist() == [-1]


def test_observations_are_moved_into_their_bounds() -> None:
    found = _assemble(Assembler(BOX, 256), _sample(0, obs=np.array([-3, 99]), next_obs=np.array([51, 1])))
    assert found.obs.tolist() == [[0, 50], [50, 1]]


@pytest.mark.parametrize(("side", "capacity"), [(8, 256), (512, None)])
def test_what_is_assembled_at_once_fits_into_a_chunk(side: int, capacity: int | None) -> None:
    box = BoxSpec((side, side), "float32", None, None)
    assembler = Assembler(box, 256)
    image = np.zeros((side, side), np.float32)
    ended = [_sample(0, terminated=True, obs=image, next_obs=image)] * assembler.capacity
    size = len(
        pack_chunk("r", "c", assembler.assemble(ended, HEADER, lambda obs, action, mask: action * 0.0))
    )
    assert size <= MAX_CHUNK_BYTES
    assert assembler.capacity == (capacity or MAX_CHUNK_BYTES // (2 * image.nbytes + 128))
