"""Garbage of every kind (R15): none reaches the learner, nothing breaks, all is counted."""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.training.intake.checks import GOOD as PASSED
from soulsgui.training.intake.checks import check_segments
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import ChunkError
from tests.faults.report import Report
from tests.training.nodes import STEPS, join, next_round, play, running_node, small_settings
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
    columns = [name for name, column in vars(made).items() if isinstance(column, np.ndarray)]
    name = rng.choice(columns)
    return chunk(replace(made, **{name: _spoilt(getattr(made, name), rng)}))


def _spoilt(column: Any, rng: random.Random) -> Any:
    """Return a column of the right form with one strange value in it."""
    other = column.copy()
    limits = [np.nan, np.inf, 3e38] if other.dtype.kind == "f" else [np.iinfo(other.dtype).max, 0, 1]
    other.reshape(-1)[rng.randrange(other.size)] = rng.choice(limits)
    return other


def _accepted(data: bytes) -> Segments | None:
    """Return what the learner would be given of a payload, None for nothing."""
    try:
        opened = unpack_chunk(data, RUN, CONTRACT, (2,), "float32")
    except ChunkError:
        return None
    good = check_segments(opened, SPACES, {5: 7}, 5, 5, num_envs=2) == PASSED
    return opened.take(good) if good.any() else None


def _assert_harmless(made: Segments) -> None:
    assert np.isfinite(made.obs).all()
    assert np.isfinite(made.reward).all()
    assert np.isfinite(made.log_prob).all()
    assert (np.abs(made.obs) <= 100).all()
    assert np.isin(made.action, (0, 1)).all()
    assert (made.log_prob <= 1e-3).all()
    assert (np.abs(made.reward) <= 1e15).all()
    assert (made.model_id_first == 5).all()
    assert (made.model_id_last == 5).all()
    assert (made.digest == 7).all()
    assert made.length.min() > 0
    assert made.steps == made.length.sum()
    assert len(made.obs) == made.steps + made.count


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


@pytest.mark.allow_warnings
@pytest.mark.parametrize("messages", [300, pytest.param(10_000, marks=pytest.mark.slow)])
def test_a_client_that_sends_garbage_harms_nobody(
    redis_address: Address, tmp_path: Path, report: Report, messages: int
) -> None:
    """One client sends garbage while another one trains."""
    rng = random.Random(5)
    settings = small_settings(ppo__n_clients=1, ppo__round_timeout=2.0)
    with running_node(redis_address, tmp_path, settings) as node:
        good = join(node, "good")
        last = play(good)
        bad = join(node, "bad")
        connection, keys = node.connection, node.keys
        for number in range(messages):
            choice = rng.randrange(6)
            if choice == 0:
                connection.xadd(keys.chunks("bad"), {"hello": rng.randbytes(50)})
            elif choice == 1:
                connection.set(keys.beat("bad"), rng.randbytes(rng.randrange(20_000)))
            elif choice == 2:
                connection.xadd(keys.chunks("bad"), {rng.randbytes(3): rng.randbytes(30)})
            else:
                bad.send(_mutated(rng), number=rng.randrange(2**62))
            if number % 100 == 50:
                bad.hello()
                good.beat()  # a client that is silent for long is in no round
        connection.delete(keys.chunks("bad"))
        connection.set(keys.chunks("bad"), "mine")
        connection.delete(keys.beat("bad"))
        connection.lpush(keys.beat("bad"), "not a beat")
        updates = node.node.agent.updates
        for _ in range(3):
            good.beat()
            last = next_round(good, last).round_id
            good.deliver(STEPS)
        node.wait_for_updates(updates + 3)
        if "bad" in node.node.attempt.intake._flooding:
            state = node.told()  # one hello after the other: nothing of it is read any more
        else:
            state = node.wait_for(lambda now: now.rejected.get("wrong_type"), "the stream is left out")
        assert state.env_steps == state.updates * 2 * STEPS  # of the good client alone
        assert set(state.rejected_by_client) == {"bad"}
        report.injected(
            f"{messages:,} messages of garbage ({sum(state.rejected.values()):,} chunks rejected)"
        )
        report.lost(0, "steps of the other client")
        assert messages > 300 or state.rejected["unreadable"] > 3
        assert messages > 300 or state.rejected["not_admitted"] > 10
