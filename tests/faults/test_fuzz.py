"""Forged chunks of every kind (R15): none reaches the learner in a harmful form."""

import random
from dataclasses import replace

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.training.intake.checks import GOOD as PASSED
from soulsgui.training.intake.checks import check_segments
from soulsgui.wire.messages.chunk import ChunkError
from tests.faults.report import Report
from tests.wire.chunks import CONTRACT, RUN, chunk, segments, unpack_chunk

SPACES = SpacesSpec(BoxSpec((2,), "float32", (-100.0,), (100.0,)), DiscreteSpec(2))
GOOD = chunk(segments(model_id=5))


def _mutated(rng: random.Random) -> bytes:
    """Return garbage: bytes at random, a damaged chunk, or a chunk with a strange value."""
    kind = rng.randrange(3)
    if kind == 0:
        return rng.randbytes(rng.randrange(200))
    if kind == 1:
        damaged = bytearray(GOOD[: rng.randrange(1, len(GOOD) + 1)])
        for _ in range(rng.randrange(1, 8)):
            damaged[rng.randrange(len(damaged))] = rng.randrange(256)
        return bytes(damaged)
    made = segments(model_id=5)
    name = rng.choice([name for name, column in vars(made).items() if isinstance(column, np.ndarray)])
    column = getattr(made, name).copy()
    limits = [np.nan, np.inf, 3e38] if column.dtype.kind == "f" else [np.iinfo(column.dtype).max, 0, 1]
    column.reshape(-1)[rng.randrange(column.size)] = rng.choice(limits)
    return chunk(replace(made, **{name: column}))


def _accepted(data: bytes) -> Segments | None:
    """Return what the learner would be given of a payload, None for nothing."""
    try:
        opened = unpack_chunk(data, RUN, CONTRACT, (2,), "float32")
    except ChunkError:
        return None
    good = check_segments(opened, SPACES, {5: 7}, 5, 5, num_envs=2) == PASSED
    return opened.take(good) if good.any() else None


def _assert_harmless(made: Segments) -> None:
    assert all(np.isfinite(column).all() for column in (made.obs, made.reward, made.log_prob))
    assert np.abs(made.obs).max() <= 100
    assert np.abs(made.reward).max() <= 1e15
    assert made.log_prob.max() <= 1e-3
    assert np.isin(made.action, (0, 1)).all()
    assert {*made.model_id_first, *made.model_id_last} == {5}
    assert set(made.digest) == {7}
    assert made.length.min() > 0
    assert len(made.obs) - made.count == made.steps == made.length.sum()


@pytest.mark.parametrize("count", [1000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_forged_chunks_reach_the_learner_in_no_harmful_form(report: Report, count: int) -> None:
    assert _accepted(GOOD) is not None
    rng = random.Random(11)
    refused = 0
    for _ in range(count):
        made = _accepted(_mutated(rng))
        if made is None:
            refused += 1
        else:  # the damage hit a value that may be anything, such as a reward
            _assert_harmless(made)
    report.injected(f"{count:,} forged chunks, {refused:,} of them refused, the rest harmless")
    assert refused > count / 2
