"""Bad chunks of every kind (R15) and pickles (R16), against a real server and a real training node."""

import json
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
import zstandard

from soulsgui.config.paths import RunFolder
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.training.intake.checks import GOOD, check_segments, count_refused
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, ChunkError, pack_chunk
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, dqn_settings, join, running_node
from tests.training.players import Player, played_with
from tests.wire.chunks import Canary, segments, unpack_chunk

# So many at once, then a good chunk: of a client that only fails nothing is looked at any more.
BURST = 40
HALF = 8
SHORTEST_HEAD, STACKING_AT, STEPS_AT = 32, 6, 28

Made = tuple[bytes, dict[str, int], int]
"""A payload, what is to be refused of it by reason, and how many of its steps are good."""


class Forger:
    """Makes bad chunks of which it is known why they must be refused, by spoiling two good segments."""

    def __init__(self, player: Player, node: RunningNode, good: Segments) -> None:
        self.player = player
        self._rng = random.Random(3)
        self._good = good
        self._node = node.node
        self._bytes = player.packed(good)
        self._second = int(good.length[1])
        self.kinds: tuple[Callable[[], Made], ...] = (
            self._garbage, self._truncated, self._flipped, self._strange, self._not_finite,
            self._beyond_bounds, self._misshapen, self._stale, self._of_another_lineage, self._of_others,
        )  # fmt: skip

    def send(self, count: int, players: dict[Player, Callable[[], Segments]]) -> tuple[Counter[str], int]:
        """Send bad chunks, good ones of players in between; return what is to be refused, and good steps."""
        expected: Counter[str] = Counter()
        steps = 0
        for _ in range(0, count, BURST):
            for _ in range(BURST):
                data, refused, kept = self._rng.choice(self.kinds)()
                self.player.send(data)
                expected.update(refused)
                steps += kept
            for player, play in players.items():
                made = play()
                player.send(player.packed(made))
                steps += made.steps
        return expected, steps

    def _spoilt(self, reason: str, **columns: Any) -> Made:
        """The first segment is spoilt, the second is good."""
        return self.player.packed(replace(self._good, **columns)), {reason: 1}, self._second

    def _with_value(self, reason: str, column: str, value: Any) -> Made:
        spoilt = getattr(self._good, column).copy()
        spoilt.reshape(-1)[0] = value
        return self._spoilt(reason, **{column: spoilt})

    def _garbage(self) -> Made:
        return self._rng.randbytes(self._rng.randrange(300)), {"unreadable": 1}, 0

    def _truncated(self) -> Made:
        length = self._rng.randrange(len(self._bytes))
        return self._bytes[:length], {"unreadable" if length < SHORTEST_HEAD else "shape": 1}, 0

    def _flipped(self) -> Made:
        damaged = bytearray(self._bytes)
        for _ in range(self._rng.randrange(1, 6)):
            damaged[self._rng.randrange(len(damaged))] = self._rng.randrange(256)
        return self._judged(bytes(damaged))

    def _strange(self) -> Made:
        """Put a value of its type into any column, which may be harmless."""
        columns = {name: one for name, one in vars(self._good).items() if isinstance(one, np.ndarray)}
        name = self._rng.choice(sorted(columns))
        column = columns[name].copy()
        limits = [np.nan, np.inf, 3e38] if column.dtype.kind == "f" else [np.iinfo(column.dtype).max, 0, 1]
        column.reshape(-1)[self._rng.randrange(column.size)] = self._rng.choice(limits)
        return self._judged(self.player.packed(replace(self._good, **{name: column})))

    def _judged(self, data: bytes) -> Made:
        """Tell what is good of a chunk by opening and checking it alone; that must be harmless."""
        spaces, config = self._node.training.spaces, self.player.config()
        assert config is not None
        box = spaces.observation
        try:
            made = unpack_chunk(data, config.run_id, config.contract, box.shape, box.dtype)
        except ChunkError as error:
            return data, {error.reason.value: 1}, 0
        newest, digests = self._node.training.model_id, self._node.attempt.publisher.digests
        codes = check_segments(made, spaces, digests, newest - 64, newest, self.player.num_envs)
        good = codes == GOOD
        if good.any():
            _assert_harmless(made.take(good), digests)
        return data, count_refused(codes), int(made.length[good].sum())

    def _not_finite(self) -> Made:
        column = self._rng.choice(("obs", "reward", "log_prob"))
        return self._with_value("not_finite", column, self._rng.choice((np.nan, np.inf, -np.inf)))

    def _beyond_bounds(self) -> Made:
        bad = [("action", 2), ("action", -1), ("obs", 1e4), ("reward", 1e20), ("log_prob", 0.5), ("flags", 9),
               ("env_index", 2), ("env_index", -1), ("episode", -5), ("first_step", -1)]  # fmt: skip
        return self._with_value("out_of_bounds", *self._rng.choice(bad))

    def _misshapen(self) -> Made:
        good = self._good
        columns = self._rng.choice((
            {"obs": good.obs[:, :3]},
            {"obs": good.obs.astype(np.float64)},
            {"obs": good.obs.astype(np.uint8)},
            {"reward": good.reward[:-1]},
            {"length": good.length + 1},
            {"length": np.array([good.steps, 0], np.int32)},
        ))  # fmt: skip
        return self.player.packed(replace(good, **columns)), {"shape": 1}, 0

    def _stale(self) -> Made:
        newest = self._node.training.model_id
        ids = np.array([self._rng.choice((0, newest + 1, 2**62, -1)), newest])
        return self._spoilt("late", model_id_first=ids, model_id_last=ids)

    def _of_another_lineage(self) -> Made:
        return self._with_value("lineage", "digest", self._rng.randrange(2**64))

    def _of_others(self) -> Made:
        config = self.player.config()
        assert config is not None
        names = {"other_run": ("another", config.contract), "contract": (config.run_id, "another")}
        reason = self._rng.choice(list(names))
        return pack_chunk(*names[reason], self._good), {reason: 1}, 0


def _assert_harmless(made: Segments, digests: dict[int, int]) -> None:
    assert all(np.isfinite(column).all() for column in (made.obs, made.reward, made.log_prob))
    assert np.abs(made.reward).max() <= 1e15
    assert made.log_prob.max() <= 1e-3
    assert np.isin(made.action, (0, 1)).all()
    assert (made.model_id_first <= made.model_id_last).all()
    assert made.digest.tolist() == [digests[int(model_id)] for model_id in made.model_id_last]
    assert made.length.min() > 0
    assert len(made.obs) - made.count == made.steps == made.length.sum()


def _all_counted(node: RunningNode, expected: Counter[str], steps: int) -> None:
    until(lambda: node.node.training.env_steps == steps, "all that is good was taken in")
    state = node.wait_for(lambda now: now.rejected == dict(expected), f"{dict(expected)} were refused")
    assert state.rejected_by_client == {"bad": dict(expected)}


@pytest.mark.allow_warnings
@pytest.mark.parametrize("messages", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_fuzzed_messages_reach_no_learner_and_are_all_counted(
    redis_address: Address, tmp_path: Path, report: Report, messages: int
) -> None:
    settings = dqn_settings(dqn__learning_starts=100_000, dqn__buffer_size=100_000)
    with running_node(redis_address, tmp_path, settings) as node:
        good, bad = join(node, "good"), join(node, "bad")
        began = time.monotonic()
        forger = Forger(bad, node, bad.play(HALF))
        expected, steps = forger.send(messages, {one: lambda one=one: one.play(HALF) for one in (bad, good)})  # type: ignore[misc]
        for _ in range(5):  # too large, and seen before
            bad.send(bytes(MAX_CHUNK_BYTES + 1))
            bad.send(b"the number is taken before anything is read", number=0)
        expected.update({"too_large": 5, "repeated": 5})
        _all_counted(node, expected, steps)
        seconds = time.monotonic() - began
        # At once: a stream that is gone is one whose client was invited anew, of whom nothing is counted yet.
        node.connection.set(node.keys.chunks("bad"), "mine")
        good.deliver(HALF)
        expected["wrong_type"] += 1
        _all_counted(node, expected, steps + 2 * HALF)
        assert 0 < len(node.node.attempt.intake.rejects) <= 64
        memory = node.node.learner.memory
        assert len(memory) == memory.inserted == steps + 2 * HALF
        drawn = memory.draw(20_000, np.random.default_rng(1)).batch
    assert node.node.training.spaces.observation.contains(drawn.obs).all()
    assert node.node.training.spaces.observation.contains(drawn.next_obs).all()
    assert np.isin(drawn.action, (0, 1)).all()
    assert (np.abs(drawn.reward) <= 1e15).all()
    assert {"unreadable", "shape", "not_finite", "out_of_bounds", "late", "lineage", "contract"} < set(
        expected
    )
    counts = ", ".join(f"{count} {reason}" for reason, count in expected.most_common())
    report.injected(f"{messages} bad chunks in {seconds:.1f} s ({counts})")
    report.lost(0, "chunks of the other client")


SHAPE, ACTIONS = (4, 12, 12), 5
SPACES = SpacesSpec(BoxSpec(SHAPE, "uint8", (0,), (255,)), DiscreteSpec(ACTIONS, 1, masked=True))
STATE = {"hidden": [3, 2], "cell": [1]}
LENGTHS = (5, 3)
STEPS = sum(LENGTHS)


def _with_frames(player: Player, rng: np.random.Generator) -> Segments:
    """Return segments of stacked frames with masks and states, played with the newest weights."""
    frames = [rng.integers(0, 256, (length + SHAPE[0], *SHAPE[1:]), np.uint8) for length in LENGTHS]
    mask = rng.random((STEPS + 2, ACTIONS)) < 0.5
    index = rng.integers(ACTIONS, size=STEPS)
    mask[np.arange(STEPS) + np.repeat([0, 1], LENGTHS), index] = True
    mask[:, 0] |= ~mask.any(axis=1)
    return segments(
        LENGTHS,
        **played_with(player.weights()[0]),
        obs=np.stack([one[n : n + SHAPE[0]] for one in frames for n in range(len(one) - SHAPE[0] + 1)]),
        action=index + SPACES.action.start,
        reward=rng.normal(size=STEPS).astype(np.float32),
        action_mask=mask,
        state={name: rng.normal(size=(2, *shape)).astype(np.float32) for name, shape in STATE.items()},
    )


class FrameForger(Forger):
    def __init__(self, player: Player, node: RunningNode, good: Segments) -> None:
        super().__init__(player, node, good)
        self.kinds = (
            self._no_action, self._invalid_action, self._bad_state, self._no_form, self._a_million_steps,
        )  # fmt: skip
        state = good.state | {"more": np.zeros((2, 50), np.float32)}
        masks = np.ones((STEPS + 2, 2 * ACTIONS), np.bool_)
        # Masks that are missing move what is behind them: what stands there then are no frames.
        columns = ({"action_mask": None}, {"action_mask": masks}, {"state": {}}, {"state": state})
        # Frames that claim, or truly have, another size.
        frames = [zstandard.ZstdCompressor(3).compress(bytes(size)) for size in (0, 1, 2**20, 2**28)]
        frames += [self._rng.randbytes(size) for size in (1, 30, 499)]
        cuts = [self._rng.randrange(SHORTEST_HEAD, len(self._bytes)) for _ in range(8)]
        before, behind = self._bytes[:STACKING_AT], self._bytes[STACKING_AT + 1 :]
        self._shapeless = [
            *(player.packed(replace(good, **changed)) for changed in columns),
            *(self._bytes[: self._bytes.index(zstandard.FRAME_HEADER)] + other for other in frames),
            *(self._bytes[:length] for length in cuts),
            *(before + bytes([stacking]) + behind for stacking in (0, 2, 3, 255)),
        ]

    def _no_action(self) -> Made:
        mask = self._mask()
        mask[self._rng.randrange(LENGTHS[0] + 1)] = False
        return self._spoilt("action_mask", action_mask=mask)

    def _invalid_action(self) -> Made:
        mask, at = self._mask(), self._rng.randrange(LENGTHS[0])
        mask[at] = True
        mask[at, self._good.action[at] - SPACES.action.start] = False
        return self._spoilt("action_mask", action_mask=mask)

    def _mask(self) -> Any:
        assert self._good.action_mask is not None
        return self._good.action_mask.copy()

    def _bad_state(self) -> Made:
        state = {name: values.copy() for name, values in self._good.state.items()}
        value = self._rng.choice((np.nan, np.inf, -np.inf, 1e30, -1e20))
        state[self._rng.choice(list(STATE))][0].reshape(-1)[0] = value
        return self._spoilt("out_of_bounds" if np.isfinite(value) else "not_finite", state=state)

    def _no_form(self) -> Made:
        return self._rng.choice(self._shapeless), {"shape": 1}, 0

    def _a_million_steps(self) -> Made:
        data = bytearray(self._bytes)
        data[STEPS_AT : STEPS_AT + 4] = (MAX_CHUNK_BYTES // 100).to_bytes(4, "little")
        return bytes(data), {"too_large": 1}, 0


@pytest.mark.allow_warnings
def test_bad_masks_states_and_frames_reach_no_learner_and_are_all_counted(
    redis_address: Address, tmp_path: Path, report: Report, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = DQNAgent.policy_spec
    monkeypatch.setattr(DQNAgent, "policy_spec", lambda self: spec(self) | {"state": STATE})
    RunFolder(tmp_path).spaces.write_text(json.dumps(SPACES.to_json()))
    settings = dqn_settings(dqn__learning_starts=20_000, dqn__buffer_size=20_000)
    with running_node(redis_address, tmp_path, settings) as node:
        bad, good = join(node, "bad"), join(node, "good")
        rng = np.random.default_rng(1)
        forger = FrameForger(bad, node, _with_frames(bad, rng))
        players = {one: lambda one=one: _with_frames(one, rng) for one in (bad, good)}  # type: ignore[misc]
        expected, steps = forger.send(400, players)
        _all_counted(node, expected, steps)
        drawn = node.node.learner.memory.draw(5000, np.random.default_rng(1)).batch
    assert set(expected) == {"action_mask", "not_finite", "out_of_bounds", "shape", "too_large"}
    assert drawn.next_mask.any(axis=1).all()
    assert SPACES.action.contains(drawn.action).all()
    report.injected(f"{sum(expected.values())} bad chunks with masks, states and frames")
    report.lost(0, "chunks of the other client")


@pytest.mark.allow_warnings
def test_a_pickle_is_never_executed(redis_address: Address, tmp_path: Path, report: Report) -> None:
    canary = Canary(tmp_path / "canary")
    sent = 0
    with running_node(redis_address, tmp_path / "run", dqn_settings()) as node:
        player = join(node)
        connection, keys = node.connection, node.keys
        good = pack_chunk("run", "contract", player.play(HALF))
        for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
            bomb = pickle.dumps(canary, protocol)
            player.send(bomb)
            connection.xadd(keys.chunks("c"), {"c": good + bomb, "n": bomb})
            connection.xadd(keys.chunks("c"), {bomb: bomb})
            connection.xadd(keys.episodes("c"), {"e": bomb})
            connection.set(keys.beat("c"), bomb)
            connection.set(keys.config, bomb)
            sent += 6
        node.wait_for(lambda now: sum(now.rejected.values()) >= sent // 2, "the chunks are refused")
        connection.xadd(keys.chunks("c"), {"hello": bomb})
        sessions = node.node.attempt.intake.sessions.by_client
        # Between the end of the session before and the beginning of this one there is none.
        until(lambda: "c" in sessions and sessions["c"].status == "refused", "its hello is refused")
        until(lambda: connection.exists(keys.rejects), "they are kept to be looked at")
        assert len(node.node.attempt.intake.rejects) > 0
    assert not canary.path.exists()
    pickle.loads(bomb)
    assert canary.path.exists(), "the canary sings when it is asked to"
    report.injected(f"{sent + 1} pickles as chunk, number, field, episode, beat, configuration and hello")
