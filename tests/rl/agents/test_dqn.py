"""DQN and its family: targets, noise, what each setting does, and what is learned."""

import copy
from typing import Any

import numpy as np
import pytest
import torch

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.policies.policy import make_policy
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.buffers.replay import NStepBatch
from soulsgui.rl.gradients.dqn import AutogradDQNGradient
from soulsgui.rl.optimiser import FlatParameters
from tests.rl.agents.cases import MEMBERS, windows
from tests.rl.support import SPACES, changed, client_of, dqn_settings, transitions


def trained(updates: int = 3, seed: int = 0, **changes: Any) -> DQNAgent:
    agent = DQNAgent(SPACES, dqn_settings(**changes), seed)
    for index in range(updates):
        batch = windows(16, index)
        agent.observe(batch.obs)
        agent.update(batch)
    return agent


@pytest.mark.parametrize("agent", ["qr_dqn", "c51", "dqn"])
@pytest.mark.parametrize("sizes", [(), (16,), (32, 16), (8, 8, 8)])
@pytest.mark.parametrize("activation", ["tanh", "relu"])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("exploration", ["epsilon", "noisy"])
def test_the_gradient_by_hand_is_that_of_autograd(
    agent: str, sizes: tuple[int, ...], activation: str, double: bool, exploration: str
) -> None:
    by_hand = trained(
        updates=1, agent=agent, dueling=True, hidden_sizes=sizes, activation=activation, double=double,
        q_clip=0.3, observations=False, exploration=exploration,
    )  # fmt: skip
    assert not isinstance(by_hand._gradient, AutogradDQNGradient)
    online, target = copy.deepcopy(by_hand.online), copy.deepcopy(by_hand.target)
    flat = FlatParameters([online])
    rule = getattr(by_hand._gradient, "_rule", None)
    batch, dqn = windows(20, 4), by_hand.settings.dqn
    rows = by_hand._rows(batch)._replace(next_mask=np.random.default_rng(0).random((20, 3)) < 0.9)
    rows.next_mask[:, 0] = True  # type: ignore[index]
    expected = AutogradDQNGradient(online, target, flat, rule)(rows, dqn)
    step = by_hand._gradient(rows, dqn)
    torch.testing.assert_close(by_hand._flat.gradient, flat.gradient, atol=2e-5, rtol=1e-4)
    for found, wanted in zip(step, expected, strict=True):
        torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_a_hard_target_is_a_copy_at_each_interval_and_stands_still_between() -> None:
    agent = trained(updates=0, target_interval=3, target_tau=1.0)
    online, target = agent._flat.parameter.data, agent._target_flat.parameter.data
    first = online.clone()
    for update in range(7):
        if update:
            agent.update(transitions(16, update))
        if update % 3 == 0:
            first = online.clone()
        assert torch.equal(target, first)
        assert torch.equal(online, first) == (update % 3 == 0)


def test_the_gradient_norm_is_told_as_it_was_before_clipping() -> None:
    free, clipped = (trained(updates=1, max_grad_norm=limit) for limit in (1e9, 1e-3))
    assert free.figures()["grad_norm"] == clipped.figures()["grad_norm"] > 0.01
    assert torch.linalg.vector_norm(clipped._flat.gradient).item() == pytest.approx(1e-3, rel=1e-2)


def test_only_valid_next_actions_enter_the_target() -> None:
    batch, targets = transitions(16), []
    for valid in (None, [0, 1, 2], [0], [1], [2]):
        agent = trained(updates=3)
        agent.figures()
        mask = None if valid is None else np.tile(np.isin(np.arange(3), valid), (16, 1))
        agent.update(batch._replace(next_mask=mask))
        targets.append(agent.figures()["target_mean"])
    assert targets[0] == targets[1]
    assert len(set(targets[2:])) == 3


def test_published_noise_stands_still_until_the_next_update_and_may_be_left_out() -> None:
    agent = trained(exploration="noisy", dueling=True, learning_rate=1e-30)
    obs = transitions(50).obs
    noisy = agent.outputs(obs)
    np.testing.assert_allclose(client_of(agent).outputs(obs), noisy, atol=1e-5)
    policy = make_policy(agent.policy_spec())
    policy.load(agent.export_weights(noise=False))
    agent.online.eval()
    with torch.no_grad():
        means = agent.online(torch.from_numpy(agent._inputs(obs))).numpy()
    agent.online.train()
    np.testing.assert_allclose(policy.outputs(obs), means, atol=1e-5)
    assert np.abs(means - noisy).max() > 0.05
    np.testing.assert_array_equal(agent.outputs(obs), noisy)
    agent.update(windows(16))
    assert np.abs(agent.outputs(obs) - noisy).max() > 0.05, "the weights are the same, the noise is not"
    for sigma in (0.5, 0.1):
        parameters = dict(trained(0, exploration="noisy", noisy_sigma=sigma).online.named_parameters())
        first = parameters["head.advantage.0.weight_sigma"]
        torch.testing.assert_close(first, torch.full_like(first, sigma / first.shape[1] ** 0.5))


def test_each_update_has_noise_of_its_own_in_both_networks() -> None:
    agent = trained(updates=0, exploration="noisy", learning_rate=1e-30, target_interval=1000)
    batch, told = windows(16), []
    for _ in range(2):
        agent.update(batch)
        told.append(agent.figures())
    assert all(told[0][name] != told[1][name] for name in ("q_mean", "target_mean"))


def saying(number: float, **changes: Any) -> DQNAgent:
    """Return an agent whose networks say the same number of everything."""
    agent = DQNAgent(SPACES, dqn_settings(observations=False, **changes), 0)
    for network in (agent.online, agent.target):
        parameters = dict(network.named_parameters())
        last = [name for name in parameters if name.endswith("bias") and "embedding" not in name][-1]
        for name, parameter in parameters.items():
            parameter.data.fill_(number if name == last else 0.0)
    return agent


@pytest.mark.parametrize("agent", ["dqn", "qr_dqn", "iqn"])
@pytest.mark.parametrize("dueling", [False, True])
def test_what_follows_is_limited_by_q_clip(agent: str, dueling: bool) -> None:
    for q_clip, expected in ((None, 8.0), (3.0, 3.0)):
        learner = saying(8.0, agent=agent, dueling=dueling, q_clip=q_clip)
        ones = np.ones(16, np.float32)
        learner.update(windows(16)._replace(reward=0 * ones, discount=ones))
        figures = learner.figures()
        assert figures["target_mean"] == pytest.approx(expected)
        assert figures["q_mean"] == pytest.approx(8.0)


@pytest.mark.parametrize("agent", ["dqn", "qr_dqn", "iqn"])
def test_the_largest_error_is_that_of_one_sample_in_all_updates(agent: str) -> None:
    learner = saying(0.0, agent=agent, learning_rate=1e-30)
    ends = windows(4)._replace(discount=np.zeros(4, np.float32))
    for reward in ([1.0, -5.0, 2.0, 0.0], [3.0, 1.0, 1.0, 1.0]):
        learner.update(ends._replace(reward=np.array(reward, np.float32)))
    figures = learner.figures()
    assert (figures["td_error"], figures["td_error_max"]) == pytest.approx((14 / 8, 5.0))
    learner.update(ends._replace(reward=np.full(4, 0.5, np.float32)))
    assert learner.figures()["td_error_max"] == pytest.approx(0.5), "it begins anew"


@pytest.mark.parametrize("agent", ["dqn", "qr_dqn", "iqn"])
@pytest.mark.parametrize("dueling", [False, True])
def test_the_start_value_is_what_the_networks_say(agent: str, dueling: bool) -> None:
    obs = windows(5).obs
    assert saying(8.0, agent=agent, dueling=dueling).start_values(obs).mean() == pytest.approx(8.0)


def test_the_start_value_of_rescaled_values_is_a_return() -> None:
    learner = saying(2.0 + 0.001 * 8, agent="r2d2", recurrent="lstm")  # sqrt(8 + 1) - 1
    assert learner.start_values(windows(5).obs).mean() == pytest.approx(8.0, rel=1e-4)


def test_the_start_value_is_that_of_the_best_valid_actions() -> None:
    learner = saying(0.0)
    *_, bias = learner.online.parameters()
    bias.data.copy_(torch.tensor([1.0, 5.0, 3.0]))
    mask = np.array([[True, True, True], [True, False, True]])
    assert learner.start_values(windows(2).obs, mask).mean() == (5 + 3) / 2
    for changes in MEMBERS.values():
        one, obs = trained(**changes), windows(20).obs
        assert one.start_values(obs).mean() == pytest.approx(one.outputs(obs).max(1).mean(), rel=1e-5), (
            changes
        )


@pytest.mark.parametrize("agent", ["c51", "rainbow"])
def test_returns_that_leave_the_support_are_told(agent: str) -> None:
    learner = trained(updates=0, agent=agent, value_min=-1.0, value_max=1.0)
    ends = windows(16)._replace(discount=np.zeros(16, np.float32))
    for beyond in (0, 4, 16):
        reward = np.where(np.arange(16) < beyond, 1.5, 1.0).astype(np.float32)
        learner.update(ends._replace(reward=reward))
        assert learner.figures()["beyond_support"] == beyond / 16
    assert "beyond_support" not in trained(agent="qr_dqn").figures()


def test_a_state_of_before_there_were_as_many_figures_is_gone_on_with() -> None:
    tensors, meta = trained(agent="c51").state()
    del meta["noise"]  # older still
    older = trained(agent="c51", seed=1)
    older.load_state({**tensors, "figures.sums": tensors["figures.sums"][:-1]}, meta)
    assert older.updates == 3
    assert older.figures() == {}


def test_without_double_the_target_network_chooses() -> None:
    for agent in ("dqn", "qr_dqn", "c51", "iqn"):
        targets = []
        for double in (True, False):
            learner = trained(updates=0, agent=agent, double=double)
            learner.target.load_state_dict(trained(updates=0, seed=5, agent=agent).target.state_dict())
            if agent == "iqn":
                learner.sample_rng.bit_generator.state = np.random.default_rng(1).bit_generator.state
            learner.update(windows(64))
            targets.append(learner.figures()["target_mean"])
        assert targets[0] < targets[1], "the target network's own choice is its highest"


def test_quantiles_atoms_and_their_range_shape_what_is_said() -> None:
    obs = torch.zeros(2, 4)
    assert trained(0, agent="qr_dqn", quantiles=7).online(obs).shape == (2, 3, 7)
    assert trained(0, agent="c51", atoms=9).online(obs).shape == (2, 3, 9)
    even = saying(0.0, agent="c51", value_min=2.0, value_max=6.0)
    np.testing.assert_allclose(even.outputs(np.zeros((2, 4), np.float32)), 4.0, rtol=1e-5)
    assert trained(0, agent="iqn", quantiles=5).policy_spec()["levels"] == 5


@pytest.mark.parametrize("agent", ["qr_dqn", "iqn"])
def test_kappa_says_where_the_loss_turns_linear(agent: str) -> None:
    """All differences are 2: linear costs `level * 2`, square up to 4 `level * 2^2 / 2 / 4`."""
    losses = []
    for kappa in (0.0, 4.0):
        learner = saying(0.0, agent=agent, kappa=kappa, quantiles=16)
        ones = np.ones(16, np.float32)
        learner.update(windows(16)._replace(reward=2 * ones, discount=0 * ones, weight=None))
        losses.append(learner.figures()["loss"])
    assert losses[0] / losses[1] == pytest.approx(4.0, rel=1e-4 if agent == "qr_dqn" else 0.3)


def test_importance_weights_scale_the_loss_and_the_errors_are_priorities() -> None:
    for changes in MEMBERS.values():
        losses = []
        for weight in (1.0, 0.25):
            learner = trained(updates=0, **changes)
            error = learner.update(windows(16)._replace(weight=np.full(16, weight, np.float32)))
            losses.append(learner.figures()["loss"])
        assert losses[1] == pytest.approx(losses[0] / 4, rel=1e-4), changes
        assert (error.shape, error.dtype) == ((16,), np.float32)
        assert error.std() > 0 <= error.min(), "each sample has a priority of its own"


ONE_STATE = SpacesSpec(BoxSpec((1,), "float32"), DiscreteSpec(1))


def one_state(agent: str, rewards: np.ndarray[Any, Any], **changes: Any) -> DQNAgent:
    """Learn the return of a task that is over after one step, from rewards drawn once for all."""
    settings = dqn_settings(
        agent=agent, hidden_sizes=(32,), observations=False, learning_rate=5e-3, activation="relu",
        target_interval=1000, quantiles=16, **changes,
    )  # fmt: skip
    learner = DQNAgent(ONE_STATE, settings, seed=0)
    rng = np.random.default_rng(2)
    obs, zeros = np.ones((64, 1), np.float32), np.zeros(64, np.int64)
    for step in range(800):
        learner.settings = changed(settings, "dqn", learning_rate=5e-3 * max(1 - step / 800, 0.02))
        drawn = rng.choice(rewards, 64).astype(np.float32)
        learner.update(NStepBatch(obs, zeros, drawn, obs, np.zeros(64, np.float32)))
    return learner


@pytest.mark.parametrize("agent", ["qr_dqn", "iqn"])
def test_learned_quantiles_are_as_wide_as_the_rewards(agent: str) -> None:
    """SoulsAI's quantiles all fell onto the mean: their spread was 0."""
    rewards = np.random.default_rng(1).normal(0, 10, 20_000)
    learner = one_state(agent, rewards)
    obs = torch.ones(1, 1)
    with torch.no_grad():
        if agent == "iqn":
            level = (torch.arange(200)[None] + 0.5) / 200
            quantiles = learner.online(obs, level).flatten().sort().values.numpy()
        else:
            quantiles = learner.online(obs).flatten().numpy()
    assert quantiles.std() == pytest.approx(10, rel=0.1)
    assert quantiles.mean() == pytest.approx(0, abs=1)
    levels = (np.arange(len(quantiles)) + 0.5) / len(quantiles)
    inner = (levels > 0.05) & (levels < 0.95)
    np.testing.assert_allclose(quantiles[inner], np.quantile(rewards, levels)[inner], atol=1.5)


def test_learned_atoms_have_the_probabilities_of_the_rewards() -> None:
    rewards = np.array([-4.0, 0.0, 0.0, 10.0])
    learner = one_state("c51", rewards)
    with torch.no_grad():
        probs = learner.online(torch.ones(1, 1)).exp()[0, 0].numpy()
    atoms = np.linspace(-10, 10, 21)
    for value, chance in ((-4.0, 0.25), (0.0, 0.5), (10.0, 0.25)):
        assert probs[np.argmin(np.abs(atoms - value))] == pytest.approx(chance, abs=0.05)
    assert learner.outputs(np.ones((1, 1), np.float32)) == pytest.approx(1.5, abs=0.3)
