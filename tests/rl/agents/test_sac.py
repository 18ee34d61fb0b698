"""The SAC agent: one gradient step, the targets, the temperature, and the same curve after a resume."""

import copy
import json
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from soulsgui.environments.actions import BoxActionSpec
from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.errors import CheckpointError, EnvironmentCheckError, ServiceError
from soulsgui.policies.normalise import normalise
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.rl.agents.base import OffPolicyAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.distributions import TanhGaussian, softplus_std
from soulsgui.rl.gradients.sac import AutogradSACGradient, SACRows
from tests.rl.support import sac_settings

SPACES = SpacesSpec(
    BoxSpec((4,), "float32"), BoxActionSpec(BoxSpec((2,), "float32", (-2.0, 0.0), (2.0, 1.0)))
)


def transitions(count: int, seed: int = 0) -> NStepBatch:
    """Return windows with random observations around 3, and every fifth one before a final state."""
    rng = np.random.default_rng(seed)
    return NStepBatch(
        obs=rng.normal(3.0, 2.0, (count, 4)).astype(np.float32),
        action=rng.normal(0.0, 1.0, (count, 2)).astype(np.float32),
        reward=rng.normal(size=count).astype(np.float32),
        next_obs=rng.normal(3.0, 2.0, (count, 4)).astype(np.float32),
        discount=np.where(rng.random(count) < 0.2, 0, 0.9).astype(np.float32),
    )


def trained_agent(seed: int = 0, updates: int = 3, **changes: Any) -> SACAgent:
    agent = SACAgent(SPACES, sac_settings(**changes), seed)
    for index in range(updates):
        batch = transitions(16, index)
        agent.observe(batch.obs)
        agent.update(batch)
    return agent


def client_policy(agent: SACAgent) -> Policy:
    policy = make_policy(json.loads(json.dumps(agent.policy_spec())))
    policy.load(agent.export_weights())
    return policy


def same_state(first: SACAgent, second: SACAgent) -> bool:
    (tensors, meta), (others, other_meta) = first.state(), second.state()
    return meta == other_meta and all(
        np.array_equal(tensors[name], others[name]) for name in tensors | others
    )


def weights(agent: SACAgent, prefix: str) -> NDArray[np.float32]:
    """Return all parameters of `actor`, `critic` or `target`, end to end."""
    tensors, _ = agent.state()
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors) if name.startswith(prefix)])


class Recorder:
    """Stands before an agent's gradient and keeps what it was given."""

    def __init__(self, agent: SACAgent) -> None:
        self.rows: list[SACRows] = []
        self.target_entropies: list[float | None] = []
        self._gradient = agent._gradient

    def __call__(self, rows: SACRows, target_entropy: float | None) -> Any:
        self.rows.append(rows)
        self.target_entropies.append(target_entropy)
        return self._gradient(rows, target_entropy)


def recorded(agent: SACAgent, batch: NStepBatch, monkeypatch: pytest.MonkeyPatch) -> Recorder:
    recorder = Recorder(agent)
    monkeypatch.setattr(agent, "_gradient", recorder)
    agent.update(batch)
    return recorder


def test_it_is_an_agent() -> None:
    agent: OffPolicyAgent = SACAgent(SPACES, sac_settings(), seed=0)
    assert agent.updates == 0


@pytest.mark.parametrize("observations", [True, False])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_clients_act_as_the_actor_says_on_10000_inputs(activation: str, observations: bool) -> None:
    agent = trained_agent(updates=20, activation=activation, observations=observations, policy_init_scale=1.0)
    policy = client_policy(agent)
    obs = np.random.default_rng(1).normal(3, 2, (10_000, 4)).astype(np.float32)
    inputs = normalise(obs, agent.normaliser.frozen()) if observations else obs
    with torch.no_grad():
        mean, raw = agent.networks.actor(torch.from_numpy(inputs)).chunk(2, dim=1)
    assert (mean.std(dim=0) > 0.01).all(), "the actions depend on the observation"
    np.testing.assert_allclose(policy.greedy(obs), mean.numpy(), atol=1e-5)
    np.testing.assert_allclose(agent.outputs(obs), policy.outputs(obs), atol=1e-5)
    drawn, log_prob = policy.act(obs, np.random.default_rng(2))
    std = softplus_std(raw, agent.networks.initial_std)
    low, high = torch.tensor([-2.0, 0.0]), torch.tensor([2.0, 1.0])
    expected = TanhGaussian(mean, std, low, high).log_prob(torch.from_numpy(drawn))
    np.testing.assert_allclose(log_prob, expected.numpy(), atol=1e-4)
    taken = low.numpy() + (np.tanh(drawn) + 1) / 2 * (high - low).numpy()
    np.testing.assert_allclose(policy.to_environment(drawn), taken, atol=1e-5)


def test_the_learner_sees_by_the_statistics_that_are_exported(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = SACAgent(SPACES, sac_settings(), seed=0)
    agent.observe(transitions(70, 1).obs)
    exported, batch = agent.export_weights(), transitions(50)
    rows = recorded(agent, batch, monkeypatch).rows[0]
    frozen = {name: exported[f"normaliser.{name}"] for name in ("mean", "var", "eps", "clip")}
    np.testing.assert_array_equal(rows.obs, normalise(batch.obs, frozen))
    np.testing.assert_array_equal(rows.next_obs, normalise(batch.next_obs, frozen))
    np.testing.assert_array_equal(rows.discount, batch.discount)
    np.testing.assert_array_equal(rows.action, np.tanh(batch.action))
    np.testing.assert_array_equal(rows.reward, batch.reward)
    assert {column.dtype for column in rows} == {np.dtype(np.float32)}


def test_without_normalisation_nothing_is_kept_of_what_is_observed(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = SACAgent(SPACES, sac_settings(observations=False), seed=0)
    batch = transitions(9)
    agent.observe(batch.obs)
    np.testing.assert_array_equal(recorded(agent, batch, monkeypatch).rows[0].obs, batch.obs)
    assert agent.normaliser.count == 0
    assert set(agent.export_weights()) == {
        f"policy.{i}.{part}" for i in range(3) for part in ("weight", "bias")
    }


def test_each_update_draws_other_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    agent = SACAgent(SPACES, sac_settings(), seed=0)
    recorder = recorded(agent, transitions(500), monkeypatch)
    agent.update(transitions(500))
    first, second = (rows.noise for rows in recorder.rows)
    noise = np.stack((*first, *second)).reshape(4, -1)
    np.testing.assert_allclose(np.cov(noise), np.eye(4), atol=0.15)


@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_the_targets_go_their_part_of_the_way(tau: float) -> None:
    agent = trained_agent(updates=0, target_tau=tau)
    assert np.array_equal(weights(agent, "target"), weights(agent, "critic")), "equal at the beginning"
    for update in range(3):
        before = weights(agent, "target")
        agent.update(transitions(16, update))
        expected = before + tau * (weights(agent, "critic") - before)
        np.testing.assert_allclose(weights(agent, "target"), expected, rtol=1e-6, atol=1e-7)
        assert not np.array_equal(weights(agent, "target"), before)


def test_the_two_critics_differ() -> None:
    first, second = (weights(trained_agent(), f"critic_{index}") for index in range(2))
    assert not np.array_equal(first, second)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({}, -2.0), ({"target_entropy": 0.7}, 0.7), ({"learn_temperature": False}, None)],
)
def test_the_temperature_aims_at_one_nat_below_0_a_number_or_at_what_is_set(
    changes: dict[str, Any], expected: float | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = trained_agent(updates=0, **changes)
    assert recorded(agent, transitions(16), monkeypatch).target_entropies == [expected]
    moved = agent.state()[0]["log_temperature"] != np.log(np.float32(0.5))
    assert moved == (expected is not None)
    assert agent.figures()["temperature"] == pytest.approx(0.5), "that of before the step"


def test_figures_are_means_since_the_last_call() -> None:
    each, together = trained_agent(updates=0), trained_agent(updates=0)
    assert each.figures() == {}
    single = []
    for update in range(4):
        for agent in (each, together):
            agent.update(transitions(16, update))
        single.append(each.figures())
    figures = together.figures()
    assert set(figures) == {
        "critic_loss", "actor_loss", "q_mean", "target_mean", "td_error", "entropy", "temperature",
        "learning_rate",
    }  # fmt: skip
    for name, value in figures.items():
        assert value == pytest.approx(np.mean([one[name] for one in single]), rel=1e-5)
    assert together.figures() == {}
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


def test_settings_may_be_replaced_between_updates() -> None:
    agent = trained_agent(updates=1)
    before = weights(agent, "actor")
    agent.settings = sac_settings(learning_rate=1e-30)
    agent.figures()
    agent.update(transitions(16))
    assert agent.figures()["learning_rate"] == 1e-30
    assert np.array_equal(weights(agent, "actor"), before)


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


def learn(agent: SACAgent, updates: int) -> None:
    everything = transitions(150)
    for _ in range(updates):
        index = agent.sample_rng.integers(150, size=32)
        agent.update(NStepBatch(*(column[index] for column in everything[:5])))


@pytest.mark.parametrize("updates", [0, 7])
def test_a_resumed_agent_goes_on_to_the_bit(updates: int) -> None:
    agent = SACAgent(SPACES, sac_settings(), seed=3)
    if updates:
        agent.observe(transitions(40).obs)
    learn(agent, updates)
    tensors, meta = agent.state()
    resumed = SACAgent(SPACES, agent.settings, seed=99)
    resumed.load_state(load(save(tensors)), json.loads(json.dumps(meta)))
    assert same_state(agent, resumed)
    for one in (agent, resumed):
        learn(one, 6)
        one.observe(transitions(40, 5).obs)
        learn(one, 6)
    assert resumed.updates == updates + 12
    assert same_state(agent, resumed)
    assert agent.figures() == resumed.figures()
    obs = transitions(50, 6).obs
    np.testing.assert_array_equal(client_policy(agent).greedy(obs), client_policy(resumed).greedy(obs))


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
    with pytest.raises(CheckpointError, match=r"actor\.0\.weight"):
        agent.load_state(*trained_agent(seed=4, hidden_sizes=(16,)).state())
    tensors, meta = trained_agent(seed=5).state()
    lacking = {name: array for name, array in tensors.items() if name != "target_1.1.bias"}
    with pytest.raises(CheckpointError, match=r"target_1\.1\.bias is missing"):
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
    by_hand, by_autograd = (trained_agent(updates=0) for _ in range(2))
    by_autograd._gradient = AutogradSACGradient(by_autograd.networks, by_autograd._flat)
    for agent in (by_hand, by_autograd):
        for update in range(4):
            agent.update(transitions(32, update))
    assert by_hand.figures() == pytest.approx(by_autograd.figures(), rel=1e-4)
    for part in ("actor", "critic", "target", "log_temperature"):
        np.testing.assert_allclose(weights(by_hand, part), weights(by_autograd, part), atol=1e-5)


def test_updates_that_blow_up_are_an_error_not_a_silent_nan() -> None:
    agent = trained_agent(updates=0)
    agent.update(transitions(16)._replace(reward=np.full(16, np.nan, np.float32)))
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
    agent._gradient = AutogradSACGradient(agent.networks, agent._flat)
    agent.update(batch)
    assert agent.updates == 2
    assert not recwarn.list


@pytest.mark.parametrize(
    "action",
    [
        DiscreteSpec(3),
        BoxActionSpec(BoxSpec((1,), "float32")),
        BoxActionSpec(BoxSpec((2,), "float32", (0.0,), (1.0, float("inf")))),
    ],
)
def test_actions_that_are_no_numbers_within_bounds_are_refused(action: Any) -> None:
    with pytest.raises(EnvironmentCheckError, match="within bounds") as refusal:
        SACAgent(SpacesSpec(SPACES.observation, action), sac_settings(), seed=0)
    assert refusal.value.remedy
