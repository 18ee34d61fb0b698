"""Bad chunks of every kind (R15) and pickles (R16), against a real server and a real training node."""

import pickle
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.experience.segments import Segments
from soulsgui.training.intake.checks import GOOD, check_segments, count_refused
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, ChunkError, pack_chunk
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, dqn_settings, join, running_node
from tests.training.players import Player
from tests.wire.chunks import unpack_chunk

# So many at once, then a good chunk: of a client that only fails nothing is looked at any more.
BURST = 40
HALF = 8

Made = tuple[bytes, dict[str, int], int]
"""A payload, what is to be refused of it by reason, and how many of its steps are good."""


class Forger:
    """Makes bad chunks of which it is known why they must be refused.

    Args:
        player: Whose good chunks are spoilt.
        node: The node they are made for.
        seed: Of what is drawn.
    """

    def __init__(self, player: Player, node: RunningNode, seed: int) -> None:
        self._rng = random.Random(seed)
        self._player = player
        config = player.config()
        assert config is not None
        self._config = config
        self._node = node.node
        self._good = player.play(HALF)
        self._bytes = self._pack(self._good)
        self._steps = self._good.steps

    def make(self) -> Made:
        """Return one of the kinds there are."""
        kinds: tuple[Callable[[], Made], ...] = (
            self._garbage, self._truncated, self._flipped, self._not_finite, self._beyond_bounds,
            self._misshapen, self._stale, self._of_another_lineage, self._of_others,
        )  # fmt: skip
        return self._rng.choice(kinds)()

    def _pack(self, made: Segments, run: str = "", contract: str = "") -> bytes:
        return pack_chunk(run or self._config.run_id, contract or self._config.contract, made)

    def _spoilt(self, column: str, value: Any, reason: str) -> Made:
        """Spoil one value: one of the two segments is refused for it, the other is good."""
        spoilt = getattr(self._good, column).copy()
        spoilt.reshape(-1)[0] = value
        made = replace(self._good, **{column: spoilt})
        return self._pack(made), {reason: 1}, self._steps // 2

    def _garbage(self) -> Made:
        return self._rng.randbytes(self._rng.randrange(300)), {"unreadable": 1}, 0

    def _truncated(self) -> Made:
        length = self._rng.randrange(len(self._bytes))
        return self._bytes[:length], {"unreadable" if length < 32 else "shape": 1}, 0

    def _flipped(self) -> Made:
        """Damage some bytes; what is still good of it is told by opening and checking it alone."""
        damaged = bytearray(self._bytes)
        for _ in range(self._rng.randrange(1, 6)):
            damaged[self._rng.randrange(len(damaged))] = self._rng.randrange(256)
        data, spaces = bytes(damaged), self._node.training.spaces
        box = spaces.observation
        try:
            made = unpack_chunk(data, self._config.run_id, self._config.contract, box.shape, box.dtype)
        except ChunkError as error:
            return data, {error.reason.value: 1}, 0
        newest = self._node.training.model_id
        codes = check_segments(
            made, spaces, self._node.attempt.publisher.digests, newest - 64, newest, self._player.num_envs
        )
        return data, count_refused(codes), int(made.length[codes == GOOD].sum())

    def _not_finite(self) -> Made:
        column = self._rng.choice(("obs", "reward", "log_prob"))
        return self._spoilt(column, self._rng.choice((np.nan, np.inf, -np.inf)), "not_finite")

    def _beyond_bounds(self) -> Made:
        bad = [("action", 2), ("action", -1), ("obs", 1e4), ("reward", 1e20), ("log_prob", 0.5), ("flags", 9),
               ("env_index", 2), ("env_index", -1), ("episode", -5), ("first_step", -1)]  # fmt: skip
        return self._spoilt(*self._rng.choice(bad), "out_of_bounds")

    def _misshapen(self) -> Made:
        good = self._good
        made = self._rng.choice((
            replace(good, obs=good.obs[:, :3]),
            replace(good, obs=good.obs.astype(np.float64)),
            replace(good, obs=good.obs.astype(np.uint8)),
            replace(good, reward=good.reward[:-1]),
            replace(good, length=good.length + 1),
            replace(good, length=np.array([self._steps, 0], np.int32)),
        ))  # fmt: skip
        return self._pack(made), {"shape": 1}, 0

    def _stale(self) -> Made:
        model_id = self._rng.choice((0, self._node.training.model_id + 1, 2**62, -1))
        ids = np.array([model_id, self._node.training.model_id])
        made = replace(self._good, model_id_first=ids, model_id_last=ids)
        return self._pack(made), {"late": 1}, self._steps // 2

    def _of_another_lineage(self) -> Made:
        return self._spoilt("digest", self._rng.randrange(2**64), "lineage")

    def _of_others(self) -> Made:
        run = self._rng.random() < 0.5
        data = self._pack(self._good, run="another") if run else self._pack(self._good, contract="another")
        return data, {"other_run" if run else "contract": 1}, 0


def _fuzz(address: Address, root: Path, messages: int) -> tuple[Counter[str], float]:
    """Send bad chunks to a node beside a good client; return what was refused, and the time it took."""
    settings = dqn_settings(dqn__learning_starts=100_000, dqn__buffer_size=100_000)
    with running_node(address, root, settings) as node:
        good, bad = join(node, "good"), join(node, "bad")
        forger = Forger(bad, node, seed=3)
        expected: Counter[str] = Counter()
        steps = 0
        began = time.monotonic()
        for first in range(0, messages, BURST):
            pipeline = node.connection.pipeline(transaction=False)
            for _ in range(min(BURST, messages - first)):
                data, refused, kept = forger.make()
                pipeline.xadd(node.keys.chunks("bad"), {"c": data, "n": bad.number})
                bad.number += 1
                expected.update(refused)
                steps += kept
            pipeline.execute()
            bad.deliver(HALF)
            good.deliver(HALF)
            steps += 2 * 2 * HALF
        for _ in range(5):  # too large, and seen before
            bad.send(bytes(MAX_CHUNK_BYTES + 1))
            bad.send(b"the number is taken before anything is read", number=0)
        expected.update({"too_large": 5, "repeated": 5})
        until(lambda: node.node.training.env_steps == steps, "all that is good was taken in")
        node.wait_for(lambda now: now.rejected == dict(expected), f"{dict(expected)} were refused")
        seconds = time.monotonic() - began
        node.connection.delete(node.keys.chunks("bad"))
        node.connection.set(node.keys.chunks("bad"), "mine")
        expected["wrong_type"] += 1
        good.deliver(HALF)
        state = node.wait_for(lambda now: now.rejected.get("wrong_type"), "its stream is left out")
        until(lambda: node.node.training.env_steps == steps + 2 * HALF, "the other one goes on")
        _assert_only_good(node, steps + 2 * HALF)
        assert state.rejected_by_client == {"bad": dict(expected)}
        assert 0 < len(node.node.attempt.intake.rejects) <= 64
        return expected, seconds


def _assert_only_good(node: RunningNode, steps: int) -> None:
    """Look at all that reached the learner."""
    memory = node.node.learner.memory
    assert len(memory) == memory.inserted == steps
    drawn = memory.draw(20_000, np.random.default_rng(1)).batch
    assert node.node.training.spaces.observation.contains(drawn.obs).all()
    assert node.node.training.spaces.observation.contains(drawn.next_obs).all()
    assert np.isin(drawn.action, (0, 1)).all()
    assert (np.abs(drawn.reward) <= 1e15).all()


@pytest.mark.allow_warnings
@pytest.mark.parametrize("messages", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_messages_reach_no_learner_and_are_all_counted(
    redis_address: Address, tmp_path: Path, report: Report, messages: int
) -> None:
    refused, seconds = _fuzz(redis_address, tmp_path, messages)
    assert {"unreadable", "shape", "not_finite", "out_of_bounds", "late", "lineage", "contract"} < set(
        refused
    )
    counts = ", ".join(f"{count} {reason}" for reason, count in refused.most_common())
    report.injected(f"{messages} bad chunks in {seconds:.1f} s ({counts})")
    report.lost(0, "chunks of the other client")


class Bomb:
    """Leaves a file behind when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self._canary = canary

    def __reduce__(self) -> tuple[object, ...]:
        return (Path.touch, (self._canary,))


@pytest.mark.allow_warnings
def test_a_pickle_is_never_executed(redis_address: Address, tmp_path: Path, report: Report) -> None:
    canary = tmp_path / "canary"
    sent = 0
    with running_node(redis_address, tmp_path / "run", dqn_settings()) as node:
        player = join(node)
        connection, keys = node.connection, node.keys
        good = pack_chunk("run", "contract", player.play(HALF))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            bomb = pickle.dumps(Bomb(canary), protocol)
            player.send(bomb)
            connection.xadd(keys.chunks("c"), {"c": good + bomb, "n": bomb})
            connection.xadd(keys.chunks("c"), {bomb: bomb})
            connection.xadd(keys.episodes("c"), {"e": bomb})
            connection.set(keys.beat("c"), bomb)
            connection.set(keys.config, bomb)
            sent += 6
        node.wait_for(lambda now: sum(now.rejected.values()) >= sent // 2, "the chunks are refused")
        connection.xadd(keys.chunks("c"), {"hello": bomb})
        until(
            # Between the end of the session before and the beginning of this one there is none.
            lambda: (
                (session := node.node.attempt.intake.sessions.by_client.get("c")) is not None
                and session.status == "refused"
            ),
            "its hello is refused",
        )
        assert not canary.exists()
        kept = node.node.attempt.intake.rejects
        until(lambda: connection.exists(keys.rejects), "they are kept to be looked at")
        assert len(kept) > 0
    assert not canary.exists()
    pickle.loads(pickle.dumps(Bomb(canary)))
    assert canary.exists(), "the canary sings when it is asked to"
    report.injected(f"{sent + 1} pickles as chunk, number, field, episode, beat, configuration and hello")
