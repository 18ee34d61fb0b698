"""What every agent does: it goes on to the bit, refuses what does not fit, and tells what it learned."""

import copy
import json
import re
from dataclasses import is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load, save

from soulsgui.errors import CheckpointError, ServiceError
from soulsgui.policies.normalise import normalise
from soulsgui.rl.agents.base import Agent
from soulsgui.rl.distributions import DistributionHead
from tests.environments.toys import SPACES_TAKEN
from tests.rl.agents.cases import CASES, KINDS, Case, Recorder
from tests.rl.support import changed, client_of

FIGURES = {
    "ppo": {
        "policy_loss", "value_loss", "entropy", "grad_norm", "approx_kl", "clip_fraction",
        "explained_variance", "learning_rate", "epochs_done",
    },
    "dqn": {"loss", "q_mean", "target_mean", "td_error", "td_error_max", "grad_norm", "learning_rate"},
    "sac": {
        "critic_loss", "actor_loss", "q_mean", "target_mean", "td_error", "entropy", "temperature",
        "learning_rate",
    },
    "td3": {"critic_loss", "q_mean", "target_mean", "td_error", "learning_rate"},
    "crossq": {
        "critic_loss", "q_mean", "target_mean", "td_error", "entropy", "temperature", "learning_rate",
    },
    "vtrace": {
        "policy_loss", "value_loss", "entropy", "behaviour_kl", "rho_mean", "rho_clip_fraction",
        "explained_variance", "grad_norm", "learning_rate",
    },
}  # fmt: skip


def figures_of(name: str) -> set[str]:
    """Return the figures that a case tells."""
    return FIGURES.get(name, FIGURES[CASES[name].algorithm])


def cases(*names: str) -> Any:
    """Run a test over these cases, or over all."""
    return pytest.mark.parametrize("name", names or CASES)


def trained(case: Case, seed: int = 3, updates: int = 1, **changes: Any) -> Any:
    agent = case.make(seed, **changes)
    for number in range(updates):
        case.learn(agent, number)
    return agent


def same_state(first: Agent, second: Agent) -> bool:
    (tensors, meta), (others, other_meta) = first.state(), second.state()
    return meta == other_meta and all(
        np.array_equal(tensors[name], others[name]) for name in tensors | others
    )


def weights(agent: Any, network: str) -> NDArray[np.float32]:
    """Return all parameters of the networks whose names begin so, end to end."""
    tensors, _ = agent.state()
    return np.concatenate([tensors[name].ravel() for name in sorted(tensors) if name.startswith(network)])


def with_reward(batch: Any, reward: Any) -> Any:
    return replace(batch, reward=reward) if is_dataclass(batch) else batch._replace(reward=reward)


def columns(batch: Any) -> list[Any]:
    found = vars(batch).values() if is_dataclass(batch) else batch
    return [column for column in found if isinstance(column, np.ndarray)]


@cases()
@pytest.mark.parametrize("updates", [0, 2])
def test_a_resumed_agent_acts_alike_and_goes_on_to_the_bit(name: str, updates: int) -> None:
    case = CASES[name]
    agent = trained(case, updates=updates)
    tensors, meta = agent.state()
    resumed = case.make(99)
    resumed.load_state(load(save(tensors)), json.loads(json.dumps(meta)))
    assert same_state(agent, resumed)
    for number in (4, 5):
        batch = case.batch(agent, number)
        obs = batch.obs.reshape(-1, *agent.spaces.observation.shape)
        np.testing.assert_array_equal(agent.outputs(obs), resumed.outputs(obs))
        weights, others = agent.export_weights(), resumed.export_weights()
        assert weights.keys() == others.keys()
        assert all(np.array_equal(weights[place], others[place]) for place in weights)
        np.testing.assert_equal(*(case.learn_from(one, batch, number) for one in (agent, resumed)))
    assert same_state(agent, resumed)
    assert agent.updates == resumed.updates == updates + 2
    assert agent.policy_spec() == resumed.policy_spec()
    if case.algorithm != "ppo":
        assert agent.figures() == resumed.figures() != {}


@cases()
def test_the_seed_alone_decides(name: str) -> None:
    case = CASES[name]
    assert same_state(trained(case), trained(case))
    assert not same_state(trained(case), trained(case, seed=4))


@cases()
def test_what_was_handed_out_stays_as_it_was_and_changes_nothing(name: str) -> None:
    case = CASES[name]
    agent = trained(case)
    exported, (tensors, _) = agent.export_weights(), agent.state()
    weights, arrays = copy.deepcopy((exported, tensors))
    case.learn(agent, 2)
    assert all(np.array_equal(exported[place], weights[place]) for place in weights)
    assert all(np.array_equal(tensors[place], arrays[place]) for place in arrays)
    now, state = agent.export_weights(), agent.state()[0]
    assert any(not np.array_equal(now[place], weights[place]) for place in weights)
    kept, kept_state = copy.deepcopy((now, state))
    for array in (*now.values(), *state.values()):
        array[...] = 0
    again, again_state = agent.export_weights(), agent.state()[0]
    assert all(np.array_equal(again[place], kept[place]) for place in kept)
    assert all(np.array_equal(again_state[place], kept_state[place]) for place in kept_state)


@cases()
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(name: str) -> None:
    case = CASES[name]
    agent = trained(case)
    before, meta_before = copy.deepcopy(agent.state())
    with pytest.raises(CheckpointError, match="does not fit this agent"):
        agent.load_state(*trained(case, hidden_sizes=(5,)).state())
    tensors, meta = trained(case, seed=5).state()
    for missing in tensors.keys() - {"adam.step"}:
        lacking = {place: array for place, array in tensors.items() if place != missing}
        with pytest.raises(CheckpointError, match=f"{re.escape(missing)} is missing"):
            agent.load_state(lacking, meta)
    with pytest.raises(CheckpointError, match=r"adam\.exp_avg is"):
        agent.load_state(tensors | {"adam.exp_avg": np.zeros(3, np.float32)}, meta)
    for broken in ({"rng": {"bit_generator": "unknown"}}, {"rng": {}}, {"updates": "many"}):
        with pytest.raises(CheckpointError, match="random state"):
            agent.load_state(tensors, meta | broken)
    if "summed" in meta:
        with pytest.raises(CheckpointError, match="counters"):
            agent.load_state(tensors, {key: value for key, value in meta.items() if key != "summed"})
    after, meta_after = agent.state()
    assert all(np.array_equal(before[place], after[place]) for place in before | after)
    assert meta_before == meta_after


@cases("ppo", "ppo with an lstm", "dqn", "r2d2 with an lstm", "sac", "td3", "tqc", "crossq", "vtrace")
@pytest.mark.parametrize("reward", [np.inf, np.nan])
def test_updates_that_blow_up_are_an_error_not_a_silent_nan(name: str, reward: float) -> None:
    case = CASES[name]
    agent = case.make(0)
    batch = case.batch(agent, 0)
    broken = with_reward(batch, np.full_like(batch.reward, reward))
    with np.errstate(invalid="ignore"), pytest.raises(ServiceError, match="not finite") as failure:
        _ = case.learn_from(agent, broken), agent.figures()  # whichever notices it
    assert "learning_rate" in failure.value.remedy


@cases()
def test_read_only_arrays_are_taken(name: str, recwarn: pytest.WarningsRecorder) -> None:
    case = CASES[name]
    agent = case.make(0)
    batch = case.batch(agent, 0)
    for column in columns(batch):
        column.flags.writeable = False
    case.learn_from(agent, batch)
    assert agent.updates == 1
    assert not recwarn.list


@cases(*(name for name, case in CASES.items() if case.algorithm != "ppo"))
def test_figures_are_means_since_the_last_call(name: str) -> None:
    case = CASES[name]
    each, together = case.make(0), case.make(0)
    assert each.figures() == {}
    single = []
    for number in range(4):
        batch = case.batch(each, number)
        for agent in (each, together):
            case.learn_from(agent, batch, number)
        single.append(each.figures())
    figures = together.figures()
    more = {"beyond_support"} if name in ("c51", "rainbow") else set()
    assert set(figures) == figures_of(name) | more
    for figure, value in figures.items():
        whole = np.max if figure == "td_error_max" else np.mean
        assert value == pytest.approx(whole([one[figure] for one in single]), rel=1e-4, abs=1e-6)
    assert together.figures() == {}
    assert json.loads(json.dumps(figures, allow_nan=False)) == figures


@cases()
def test_settings_may_be_replaced_between_updates(name: str) -> None:
    case = CASES[name]
    agent = trained(case, updates=1)
    before = agent._flat.parameter.detach().clone()
    agent.settings = changed(agent.settings, case.algorithm, learning_rate=1e-30)
    if case.algorithm != "ppo":
        agent.figures()
    told = case.learn(agent, 1)
    figures = told if case.algorithm == "ppo" else agent.figures()
    assert set(figures) >= figures_of(name)
    assert figures["learning_rate"] == 1e-30
    torch.testing.assert_close(agent._flat.parameter.detach(), before, atol=1e-20, rtol=0)


@cases(*(name for name, case in CASES.items() if case.algorithm != "sac"))
def test_every_number_that_is_learned_stands_in_some_layer(name: str) -> None:
    agent = CASES[name].make(0)
    told = sum(layer.parameters for report in agent.shapes().values() for layer in report)
    of_head = sum(parameter.numel() for parameter in getattr(agent, "head", torch.nn.Module()).parameters())
    assert told + of_head == agent._flat.parameter.numel() + _shared(agent)


def _shared(agent: Any) -> int:
    """Return the numbers that stand in the layers of both networks."""
    if not agent.settings.network.shared:
        return 0
    both = {id(one) for one in agent.policy.parameters()} & {id(one) for one in agent.value.parameters()}
    return sum(one.numel() for one in agent.policy.parameters() if id(one) in both)


@cases()
@pytest.mark.parametrize("network", [{}, {"activation": "relu", "observations": False}], ids=["", "relu"])
def test_clients_say_and_do_what_the_agent_does(name: str, network: dict[str, Any]) -> None:
    case = CASES[name]
    agent = trained(case, **network, **({} if case.algorithm == "dqn" else {"policy_init_scale": 1.0}))
    seen, rng = agent.spaces.observation, np.random.default_rng(1)
    obs = rng.normal(3, 2, (4_000, *seen.shape)).astype(seen.dtype)
    if name == "dqn of images":
        obs = rng.integers(0, 256, (200, *seen.shape), seen.dtype)
    expected, policy = agent.outputs(obs), client_of(agent)
    assert expected.std(axis=0).min() > 1e-3, "it depends on the observation"
    np.testing.assert_allclose(policy.outputs(obs), expected, rtol=1e-5, atol=1e-5)
    if case.algorithm == "dqn" and "r2d2" not in name:
        best_two = np.sort(expected, axis=1)[:, -2:]
        decided = best_two[:, 1] - best_two[:, 0] > 1e-4
        assert decided.mean() > 0.9
        np.testing.assert_array_equal(policy.greedy(obs)[decided], expected.argmax(1)[decided] + 1)
    elif case.algorithm != "dqn" and "with a" not in name:
        head = getattr(agent, "head", None)
        if case.algorithm == "sac":
            std = agent._head.initial_std if name == "td3" else agent.networks.initial_std
            head = DistributionHead(replace(agent._head, initial_std=std))  # as the gradient has it
        # Of the client's outputs: narrow densities are as much wider than what both networks differ by.
        distribution = head.distribution(torch.from_numpy(policy.outputs(obs)))
        action, log_prob = policy.act(obs, rng)
        assert agent.spaces.action.contains(action).all()
        assert action.dtype == agent.spaces.action.dtype
        told = distribution.log_prob(torch.from_numpy(head.drawn(action))).detach().numpy()
        np.testing.assert_allclose(log_prob, told, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(policy.log_prob(obs, action), log_prob, rtol=1e-5, atol=1e-5)
        greedy = head.stored(distribution.mode().detach().numpy())
        assert np.isclose(greedy, policy.greedy(obs), rtol=1e-5, atol=1e-5).mean() > 0.99
        assert np.isfinite(policy.log_prob(obs, greedy)).all()
        if (kind := name.removeprefix("ppo of ")) in KINDS:
            taken = policy.to_environment(action)
            assert all(SPACES_TAKEN[KINDS[kind][0]].contains(row) for row in taken[:500])


@cases(*(name for name, case in CASES.items() if case.algorithm == "ppo"))
def test_the_ratio_is_1_on_the_first_minibatch_of_every_round(name: str) -> None:
    case = CASES[name]
    agent = case.make(0)
    for number in range(3):
        recorder = Recorder(agent)
        case.learn(agent, number)
        agent._gradient = recorder.gradient
        first, last = recorder.told[0].samples, recorder.told[-1].samples
        torch.testing.assert_close(first, torch.zeros_like(first), atol=1e-4, rtol=0)
        assert last.abs().max() > 1e-4, "later ones have moved"


@cases("dqn", "sac")
@pytest.mark.parametrize("tau", [0.25, 1.0])
def test_a_soft_target_goes_its_part_of_the_way(name: str, tau: float) -> None:
    case, followed = CASES[name], {"dqn": "online", "sac": "critic"}[name]
    agent = case.make(0, target_tau=tau, **({"target_interval": 1} if name == "dqn" else {}))
    assert np.array_equal(weights(agent, "target"), weights(agent, followed)), "equal at the beginning"
    for number in range(3):
        before = weights(agent, "target")
        case.learn(agent, number)
        expected = before + tau * (weights(agent, followed) - before)
        np.testing.assert_allclose(weights(agent, "target"), expected, rtol=1e-6, atol=1e-7)
        assert not np.array_equal(weights(agent, "target"), before)


@cases("dqn", "sac")
def test_the_learner_sees_by_the_statistics_that_are_exported(name: str) -> None:
    case = CASES[name]
    agent = case.make(0)
    recorder, seen = Recorder(agent), []
    for number in (1, 2):
        batch = case.batch(agent, number)
        seen.append(batch.obs)
        agent.observe(batch.obs)
        exported = agent.export_weights()
        frozen = {part: exported[f"normaliser.{part}"] for part in ("mean", "var", "eps", "clip")}
        agent.update(batch)
        np.testing.assert_array_equal(recorder.rows[-1].obs, normalise(batch.obs, frozen))
        np.testing.assert_array_equal(recorder.rows[-1].next_obs, normalise(batch.next_obs, frozen))
    np.testing.assert_allclose(frozen["mean"], np.concatenate(seen).mean(0), rtol=1e-5)
    np.testing.assert_allclose(frozen["var"], np.concatenate(seen).var(0), rtol=1e-5)
    np.testing.assert_array_equal(recorder.rows[-1].discount, batch.discount)
    np.testing.assert_array_equal(recorder.rows[-1].reward, batch.reward)
    action = batch.action - 1 if name == "dqn" else np.tanh(batch.action)
    np.testing.assert_array_equal(recorder.rows[-1].action, action)
    agent = case.make(0, observations=False)
    recorder = Recorder(agent)
    case.learn_from(agent, batch)
    np.testing.assert_array_equal(recorder.rows[-1].obs, batch.obs)
    assert agent.normaliser.count == 0
    layers = {f"policy.{layer}.{part}" for layer in range(3) for part in ("weight", "bias")}
    assert set(agent.export_weights()) == layers, "nothing is kept of what is observed"
