"""The DQN agent: one gradient step, the target network, and the same curve after a resume."""

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.errors import CheckpointError, ServiceError
from soulsgui.policies.normalise import normalise
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.rl.agents.base import Agent
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.gradients.dqn import AutogradDQNGradient
from tests.rl.drawing import drawn
from tests.rl.support import SPACES, dqn_settings, transitions


def trained_agent(seed: int = 0, updates: int = 3, spaces: SpacesSpec = SPACES, **changes: Any) -> DQNAgent:
    agent = DQNAgent(spaces, dqn_settings(**changes), seed)
    for index in range(updates):
        batch = transitions(16, index, spaces)
        agent.observe(batch.obs)
        agent.update(batch)
    return agent


def numpy_policy(agent: DQNAgent) -> NumpyMLPPolicy:
    policy = NumpyMLPPolicy(json.loads(json.dumps(agent.policy_spec())))
    policy.load(agent.export_weights())
    return policy


def same_state(first: DQNAgent, second: DQNAgent) -> bool:
    (tensors, meta), (others, other_meta) = first.state(), second.state()
    return meta == other_meta and all(
        np.array_equal(tensors[name], others[name]) for name in tensors | others
    )


def weights(agent: DQNAgent, network: str) -> NDArray[np.float32]:
    """Return all parameters of `online` or `target`, end to end."""
    tensors, _ = agent.state()
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors) if name.startswith(network)])


def test_it_is_an_agent() -> None:
    agent: Agent = DQNAgent(SPACES, dqn_settings(), seed=0)
    assert agent.updates == 0


@pytest.mark.parametrize("observations", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_numpy_and_torch_take_the_same_greedy_action_on_10000_inputs(
    activation: str, observations: bool
) -> None:
    agent = trained_agent(activation=activation, observations=observations)
    policy = numpy_policy(agent)
    obs = np.random.default_rng(1).normal(3, 2, (10_000, 4)).astype(np.float32)
    inputs = normalise(obs, agent.normaliser.frozen()) if observations else obs
    with torch.no_grad():
        best_two = agent.online(torch.from_numpy(inputs)).topk(2, dim=1)
    expected = best_two.indices[:, 0].numpy() + 1
    assert len(set(expected.tolist())) > 1, "the values depend on the observation"
    decided = (best_two.values[:, 0] - best_two.values[:, 1] > 1e-5).numpy()
    assert decided.mean() > 0.99
    np.testing.assert_array_equal(policy.greedy(obs)[decided], expected[decided])


class Recorder:
    """Stands before an agent's gradient and keeps what it was given."""

    def __init__(self, agent: DQNAgent) -> None:
        self.rows: list[Any] = []
        self._gradient = agent._gradient

    def __call__(self, rows: Any, dqn: Any) -> Any:
        self.rows.append(rows)
        return self._gradient(rows, dqn)


def test_the_learner_sees_by_the_statistics_that_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = DQNAgent(SPACES, dqn_settings(), seed=0)
    recorder = Recorder(agent)
    monkeypatch.setattr(agent, "_gradient", recorder)
    batch = transitions(50)
    for seed in (1, 2):
        agent.observe(transitions(70, seed).obs)
        exported = agent.export_weights()
        agent.update(batch)
        frozen = {name: exported[f"normaliser.{name}"] for name in ("mean", "var", "eps", "clip")}
        np.testing.assert_array_equal(recorder.rows[-1].obs, normalise(batch.obs, frozen))
        np.testing.assert_array_equal(recorder.rows[-1].next_obs, normalise(batch.next_obs, frozen))
    seen = np.concatenate([transitions(70, seed).obs for seed in (1, 2)])
    np.testing.assert_allclose(frozen["mean"], seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(frozen["var"], seen.var(0), rtol=1e-5)
    np.testing.assert_array_equal(recorder.rows[-1].action, batch.action - 1)


def test_without_normalisation_nothing_is_kept_of_what_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = DQNAgent(SPACES, dqn_settings(observations=False), seed=0)
    recorder = Recorder(agent)
    monkeypatch.setattr(agent, "_gradient", recorder)
    batch = transitions(9)
    agent.observe(batch.obs)
    agent.update(batch)
    np.testing.assert_array_equal(recorder.rows[-1].obs, batch.obs)
    assert agent.normaliser.count == 0
    assert set(agent.export_weights()) == {
        f"policy.{i}.{part}" for i in range(3) for part in ("weight", "bias")
    }


def test_a_hard_target_is_a_copy_at_each_interval_and_stands_still_between() -> None:
    agent = trained_agent(updates=0, target_interval=3, target_tau=1.0)
    first = weights(agent, "online")
    assert np.array_equal(weights(agent, "target"), first), "equal at the beginning"
    for update in range(1, 7):
        agent.update(transitions(16, update))
        if update % 3 == 0:
            first = weights(agent, "online")
        assert np.array_equal(weights(agent, "target"), first)
        assert np.array_equal(weights(agent, "online"), first) == (update % 3 == 0)


def test_a_soft_target_goes_its_part_of_the_way() -> None:
    agent = trained_agent(updates=0, target_interval=1, target_tau=0.25)
    for update in range(3):
        before = weights(agent, "target")
        agent.update(transitions(16, update))
        expected = before + 0.25 * (weights(agent, "online") - before)
        np.testing.assert_allclose(weights(agent, "target"), expected, rtol=1e-6, atol=1e-7)
        assert not np.array_equal(weights(agent, "target"), before)


def test_a_final_state_is_not_looked_beyond_and_a_cut_off_one_is() -> None:
    """Steps that all end finally learn their rewards; the same steps cut off learn more."""
    batch = transitions(64)
    batch = batch._replace(reward=np.ones(64, np.float32))
    learned = {}
    for terminated in (True, False):
        agent = DQNAgent(SPACES, dqn_settings(target_interval=10), seed=0)
        agent.observe(batch.obs)
        looped = batch._replace(
            next_obs=batch.obs, discount=np.full(64, 0.0 if terminated else 0.5, np.float32)
        )
        for _ in range(600):
            agent.update(looped)
        agent.figures()
        agent.update(looped)
        learned[terminated] = agent.figures()["q_mean"]
    assert learned[True] == pytest.approx(1.0, abs=0.05)
    assert learned[False] > 1.5


def test_figures_are_means_since_the_last_call() -> None:
    each, together = trained_agent(updates=0), trained_agent(updates=0)
    assert each.figures() == {}
    single = []
    for update in range(4):
        for agent in (each, together):
            agent.update(transitions(16, update))
        single.append(each.figures())
    figures = together.figures()
    assert set(figures) == {"loss", "q_mean", "target_mean", "td_error", "grad_norm", "learning_rate"}
    for name, value in figures.items():
        assert value == pytest.approx(np.mean([one[name] for one in single]), rel=1e-5)
    assert together.figures() == {}
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_the_gradient_norm_is_told_as_it_was_before_clipping() -> None:
    free, clipped = (trained_agent(updates=1, max_grad_norm=limit) for limit in (1e9, 1e-3))
    assert free.figures()["grad_norm"] == clipped.figures()["grad_norm"] > 0.01
    assert torch.linalg.vector_norm(clipped._flat.gradient).item() == pytest.approx(1e-3, rel=1e-2)


def test_settings_may_be_replaced_between_updates() -> None:
    agent = trained_agent(updates=1)
    before = weights(agent, "online")
    agent.settings = dqn_settings(learning_rate=1e-30)
    agent.figures()
    agent.update(transitions(16))
    assert agent.figures()["learning_rate"] == 1e-30
    assert np.array_equal(weights(agent, "online"), before)


def test_exported_weights_stay_as_they_were() -> None:
    agent = trained_agent()
    exported = agent.export_weights()
    copies = {name: array.copy() for name, array in exported.items()}
    agent.observe(transitions(30, 9).obs)
    agent.update(transitions(16, 9))
    assert all(np.array_equal(exported[name], copies[name]) for name in exported)
    assert not np.array_equal(exported["policy.0.weight"], agent.export_weights()["policy.0.weight"])
    exported["normaliser.mean"][:] = 99
    assert agent.export_weights()["normaliser.mean"].max() < 50


def test_the_seed_alone_decides() -> None:
    assert same_state(trained_agent(seed=3), trained_agent(seed=3))
    assert not same_state(trained_agent(seed=3), trained_agent(seed=4))


def filled_replay() -> UniformReplay:
    replay = UniformReplay(200, SPACES.observation)
    batch = transitions(150)
    replay.add(
        np.concatenate((batch.obs, batch.next_obs[-1:])),
        np.array([150]),
        batch.action,
        batch.reward,
        np.array([True]),
    )
    return replay


def learn(agent: DQNAgent, replay: UniformReplay, updates: int) -> None:
    for _ in range(updates):
        agent.update(drawn(replay, 32, agent.sample_rng))


@pytest.mark.parametrize("updates", [0, 7])
def test_a_resumed_agent_goes_on_to_the_bit(updates: int) -> None:
    replay = filled_replay()
    agent = DQNAgent(SPACES, dqn_settings(), seed=3)
    if updates:
        agent.observe(transitions(40).obs)
    learn(agent, replay, updates)
    tensors, meta = agent.state()
    resumed = DQNAgent(SPACES, agent.settings, seed=99)
    resumed.load_state(load(save(tensors)), json.loads(json.dumps(meta)))
    assert same_state(agent, resumed)
    for one in (agent, resumed):
        learn(one, replay, 6)
        one.observe(transitions(40, 5).obs)
        learn(one, replay, 6)
    assert resumed.updates == updates + 12
    assert same_state(agent, resumed)
    assert agent.figures() == resumed.figures()
    obs = transitions(50, 6).obs
    np.testing.assert_array_equal(numpy_policy(agent).greedy(obs), numpy_policy(resumed).greedy(obs))


def test_a_state_is_not_changed_by_what_is_learned_later() -> None:
    agent = trained_agent()
    tensors, _ = agent.state()
    copies = copy.deepcopy(tensors)
    agent.observe(transitions(30, 9).obs)
    agent.update(transitions(16, 9))
    assert all(np.array_equal(tensors[name], copies[name]) for name in tensors)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing() -> None:
    agent = trained_agent(seed=3)
    before, meta_before = copy.deepcopy(agent.state())
    with pytest.raises(CheckpointError, match=r"online\.0\.weight"):
        agent.load_state(*trained_agent(seed=4, hidden_sizes=(16,)).state())
    tensors, meta = trained_agent(seed=5).state()
    lacking = {name: array for name, array in tensors.items() if name != "target.1.bias"}
    with pytest.raises(CheckpointError, match=r"target\.1\.bias is missing"):
        agent.load_state(lacking, meta)
    with pytest.raises(CheckpointError, match=r"adam\.exp_avg is"):
        agent.load_state(tensors | {"adam.exp_avg": np.zeros(3, np.float32)}, meta)
    for broken in ({"rng": {"bit_generator": "unknown"}}, {"updates": "many"}):
        with pytest.raises(CheckpointError, match="random state"):
            agent.load_state(tensors, meta | broken)
    after, meta_after = agent.state()
    assert all(np.array_equal(before[name], after[name]) for name in before | after)
    assert meta_before == meta_after


def test_updates_by_autograd_end_at_the_same_weights() -> None:
    by_hand, by_autograd = (trained_agent(updates=0, target_interval=2) for _ in range(2))
    by_autograd._gradient = AutogradDQNGradient(by_autograd.online, by_autograd.target, by_autograd._flat)
    for agent in (by_hand, by_autograd):
        for update in range(4):
            agent.update(transitions(32, update))
    assert by_hand.figures() == pytest.approx(by_autograd.figures(), rel=1e-4)
    np.testing.assert_allclose(weights(by_hand, "online"), weights(by_autograd, "online"), atol=1e-5)


def test_image_like_and_integer_observations_are_flattened() -> None:
    spaces = SpacesSpec(BoxSpec((3, 2), "uint8", (0,), (255,)), DiscreteSpec(2))
    agent = trained_agent(spaces=spaces)
    obs = np.random.default_rng(0).integers(0, 7, (200, 3, 2)).astype(np.uint8)
    np.testing.assert_array_equal(numpy_policy(agent).greedy(obs), agent.outputs(obs).argmax(1))
    assert np.isfinite(list(agent.figures().values())).all()


def test_updates_that_blow_up_are_an_error_not_a_silent_nan() -> None:
    agent = trained_agent(updates=0)
    batch = transitions(16)
    agent.update(batch._replace(reward=np.full(16, np.inf, np.float32)))
    with pytest.raises(ServiceError, match="not finite") as failure:
        agent.figures()
    assert "learning_rate" in failure.value.remedy


def test_read_only_arrays_are_taken(recwarn: pytest.WarningsRecorder) -> None:
    agent = trained_agent(updates=0)
    batch = transitions(16)
    for column in batch[:5]:
        column.flags.writeable = False
    agent.observe(batch.obs)
    agent.update(batch)
    agent._gradient = AutogradDQNGradient(agent.online, agent.target, agent._flat)
    agent.update(batch)
    assert agent.updates == 2
    assert not recwarn.list


def test_the_greedy_action_is_a_valid_one() -> None:
    agent, rng = trained_agent(updates=5), np.random.default_rng(0)
    obs = rng.normal(3, 2, (200, 4)).astype(np.float32)
    mask = rng.random((200, 3)) < 0.5
    mask[:, 1] |= ~mask.any(axis=1)
    policy = numpy_policy(agent)
    greedy = policy.greedy(obs, mask)
    assert mask[np.arange(200), greedy - 1].all()
    everything = np.ones((200, 3), np.bool_)
    np.testing.assert_array_equal(policy.greedy(obs, everything), policy.greedy(obs))


def test_only_valid_next_actions_enter_the_target() -> None:
    batch = transitions(16)
    targets = []
    for valid in ([0, 1, 2], [0], [1], [2]):
        agent = trained_agent(updates=3)
        agent.figures()
        mask = np.isin(np.arange(3), valid)
        agent.update(batch._replace(next_mask=np.tile(mask, (16, 1))))
        targets.append(agent.figures()["target_mean"])
    agent = trained_agent(updates=3)
    agent.figures()
    agent.update(batch)
    assert agent.figures()["target_mean"] == targets[0]
    assert len(set(targets[1:])) == 3
