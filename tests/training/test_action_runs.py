"""Actions of every kind through whole runs over a real server: the environment raises at any other."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import EnvironmentCheckError, UsageError
from soulsgui.experience.frame_stacks import NUMBERS, field_of
from soulsgui.policies.policy import make_policy
from soulsgui.sampling import PPOConnector
from soulsgui.sampling.simulate import SampleMaker
from soulsgui.training.intake.checks import check_segments
from soulsgui.wire.codec import WeightsHeader, pack_sample
from soulsgui.wire.connection import Address
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.server_config import ServerConfig
from tests.environments.toys import SPACES_TAKEN, Room, Taking
from tests.sampling.free_trainer import playing_client
from tests.training.nodes import RunningNode, dqn_settings, running_node, small_settings, vtrace_settings
from tests.wire.chunks import unpack_chunk

ENV_ID = "tests.environments.toys:ToysTaking-v0"


def _settings(takes: str, **changed: Any) -> Any:
    kwargs = {"takes": takes, "masked": takes == "choices"}
    # Wide: many a number is drawn beyond its bounds.
    wide = {"network__initial_std": 3.0, "network__policy_init_scale": 1.0}
    return small_settings(env__id=ENV_ID, env__kwargs=kwargs, env__num_envs=2, **wide, **changed)


def _heard(node: RunningNode, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return what the agent will be given: of each round the batch and the weights before."""
    node.connection.hset(node.keys.clients, "c", "{}")
    heard: list[Any] = []
    agent = node.node.agent
    learn = agent.update

    def listen(batch: Any, progress: float) -> dict[str, float]:
        heard.append((batch, agent.export_weights()))
        figures: dict[str, float] = learn(batch, progress)
        return figures

    monkeypatch.setattr(agent, "update", listen)
    return heard


def _check(node: RunningNode, heard: list[Any]) -> None:
    """Check that what came is what the policy says of it: the ratio begins at 1."""
    batch, weights = heard[0]
    spec = node.node.training.spaces.action
    assert (batch.action.shape[1:], batch.action.dtype) == (spec.shape, spec.dtype)
    assert spec.contains(batch.action).all()
    policy = make_policy(node.node.agent.policy_spec())
    policy.load(weights)
    mask = None if batch.action_mask is None else batch.action_mask[batch.step_rows]
    expected = policy.log_prob(batch.obs[batch.step_rows], batch.action, mask)
    np.testing.assert_allclose(batch.log_prob, expected, rtol=1e-4, atol=1e-4)
    assert (mask is not None) == spec.masked
    assert len(np.unique(batch.action, axis=0)) > 3


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
@pytest.mark.parametrize("takes", ["choices", "grid", "double"])
def test_a_client_plays_for_ppo(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: str
) -> None:
    with running_node(redis_address, tmp_path, _settings(takes)) as node:
        heard = _heard(node, monkeypatch)
        with playing_client(redis_address):
            assert node.wait_for_updates(2).rejected == {}
        _check(node, heard)


def test_a_client_plays_for_vtrace(redis_address: Address, tmp_path: Path) -> None:
    settings = vtrace_settings(env__id=ENV_ID, env__kwargs={"takes": "box"}, env__num_envs=2)
    with running_node(redis_address, tmp_path, settings) as node:
        node.connection.hset(node.keys.clients, "c", "{}")
        with playing_client(redis_address):
            assert node.wait_for_updates(3).rejected == {}
        assert node.node.agent.export_weights()["policy.std"].any(), "deviations are learned"


def _play(connector: PPOConnector, takes: str) -> None:
    """One round of a loop over one environment, as somebody would write it."""
    env = Taking(takes, masked=takes == "choices")
    obs, info = env.reset()
    step_id = 0
    while connector.steps_left:
        with connector as (agent, model_id):
            action = agent(obs, info.get("action_mask"))
        after, reward, terminated, truncated, next_info = env.step(action)
        told = {name: info[name] for name in info} | {f"next_{name}": next_info[name] for name in next_info}
        connector.push_sample(
            pack_sample(obs, action, reward, after, terminated, truncated, told, model_id, step_id)
        )
        obs, info, step_id = after, next_info, step_id + 1
        if terminated or truncated:
            (obs, info), step_id = env.reset(), 0


@pytest.mark.allow_warnings  # who leaves in the middle of a round is missed
@pytest.mark.parametrize(("takes", "squash"), [("choices", "tanh"), ("box", "tanh"), ("box", "clip")])
def test_a_loop_by_hand_samples_for_ppo(
    redis_address: Address, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, takes: str, squash: str
) -> None:
    settings = _settings(takes, network__squash=squash)
    with running_node(redis_address, tmp_path, settings) as node:
        heard = _heard(node, monkeypatch)
        connector = PPOConnector({"env": {"id": ENV_ID, "kwargs": settings.env.kwargs}}, redis_address, "c")
        try:
            connector.sync(20)
            _play(connector, takes)
            connector.sync(20)
            assert node.wait_for_updates(1).rejected == {}
            _check(node, heard)
            if takes == "box":
                # What was drawn beyond the bounds came as it was drawn, not as what it became.
                assert np.abs(heard[0][0].action).max() > 2
                with pytest.raises(UsageError, match="that can't be"):
                    _push(connector, np.float32([0, 0, 9]))
                _push(connector, np.float32([2, 0.5, 5.5]))  # nobody drew it here
        finally:
            connector.close()


def _push(connector: PPOConnector, action: Any) -> None:
    obs = np.zeros(2, np.float32)
    connector.push_sample(pack_sample(obs, action, 0.0, obs, False, False, {}, connector.model_id, 0))


def test_q_learning_says_that_it_needs_numbered_actions(redis_address: Address, tmp_path: Path) -> None:
    settings = dqn_settings(env__id=ENV_ID, env__kwargs={"takes": "box"})
    with pytest.raises(EnvironmentCheckError, match="dqn chooses one of several numbered actions"):
        RunningNode(redis_address, tmp_path, settings)


@pytest.mark.parametrize("takes", [name for name in SPACES_TAKEN if name != "words"])
def test_simulated_clients_send_what_the_server_accepts(takes: str) -> None:
    env = Taking(takes)
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space).with_masks(True)
    config = ServerConfig(run_id="r", attempt=1, contract="c", spaces=spaces.to_json(), policy={})
    header = WeightsHeader(run_id="r", attempt=1, model_id=3, update=0, digest="00" * 8)
    box, action = spaces.observation, spaces.action
    data = SampleMaker(config).chunk(0, 0, 50, header)
    opened = unpack_chunk(
        data, "r", "c", box.shape, box.dtype, spaces.masked_actions, None, action.shape, action.dtype
    )
    assert not check_segments(opened, spaces, {3: digest_number("00" * 8)}, 3, 3, 1).any()
    assert len(np.unique(opened.action, axis=0)) > 3


@pytest.mark.parametrize("picture", [True, False])
def test_simulated_clients_show_what_the_server_accepts(picture: bool) -> None:
    env = Room(picture=picture)
    spaces = SpacesSpec.from_env(env.observation_space, env.action_space)
    config = ServerConfig(run_id="r", attempt=1, contract="c", spaces=spaces.to_json(), policy={})
    header = WeightsHeader(run_id="r", attempt=1, model_id=3, update=0, digest="00" * 8)
    data = SampleMaker(config).chunk(0, 0, 50, header)
    opened = unpack_chunk(data, "r", "c", spaces.observation.shape, spaces.observation.dtype)
    assert not check_segments(opened, spaces, {3: digest_number("00" * 8)}, 3, 3, 1).any()
    assert len(np.unique(np.asarray(field_of(opened.obs, NUMBERS)), axis=0)) > 3
