"""Whole runs on a real server: each kind of action, mask, observation and network, by client and by hand."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import UsageError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, field_of
from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.sampling import DQNConnector, PPOConnector
from soulsgui.sampling.simulate import SampleMaker
from soulsgui.training.intake.checks import check_segments
from soulsgui.training.nodes import tell_networks
from soulsgui.wire.codec import WeightsHeader, pack_sample
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.server_config import ServerConfig
from tests.environments.toys import SPACES_TAKEN, Masked, Room, Taking, valid_at
from tests.faults.waiting import LIMIT_S
from tests.rl.support import SPACES
from tests.rl.support import dqn_settings as agent_settings
from tests.sampling.free_trainer import playing_client
from tests.sampling.loops import play_by_hand
from tests.training.nodes import (
    Heard,
    RunningNode,
    RunNode,
    dqn_settings,
    heard_batches,
    let_play,
    settings_of,
    small_settings,
)
from tests.wire.chunks import unpack_chunk

# Who leaves in the middle of a round is missed.
pytestmark = pytest.mark.allow_warnings


TAKING = "tests.environments.toys:ToysTaking-v0"


def _taking(takes: str, **changed: Any) -> Any:
    kwargs = {"takes": takes, "masked": takes == "choices"}
    # Wide: many a number is drawn beyond its bounds.
    wide = {"network__initial_std": 3.0, "network__policy_init_scale": 1.0}
    return small_settings(env__id=TAKING, env__kwargs=kwargs, env__num_envs=2, **wide, **changed)


def _check_actions(node: RunningNode, heard: list[Heard]) -> None:
    """Check that what came is what the policy says of it: the ratio begins at 1."""
    batch, spec = heard[0].batch, node.node.training.spaces.action
    assert (batch.action.shape[1:], batch.action.dtype) == (spec.shape, spec.dtype)
    assert spec.contains(batch.action).all()
    mask = None if batch.action_mask is None else batch.action_mask[batch.step_rows]
    expected = heard[0].policy.log_prob(batch.obs[batch.step_rows], batch.action, mask)
    np.testing.assert_allclose(batch.log_prob, expected, rtol=1e-4, atol=1e-4)
    assert (mask is not None) == spec.masked
    assert len(np.unique(batch.action, axis=0)) > 3


@pytest.mark.parametrize("takes", ["choices", "grid", "double"])
def test_a_client_plays_for_ppo(run_node: RunNode, monkeypatch: pytest.MonkeyPatch, takes: str) -> None:
    with run_node(_taking(takes)) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        heard = heard_batches(node, monkeypatch)
        with playing_client(node.address):
            assert node.wait_for_updates(2).rejected == {}
        _check_actions(node, heard)


@pytest.mark.parametrize(("takes", "squash"), [("choices", "tanh"), ("box", "tanh"), ("box", "clip")])
def test_loops_play_ppo(run_node: RunNode, monkeypatch: pytest.MonkeyPatch, takes: str, squash: str) -> None:
    settings = _taking(takes, network__squash=squash)
    with run_node(settings) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        heard = heard_batches(node, monkeypatch)
        connector = PPOConnector({"env": {"id": TAKING, "kwargs": settings.env.kwargs}}, node.address, "c")
        try:
            connector.sync(LIMIT_S)
            play_by_hand(connector, Taking(takes, masked=takes == "choices"), lambda: connector.steps_left)
            connector.sync(LIMIT_S)
            assert node.wait_for_updates(1).rejected == {}
            _check_actions(node, heard)
            if takes == "box":
                # What was drawn beyond the bounds came as it was drawn, not as what it became.
                assert np.abs(heard[0].batch.action).max() > 2
                with pytest.raises(UsageError, match="that can't be"):
                    _push(connector, np.zeros(2, np.float32), np.float32([0, 0, 9]))
                # Nobody drew it here.
                _push(connector, np.zeros(2, np.float32), np.float32([2, 0.5, 5.5]))
        finally:
            connector.close()


def _push(connector: PPOConnector, obs: Any, action: Any, step_id: int = 0, **masks: Any) -> None:
    connector.push_sample(
        pack_sample(obs, action, 0.0, obs, False, False, masks, connector.model_id, step_id)
    )


@pytest.mark.parametrize(
    "env", [*(Taking(name) for name in SPACES_TAKEN if name != "words"), Room(), Room(picture=False)]
)
def test_simulated_clients_send_what_the_server_accepts(env: Any) -> None:
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space).with_masks(isinstance(env, Taking))
    config = ServerConfig(run_id="r", attempt=1, contract="c", spaces=spaces.to_json(), policy={})
    header = WeightsHeader(run_id="r", attempt=1, model_id=3, update=0, digest="00" * 8)
    box, action = spaces.observation, spaces.action
    data = SampleMaker(config).chunk(0, 0, 50, header)
    opened = unpack_chunk(
        data, "r", "c", box.shape, box.dtype, spaces.masked_actions, None, action.shape, action.dtype
    )
    assert not check_segments(opened, spaces, {3: digest_number("00" * 8)}, 3, 3, 1).any()
    varied = opened.action if isinstance(env, Taking) else np.asarray(field_of(opened.obs, NUMBERS))
    assert len(np.unique(varied, axis=0)) > 3


MASKED: dict[str, Any] = {"env__id": "tests.environments.toys:ToysMasked-v0", "env__num_envs": 2}
CONFIG = {"env": {"id": MASKED["env__id"]}}
GRU = small_settings(
    **MASKED,
    network__recurrent="gru",
    network__recurrent_size=6,
    ppo__n_steps=20,
    ppo__learning_rate=0.05,
    client__segment_length=2,
)
R2D2 = dqn_settings(
    **MASKED,
    dqn__agent="r2d2",
    dqn__burn_in=0,
    dqn__sequence_length=4,
    network__recurrent="lstm",
    network__recurrent_size=6,
)


def _check_masks(one: Heard) -> None:
    batch = one.batch
    rows, masks = batch.step_rows, batch.action_mask
    np.testing.assert_array_equal(masks[rows], valid_at(np.asarray(batch.obs[rows])))
    assert masks[rows, batch.action - 1].all()
    # One of two is valid: more than ln 2 is nowhere to be had.
    alone = np.exp(batch.log_prob)[masks[rows].sum(axis=1) == 1]
    np.testing.assert_allclose(alone, 1, rtol=1e-5)


def _check_remembered(one: Heard) -> int:
    """Check what was remembered and said; return how many segments begin within an episode."""
    batch, remembered = one.batch, one.policy.remembered
    state, at = batch.state[MEMORY], 0
    first = np.cumsum(batch.length + 1) - batch.length - 1
    begins = batch.obs[first, 1] == 0
    assert not state[begins].any()
    assert np.abs(state[~begins]).max() > 0.01
    for index, row in enumerate(first):
        if batch.joined[index]:  # of the same round and episode: the same weights led here
            np.testing.assert_allclose(state[index], remembered.fields[MEMORY][0], atol=1e-5)
        remembered.fields[MEMORY] = state[index][None]
        for step in range(batch.length[index]):
            here = np.s_[row + step : row + step + 1]
            obs, mask, action = batch.obs[here], batch.action_mask[here], batch.action[at : at + 1]
            said = one.policy.log_prob(obs, action, mask)
            np.testing.assert_allclose(batch.log_prob[at], said[0], atol=1e-5)
            one.policy.greedy(obs, mask)
            at += 1
    return int(np.count_nonzero(~begins))


def _check_memory(node: RunningNode) -> None:
    """Check what the replay memory of a `Masked` holds."""
    drawn = node.node.learner.memory.draw(2000, np.random.default_rng(0)).batch
    assert valid_at(drawn.obs)[np.arange(2000), drawn.action - 1].all()
    ended = drawn.next_obs[:, 1] == 3
    assert ended.any()
    assert drawn.next_mask[ended].all()
    np.testing.assert_array_equal(drawn.next_mask[~ended], valid_at(drawn.next_obs[~ended]))


def _check_sequences(node: RunningNode) -> None:
    """Check where the sequences of a `Masked` begin in the memory, and with what."""
    batch = node.node.learner.memory.draw(4000, np.random.default_rng(0)).batch
    begins = batch.obs[0, :, 1]  # segments have one step or two, episodes have three
    assert {0.0} < set(begins) <= {0.0, 1.0, 2.0}
    np.testing.assert_array_equal(batch.exact, begins == 0)
    assert not batch.state[batch.exact].any()
    assert (np.abs(batch.state[~batch.exact]).max(axis=1) > 0).all()
    np.testing.assert_array_equal(
        batch.obs[batch.valid.sum(0), np.arange(len(begins)), 1], begins + batch.valid.sum(0)
    )
    assert set(batch.valid.sum(0)[batch.exact]) <= {1, 2, 3}


@pytest.mark.parametrize("by_hand", [False, True], ids=["client", "by hand"])
@pytest.mark.parametrize("memory", [False, True], ids=["without", "memory"])
def test_rounds_hold_valid_actions_and_what_was_remembered(
    run_node: RunNode, monkeypatch: pytest.MonkeyPatch, memory: bool, by_hand: bool
) -> None:
    with run_node(GRU if memory else small_settings(**MASKED)) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        rounds = heard_batches(node, monkeypatch)
        assert node.node.training.spaces.action.masked
        if by_hand:
            _play_rounds(PPOConnector(CONFIG, node.address, "c"), node, memory)
        else:
            with playing_client(node.address):
                assert node.wait_for_updates(3).rejected == {}
    # A fourth round is as long as the client stayed in it.
    for one in rounds[:3]:
        _check_masks(one)
        assert not memory or _check_remembered(one) > 3


def _play_rounds(connector: PPOConnector, node: RunningNode, memory: bool) -> None:
    rounds = 0

    def go_on() -> bool:
        nonlocal rounds
        while not connector.steps_left and rounds < 4:
            connector.sync(LIMIT_S)
            rounds += 1
        return rounds < 4

    try:
        play_by_hand(connector, Masked(), go_on)
        assert node.wait_for_updates(3).rejected == {}
        obs, info = Masked().reset()
        with pytest.raises(UsageError, match="leaves no action"):
            connector.agent(obs, np.zeros(4))
        if memory:
            action = np.flatnonzero(info["action_mask"])[0] + 1
            masks = dict.fromkeys(("action_mask", "next_action_mask"), np.ones(4, np.int8))
            with pytest.raises(UsageError, match="not asked about"):
                _push(connector, obs + 1, action, 1, **masks)
            connector.agent(obs, info["action_mask"])
            assert connector._remembered.fields[MEMORY].any()
            connector.begin_episode()
            assert not connector._remembered.fields[MEMORY].any()
    finally:
        connector.close()


@pytest.mark.parametrize("by_hand", [False, True], ids=["client", "by hand"])
@pytest.mark.parametrize("memory", [False, True], ids=["without", "memory"])
def test_memories_hold_valid_actions_and_states(run_node: RunNode, memory: bool, by_hand: bool) -> None:
    with run_node(R2D2 if memory else dqn_settings(**MASKED)) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        if by_hand:
            connector = DQNConnector(CONFIG, node.address, "c")
            try:
                # What came before learning began is not owed any updates: it plays until there are some.
                play_by_hand(
                    connector, Masked(), lambda: node.failure is None and node.node.agent.updates < 3
                )
                assert node.wait_for_updates(3).rejected == {}
                (_check_sequences if memory else _check_memory)(node)
            finally:
                connector.close()
        else:
            let_play(node, updates=20)
            (_check_sequences if memory else _check_memory)(node)


IMAGES: dict[str, Any] = {"network__name": "impala_resnet", "env__num_envs": 2, "ppo__epochs": 1}
ROOM = IMAGES | {
    "env__id": "tests.environments.toys:ToysRoom-v0",
    "env__kwargs": {"sides": [12, 12]},
    "env__wrappers": [{"FrameStackObservation": {"stack_size": 3}}],
}
STACK, LENGTH = 4, 9
CAMERA: dict[str, Any] = {
    "env__id": "tests.environments.toys:ToysCamera-v0",
    "env__num_envs": 2,
    "env__wrappers": [{"FrameStackObservation": {"stack_size": STACK}}],
}
LAKE = {"env__id": "FrozenLake-v1", "env__kwargs": {"is_slippery": False}}


def test_the_networks_are_told_in_log_and_folder(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = RunFolder(tmp_path)
    with caplog.at_level(logging.INFO):
        tell_networks(DQNAgent(SPACES, agent_settings(), seed=0), run, "4×84×84: 4 channels (first)")
    image, *lines = run.network.read_text(encoding="utf-8").splitlines()
    assert image == "image 4×84×84: 4 channels (first)"
    assert caplog.messages == [image, *lines]
    assert lines[0] == f"values: {4 * 32 + 32 + 32 * 32 + 32 + 32 * 3 + 3:,} parameters"
    assert [line.split() for line in lines[1:]] == [
        ["0", "Linear", "32", "160"], ["1", "Tanh", "32", "0"], ["2", "Linear", "32", "1,056"],
        ["3", "Tanh", "32", "0"], ["4", "Linear", "3", "99"],
    ]  # fmt: skip
    tell_networks(np.zeros(1), RunFolder(tmp_path / "other"))  # what can't tell is passed over
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("algorithm", "settings"),
    [
        ("ppo", IMAGES | CAMERA),
        ("dqn", IMAGES | CAMERA),
        ("ppo", ROOM),
        ("dqn", ROOM),
        ("vtrace", ROOM),
        ("ppo", LAKE),
        ("dqn", {"env__id": "Blackjack-v1"}),
        ("vtrace", {"env__id": "Taxi-v4"}),
    ],
)
def test_images_and_choices_are_learned(run_node: RunNode, algorithm: str, settings: dict[str, Any]) -> None:
    with run_node(settings_of(algorithm, **settings)) as node:
        # Joining, it compared its network with the server's.
        assert let_play(node, updates=3).checks["network"]
        images = "env__wrappers" in settings
        assert node.node.attempt.intake.ingest._form.is_compressed is images
        if settings == IMAGES | CAMERA:
            assert not node.node.agent.normaliser.count
        if algorithm != "dqn" or settings == IMAGES | CAMERA:
            return
        drawn = node.node.learner.memory.draw(500, np.random.default_rng(0)).batch
    if settings is not ROOM:
        assert (drawn.obs.dtype, drawn.obs.shape) == (np.int32, (500, 3))
        return
    # Each picture came with its own numbers: the door is as many as the picture is bright, and one more.
    assert drawn.obs[IMAGE].shape == (500, 3, 12, 12)
    for obs in (drawn.obs, drawn.next_obs):
        np.testing.assert_array_equal(obs[NUMBERS][:, :3] - 1, obs[IMAGE][:, :, 0, 0])


def test_stacks_of_frames_reach_the_replay_memory_whole(run_node: RunNode) -> None:
    settings = dqn_settings(**CAMERA, env__kwargs={"length": LENGTH}, dqn__n_step=1)
    with run_node(settings) as node:
        sent = let_play(node, updates=5)
        assert node.node.attempt.intake.ingest._form.is_compressed
        assert sent.sent_bytes < 100 * sent.env_steps, "144 bytes a frame and 4 frames an observation"
        drawn = node.node.learner.memory.draw(2000, np.random.default_rng(0)).batch
    assert drawn.obs.shape == (2000, STACK, 12, 12)
    assert (drawn.obs == drawn.obs[:, :, :1, :1]).all()
    newest = drawn.obs[:, -1, 0, 0].astype(np.int64)
    expected = np.maximum(newest[:, None] - np.arange(STACK)[::-1], 0)
    np.testing.assert_array_equal(drawn.obs[:, :, 0, 0], expected)
    np.testing.assert_array_equal(drawn.next_obs[:, :-1], drawn.obs[:, 1:])
    np.testing.assert_array_equal(drawn.next_obs[:, -1, 0, 0], newest + 1)
    np.testing.assert_array_equal(drawn.discount == 0, newest == LENGTH - 1)
