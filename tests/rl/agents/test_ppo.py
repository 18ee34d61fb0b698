"""The PPO agent: what an update does, and that each choice of its settings has its effect."""

import json
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.errors import CheckpointError
from soulsgui.policies.exploration import START, Moment
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.rl.gradients.ppo import PPORows, PPOWeights
from soulsgui.rl.returns import gae
from tests.rl.agents.cases import CHOICES, round_of
from tests.rl.support import SPACES, changed, ppo_settings, random_batch


def make_agent(seed: int = 0, **changes: Any) -> PPOAgent:
    return PPOAgent(SPACES, ppo_settings(**{"minibatch_size": 32, "epochs": 3} | changes), seed)


def watched(agent: PPOAgent, see: Callable[[PPORows, PPOWeights], None]) -> None:
    """Let `see` look at each minibatch."""
    gradient = agent._gradient

    class Watch:
        values = staticmethod(gradient.values)

        def __call__(self, rows: PPORows, weights: PPOWeights) -> Any:
            see(rows, weights)
            return gradient(rows, weights)

    agent._gradient = Watch()


def test_statistics_change_only_with_the_update_that_used_the_old_ones() -> None:
    agent = make_agent()
    assert not agent.export_weights()["normaliser.mean"].any()
    batch = random_batch(agent)
    agent.update(batch, START)
    after, seen = agent.export_weights(), batch.obs[batch.step_rows]
    np.testing.assert_allclose(after["normaliser.mean"], seen.mean(0), rtol=1e-5)
    np.testing.assert_allclose(after["normaliser.var"], seen.var(0), rtol=1e-5)


def test_schedules_follow_the_run_and_are_told() -> None:
    agent = make_agent(
        learning_rate={"schedule": "linear", "from": 1e-3, "to": 0.0},
        clip={"schedule": "exponential", "from": 0.4, "to": 0.1, "over": 2000},
        entropy_coef={"schedule": "piecewise", "points": [[0, 0.02], [500, 0.01], [1000, 0.0]]},
    )
    told = [agent.update(random_batch(agent), Moment(steps, 1000)) for steps in (0, 250, 1000)]
    assert [one["learning_rate"] for one in told] == pytest.approx([1e-3, 0.75e-3, 0])
    assert [one["clip"] for one in told] == pytest.approx([0.4, 0.4 * 0.25**0.125, 0.2])
    assert [one["entropy_coef"] for one in told] == pytest.approx([0.02, 0.015, 0])


def test_every_transition_is_used_once_a_pass_in_minibatches_of_nearly_equal_size() -> None:
    agent = make_agent(epochs=1)
    batch = random_batch(agent)
    seen: list[NDArray[np.float32]] = []
    watched(agent, lambda rows, _: seen.append(rows.obs.numpy().copy()))
    signs_of_life: list[int] = []
    agent.after_step = lambda: signs_of_life.append(agent.updates)
    metrics = agent.update(batch, START)
    assert signs_of_life == [0] * 4, "of each gradient step"
    assert [len(rows) for rows in seen] == [32, 32, 32, 32]
    used = np.concatenate(seen)
    acted = batch.obs[batch.step_rows]
    assert not np.array_equal(used, acted), "shuffled"
    np.testing.assert_array_equal(used[np.lexsort(used.T)], acted[np.lexsort(acted.T)])
    assert metrics["entropy"] == pytest.approx(np.log(3), abs=0.05)
    assert metrics["epochs_done"] == 1
    assert 0 <= metrics["clip_fraction"] <= 1
    assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics
    agent = make_agent(learning_rate=0.05, target_kl=1e-4, epochs=10)
    metrics = agent.update(random_batch(agent), START)
    assert metrics["epochs_done"] < 10, "a target KL ends the update early"
    assert metrics["approx_kl"] > 1e-4


@pytest.mark.parametrize("choice", CHOICES.values(), ids=CHOICES)
def test_every_choice_changes_what_is_learned(choice: dict[str, Any]) -> None:
    agent, plain = make_agent(**choice), make_agent()
    batch = round_of(plain, 0)
    for one in (agent, plain):
        one.update(batch, START)
    tensors, others = agent.state()[0], plain.state()[0]
    assert any(not np.array_equal(tensors[name], others[name]) for name in others if name.startswith("value"))


@pytest.mark.parametrize("recompute", [True, False])
@pytest.mark.parametrize("normalize", [True, False])
def test_each_pass_learns_from_advantages_of_its_own_if_wanted(recompute: bool, normalize: bool) -> None:
    choice = {"recompute_advantages": recompute, "normalize_value": normalize, "normalize_advantage": "none"}
    agent = make_agent(**choice, learning_rate=0.01)
    agent.update(round_of(agent, 0), START)
    batch = round_of(agent, 1)
    said: list[NDArray[np.float32]] = []
    seen: list[PPORows] = []
    values = agent._gradient.values
    watched(agent, lambda rows, _: seen.append(rows))

    def valued(inputs: torch.Tensor) -> NDArray[np.float32]:
        said.append(values(inputs).copy())
        return said[-1]

    agent._gradient.values = valued  # type: ignore[method-assign]
    agent.update(batch, START)
    if normalize:
        said.pop(0)  # what the statistics took in
    assert len(said) == (3 if recompute else 1)
    scale = agent.values_seen
    real: Any = (lambda outputs: outputs) if scale is None else scale.values
    minibatches = len(seen) // 3
    for number in range(3):
        now = real(said[number if recompute else 0])
        current, following = now[batch.step_rows], now[batch.step_rows + 1]
        advantage = gae(batch.reward, current, following, batch.terminated_steps, batch.ends, 0.99, 0.9)
        rows = seen[number * minibatches : (number + 1) * minibatches]
        used, target, old = (
            torch.cat([getattr(one, name) for one in rows]).numpy()
            for name in ("advantage", "target", "old_value")
        )
        for found, expected in (
            (used, advantage),
            (real(target), advantage + current),
            (real(old), real(said[0])[batch.step_rows]),
        ):
            np.testing.assert_allclose(np.sort(found), np.sort(expected), rtol=1e-4, atol=1e-4)
    if recompute:
        assert np.abs(said[-1] - said[0]).max() > 0.01, "the values have moved"


@pytest.mark.parametrize("over", ["none", "minibatch", "round"])
def test_advantages_are_scaled_over_what_is_set(over: str) -> None:
    agent = make_agent(normalize_advantage=over, epochs=1)
    seen: list[NDArray[np.float32]] = []
    watched(agent, lambda rows, _: seen.append(rows.advantage.numpy().copy()))
    agent.update(round_of(agent, 0), START)
    whole = np.concatenate(seen)
    scaled = {
        "minibatch": all(np.allclose((one.mean(), one.std()), (0, 1), atol=1e-4) for one in seen),
        "round": bool(np.allclose((whole.mean(), whole.std()), (0, 1), atol=1e-4)),
    }
    # What is scaled in each of equal parts is scaled over the whole, not the other way round.
    assert scaled == {"minibatch": over == "minibatch", "round": over != "none"}


@pytest.mark.parametrize("shuffle", ["trajectories", "none"])
def test_pieces_of_episodes_stay_whole(shuffle: str) -> None:
    agent = make_agent(shuffle=shuffle, sequence_length=8, epochs=1, observations=False)
    batch = round_of(agent, 0)
    number = {row.tobytes(): at for at, row in enumerate(batch.obs[batch.step_rows])}
    seen: list[list[int]] = []
    watched(agent, lambda rows, _: seen.append([number[row.tobytes()] for row in rows.obs.numpy()]))
    agent.update(batch, START)
    drawn = [at for part in seen for at in part]
    assert sorted(drawn) == list(range(batch.steps))
    assert (drawn == sorted(drawn)) is (shuffle == "none")
    assert max(map(len, seen)) <= 32 + 8
    jumps = sum(after != at + 1 for at, after in pairwise(drawn))
    assert jumps <= sum(-(-length // 8) for length in batch.length), "pieces, not single steps"


def test_adam_takes_what_is_set_at_each_update() -> None:
    agent = make_agent()
    agent.update(round_of(agent, 0), START)
    assert agent._optimiser.eps == 1e-5
    agent.settings = changed(agent.settings, "ppo", adam_epsilon=1e-8, adam_beta1=0.7)
    agent.update(round_of(agent, 1), START)
    assert (agent._optimiser.eps, agent._optimiser.betas) == (1e-8, (0.7, 0.999))
    for choice, name in (({"normalize_value": True}, "value_normaliser"), ({"rewards": True}, "rewards")):
        with pytest.raises(CheckpointError, match=name):
            make_agent(**choice).load_state(*agent.state())


def test_shared_layers_are_the_same_and_moved_by_both_losses() -> None:
    agent = make_agent(shared=True, value_init_scale=2.0)
    assert agent.policy[0] is agent.value[0]
    assert np.linalg.norm(agent.value[-1].weight.detach().numpy()) == pytest.approx(2.0, rel=1e-5)
    parameters = sum(parameter.numel() for parameter in agent.policy.parameters())
    assert agent._flat.parameter.numel() == parameters + 65
    before = agent.export_weights()["policy.0.weight"]
    # Without advantages only the value network has something to learn.
    agent.settings = changed(agent.settings, "ppo", normalize_advantage="none", gae_lambda=0.0)
    agent.update(round_of(agent, 0), START)
    assert not np.array_equal(agent.export_weights()["policy.0.weight"], before)
    restored = make_agent(seed=5, shared=True)
    restored.load_state(*agent.state())
    assert restored.policy[0] is restored.value[0]


def test_rewards_are_scaled_by_the_return_and_what_is_told_of_the_batch_stays() -> None:
    agent = make_agent(rewards=True, gae_lambda=1.0)
    batch = round_of(agent, 0)
    raw = batch.reward.copy()
    told = agent.update(batch, START)
    np.testing.assert_array_equal(batch.reward, raw)
    totals, place = [], 0
    for length in batch.length:
        total = 0.0
        for reward in raw[place : place + length]:
            total = 0.99 * total + reward
            totals.append(total)
        place += length
    assert told["reward_std"] == pytest.approx(np.std(totals), rel=1e-4)
