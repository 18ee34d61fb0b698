"""Masks, states and compressed frames: what is good reaches the learner untouched, what is bad never does."""

import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.buffers.rollout import RolloutStore
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import MAX_CHUNK_BYTES, digest_number, pack_chunk
from tests.faults.report import Report
from tests.faults.waiting import until
from tests.training.nodes import RunningNode, dqn_settings, join, next_round, running_node, small_settings
from tests.training.players import Player

SHAPE = (4, 12, 12)
ACTIONS = 5
SPACES = SpacesSpec(BoxSpec(SHAPE, "uint8", (0,), (255,)), DiscreteSpec(ACTIONS, 1, masked=True))
STATE = {"hidden": [3, 2], "cell": [1]}
LENGTHS = np.array([5, 3], np.int32)
STEPS = int(LENGTHS.sum())
SHORTEST_HEAD = 32


@pytest.fixture(autouse=True)
def _policies_remember(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every policy declares a state, as recurrent ones do."""
    for agent in (DQNAgent, PPOAgent):
        spec = agent.policy_spec
        monkeypatch.setattr(agent, "policy_spec", lambda self, of=spec: of(self) | {"state": STATE})


@contextmanager
def _node(address: Address, root: Path, settings: Any) -> Iterator[RunningNode]:
    """Run a node whose environment shows stacks of frames and tells which actions are valid."""
    root.mkdir(parents=True, exist_ok=True)
    RunFolder(root).spaces.write_text(json.dumps(SPACES.to_json()))
    with running_node(address, root, settings) as node:
        yield node


def _played(player: Player, rng: np.random.Generator, lengths: Any = LENGTHS) -> Segments:
    """Return segments, one of each environment, played with the newest weights."""
    lengths = np.array(lengths, np.int32)
    count, steps = len(lengths), int(lengths.sum())
    frames = [rng.integers(0, 256, (length + SHAPE[0], *SHAPE[1:]), np.uint8) for length in lengths]
    obs = np.stack([one[n : n + SHAPE[0]] for one in frames for n in range(len(one) - SHAPE[0] + 1)])
    mask = rng.random((steps + count, ACTIONS)) < 0.5
    index = rng.integers(ACTIONS, size=steps)
    acted_on = np.arange(steps) + np.repeat(np.arange(count), lengths)
    mask[acted_on, index] = True
    mask[:, 0] |= ~mask.any(axis=1)
    header, _ = player.weights()
    return Segments(
        env_index=np.arange(count, dtype=np.int32),
        episode=np.zeros(count, np.int64),
        first_step=np.zeros(count, np.int64),
        length=lengths,
        model_id_first=np.full(count, header.model_id, np.int64),
        model_id_last=np.full(count, header.model_id, np.int64),
        digest=np.full(count, digest_number(header.digest), np.uint64),
        flags=np.zeros(count, np.uint8),
        obs=obs,
        action=index + SPACES.action.start,
        reward=rng.normal(size=steps).astype(np.float32),
        log_prob=np.full(steps, -1.0, np.float32),
        action_mask=mask,
        state={name: rng.normal(size=(count, *shape)).astype(np.float32) for name, shape in STATE.items()},
    )


def _pack(player: Player, made: Segments) -> bytes:
    config = player.config()
    assert config is not None
    return pack_chunk(config.run_id, config.contract, made)


def test_frames_masks_and_states_reach_the_learner_of_a_round_untouched(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken: list[Segments] = []
    add = RolloutStore.add

    def listen(self: RolloutStore, found: Segments, clients: Any) -> None:
        taken.append(found)
        add(self, found, clients)

    monkeypatch.setattr(RolloutStore, "add", listen)
    with _node(redis_address, tmp_path / "run", small_settings()) as node:
        player = join(node)
        steps = next_round(player).steps // player.num_envs
        made = _played(player, np.random.default_rng(0), [steps, steps])
        player.send(_pack(player, made))
        node.wait_for_updates(1)
    (found,) = taken
    np.testing.assert_array_equal(found.obs, made.obs)
    np.testing.assert_array_equal(found.action_mask, made.action_mask)
    assert set(found.state) == set(STATE)
    for name in STATE:
        np.testing.assert_array_equal(found.state[name], made.state[name])


class _Spoiler:
    """Makes bad chunks of which it is known why they must be refused."""

    def __init__(self, player: Player, seed: int) -> None:
        self._rng = random.Random(seed)
        self._player = player
        self._good = _played(player, np.random.default_rng(seed))
        self._bytes = _pack(player, self._good)

    def make(self) -> tuple[bytes, str, int]:
        """Return a payload, the reason it is refused for, and how many of its steps are good."""
        kinds: tuple[Callable[[], tuple[bytes, str, int]], ...] = (
            self._no_action, self._invalid_action, self._state_not_finite, self._state_too_large,
            self._other_masks, self._other_state, self._frames, self._bomb, self._cut, self._stacking,
        )  # fmt: skip
        return self._rng.choice(kinds)()

    def _spoilt(self, reason: str, **columns: Any) -> tuple[bytes, str, int]:
        """The first segment is spoilt, the second is good."""
        return _pack(self._player, replace(self._good, **columns)), reason, int(LENGTHS[1])

    def _no_action(self) -> tuple[bytes, str, int]:
        mask = self._mask()
        mask[self._rng.randrange(LENGTHS[0] + 1)] = False
        return self._spoilt("action_mask", action_mask=mask)

    def _invalid_action(self) -> tuple[bytes, str, int]:
        mask, at = self._mask(), self._rng.randrange(LENGTHS[0])
        mask[at] = True
        mask[at, self._good.action[at] - SPACES.action.start] = False
        return self._spoilt("action_mask", action_mask=mask)

    def _mask(self) -> Any:
        assert self._good.action_mask is not None
        return self._good.action_mask.copy()

    def _state_not_finite(self) -> tuple[bytes, str, int]:
        return self._spoilt("not_finite", state=self._state(self._rng.choice((np.nan, np.inf, -np.inf))))

    def _state_too_large(self) -> tuple[bytes, str, int]:
        return self._spoilt("out_of_bounds", state=self._state(self._rng.choice((1e30, -1e20))))

    def _state(self, value: float) -> dict[str, Any]:
        state = {name: values.copy() for name, values in self._good.state.items()}
        state[self._rng.choice(list(STATE))][0].reshape(-1)[0] = value
        return state

    def _other_masks(self) -> tuple[bytes, str, int]:
        mask = self._rng.choice((None, np.ones((STEPS + 2, 2 * ACTIONS), np.bool_)))
        # Masks that are missing move what is behind them: what stands there then are no frames.
        return _pack(self._player, replace(self._good, action_mask=mask)), "shape", 0

    def _other_state(self) -> tuple[bytes, str, int]:
        state = self._rng.choice(({}, self._good.state | {"more": np.zeros((2, 50), np.float32)}))
        return _pack(self._player, replace(self._good, state=state)), "shape", 0

    def _frames(self) -> tuple[bytes, str, int]:
        """Put something else in the place of the frames."""
        other = self._rng.randbytes(self._rng.randrange(1, 500))
        return self._with_frames(other), "shape", 0

    def _bomb(self) -> tuple[bytes, str, int]:
        """Frames that claim, or truly have, another size."""
        size = self._rng.choice((0, 1, 2**20, 2**28))
        return self._with_frames(zstandard.ZstdCompressor(3).compress(bytes(size))), "shape", 0

    def _with_frames(self, frames: bytes) -> bytes:
        return self._bytes[: self._bytes.index(zstandard.FRAME_HEADER)] + frames

    def _cut(self) -> tuple[bytes, str, int]:
        length = self._rng.randrange(SHORTEST_HEAD, len(self._bytes))
        return self._bytes[:length], "shape", 0

    def _stacking(self) -> tuple[bytes, str, int]:
        """Say that frames are stacked in another way, or that there are a million steps."""
        data = bytearray(self._bytes)
        if self._rng.random() < 0.5:
            data[6] = self._rng.choice((0, 2, 3, 255))
            return bytes(data), "shape", 0
        data[28:32] = (MAX_CHUNK_BYTES // 100).to_bytes(4, "little")
        return bytes(data), "too_large", 0


@pytest.mark.allow_warnings
def test_bad_masks_states_and_frames_reach_no_learner_and_are_all_counted(
    redis_address: Address, tmp_path: Path, report: Report
) -> None:
    settings = dqn_settings(dqn__learning_starts=20_000, dqn__buffer_size=20_000)
    with _node(redis_address, tmp_path / "run", settings) as node:
        bad, good = join(node, "bad"), join(node, "good")
        spoiler, rng = _Spoiler(bad, seed=5), np.random.default_rng(1)
        expected: Counter[str] = Counter()
        steps = 0
        for _ in range(20):
            for _ in range(20):
                data, reason, kept = spoiler.make()
                bad.send(data)
                expected[reason] += 1
                steps += kept
            for player in (bad, good):
                player.send(_pack(player, _played(player, rng)))
                steps += STEPS
        until(lambda: node.node.training.env_steps == steps, "all that is good was taken in")
        state = node.wait_for(lambda now: now.rejected == dict(expected), f"{dict(expected)} were refused")
        assert state.rejected_by_client == {"bad": dict(expected)}
        assert set(expected) == {"action_mask", "not_finite", "out_of_bounds", "shape", "too_large"}
        drawn = node.node.learner.memory.draw(5000, np.random.default_rng(1)).batch
        assert drawn.next_mask.any(axis=1).all()
        assert SPACES.action.contains(drawn.action).all()
    report.injected(f"{sum(expected.values())} bad chunks with masks, states and frames")
    report.lost(0, "chunks of the other client")
