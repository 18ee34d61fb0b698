"""What every policy of a client does; observations of parts, by one-hot choices and normalised numbers."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors.numpy import load, save

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import ObservationSpec, observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.policies.specs import MLPPolicySpec, TorchPolicySpec
from soulsgui.policies.value_based import categorical_spec, implicit_quantile_spec
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.ppo import PPOAgent, RecurrentPPOAgent
from soulsgui.rl.agents.sac import SACAgent
from soulsgui.rl.inputs import Inputs, laid_out
from tests.environments.toys import Room
from tests.rl.agents.cases import BOUNDED
from tests.rl.support import dqn_settings, ppo_settings, sac_settings

LAKE = spaces.Discrete(16)
CARDS = spaces.Tuple([spaces.Discrete(32), spaces.Discrete(11), spaces.Discrete(2)])
PIXELS = spaces.Box(0, 255, (3, 2), np.uint8)
ROOM = Room(picture=False).observation_space
PICTURED = Room().observation_space
SMALL = {"hidden_sizes": (16,)}
AGENTS: dict[str, Any] = {
    "ppo": lambda shown: PPOAgent(shown, ppo_settings(**SMALL, policy_init_scale=1.0), 0),
    "recurrent ppo": lambda shown: RecurrentPPOAgent(
        shown, ppo_settings(**SMALL, recurrent="gru", policy_init_scale=1.0), 0
    ),
    "dqn": lambda shown: DQNAgent(shown, dqn_settings(**SMALL), 0),
    "c51": lambda shown: DQNAgent(shown, dqn_settings(**SMALL, agent="c51"), 0),
    "iqn": lambda shown: DQNAgent(shown, dqn_settings(**SMALL, agent="iqn"), 0),
    "ppo in torch": lambda shown: PPOAgent(
        shown, ppo_settings(**SMALL, name="mlp_layer_norm", policy_init_scale=1.0), 0
    ),
    "recurrent ppo in torch": lambda shown: RecurrentPPOAgent(
        shown, ppo_settings(**SMALL, name="mlp_layer_norm", recurrent="gru", policy_init_scale=1.0), 0
    ),
    "dqn in torch": lambda shown: DQNAgent(shown, dqn_settings(**SMALL, name="mlp_layer_norm"), 0),
    "sac": lambda shown: SACAgent(
        replace(shown, action=BOUNDED.action), sac_settings(**SMALL, policy_init_scale=1.0), 0
    ),
}


def observations(spec: ObservationSpec, space: spaces.Space[Any], count: int) -> NDArray[Any]:
    space.seed(1)
    return np.stack([spec.read(space.sample()) for _ in range(count)])


@pytest.mark.parametrize(
    "space", [LAKE, CARDS, ROOM, PICTURED, PIXELS], ids=["lake", "cards", "room", "pictured", "pixels"]
)
@pytest.mark.parametrize("make", AGENTS.values(), ids=list(AGENTS))
def test_a_client_says_what_the_server_says(make: Any, space: spaces.Space[Any]) -> None:
    spec = observation_from_space(space)
    agent = make(SpacesSpec(spec, DiscreteSpec(3, start=1)))
    obs = observations(spec, space, 40)
    agent._to_see.observe(obs)
    if hasattr(agent, "observe"):
        agent.observe(obs)
    told = json.loads(json.dumps(agent.policy_spec()))
    policy = make_policy(told)
    policy.load(load(save(agent.export_weights())))
    said = agent.outputs(obs)
    assert said.std(0).min() > 1e-3, "it depends on the observation"
    np.testing.assert_allclose(policy.outputs(obs), said, atol=1e-5, rtol=1e-5)
    if remembered_by(policy).fields:
        remembered_by(policy).begin(40)
    action, log_prob = policy.act(obs, np.random.default_rng(0))
    assert np.isfinite(log_prob).all()
    assert len(policy.to_environment(action)) == 40
    with pytest.raises(CheckpointError, match="can't be read"):
        make_policy(told | {"encoding": {"images": False}})


PLAIN = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3, start=1))
each_policy = pytest.mark.parametrize("make", AGENTS.values(), ids=list(AGENTS))
OPTIONAL = {"std", "initial_std", "squash", "std_transform", "values", "largest", "channels"}


def told_by(make: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the description of a policy as a client reads it, and its weights."""
    agent = make(PLAIN)
    return json.loads(json.dumps(agent.policy_spec())), load(save(agent.export_weights()))


def policy_of(make: Any, count: int) -> Policy:
    spec, weights = told_by(make)
    policy = make_policy(spec)
    policy.load(weights)
    remembered_by(policy).begin(count)
    return policy


def spoilt(told: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield descriptions of which something is missing, or is nonsense."""
    for key, value in told.items():
        if key not in OPTIONAL:
            yield f"no {key}", {name: one for name, one in told.items() if name != key}
        yield f"{key} of nonsense", told | {key: {"nonsense": None}}
        if isinstance(value, dict) and key != "values":
            yield from ((f"{key}: {what}", told | {key: inner}) for what, inner in spoilt(value))


def remedy_against(spec: dict[str, Any]) -> str:
    """Return what is to be done about a description, nothing where it can be read."""
    try:
        make_policy(spec)
    except CheckpointError as error:
        return error.remedy
    return ""


@each_policy
def test_a_description_that_can_not_be_read_is_refused_with_a_remedy(make: Any) -> None:
    spec, _ = told_by(make)
    assert remedy_against(spec) == ""
    taken = [what for what, broken in spoilt(spec) if "update the older one" not in remedy_against(broken)]
    assert taken == []


NETWORK = MLPPolicySpec((2,), 5, 0, (), "relu", False).to_json()


@pytest.mark.parametrize(
    "spec",
    [
        categorical_spec(NETWORK, 0, (-1.0, 1.0, 3)),  # no whole number of actions
        categorical_spec(NETWORK, 0, ("low", 1.0, 5)),  # type: ignore[arg-type]
        implicit_quantile_spec(NETWORK, 0, 0, 0, 4, 8),
    ],
)
def test_values_that_their_network_can_not_say_are_refused(spec: dict[str, Any]) -> None:
    assert "update the older one" in remedy_against(spec)


@each_policy
def test_weights_that_do_not_fit_are_refused_by_name_and_change_nothing(make: Any) -> None:
    _, weights = told_by(make)
    policy, obs = policy_of(make, 3), np.ones((3, 4), np.float32)
    before = policy.outputs(obs)
    others = {name: tensor + 1 for name, tensor in weights.items()}
    for name, tensor in weights.items():
        for broken in (None, np.zeros((*tensor.shape, 2), np.float32), np.full_like(tensor, np.nan)):
            other = {key: value for key, value in (others | {name: broken}).items() if value is not None}
            with pytest.raises(CheckpointError, match=rf"{re.escape(name)} of shape"):
                policy.load(other)
    np.testing.assert_array_equal(policy.outputs(obs), before)


@each_policy
def test_nothing_is_shared_with_weights_and_results_stay_as_they_were(make: Any) -> None:
    spec, weights = told_by(make)
    policy, other, rng = make_policy(spec), policy_of(make, 6), np.random.default_rng(0)
    policy.load(weights)
    remembered_by(policy).begin(6)
    for tensor in weights.values():
        tensor[...] = 0
    obs = rng.normal(size=(3, 6, 4)).astype(np.float32)
    results = [policy.outputs(obs[0]), *policy.act(obs[0], np.random.default_rng(1)), policy.greedy(obs[1])]
    expected = [other.outputs(obs[0]), *other.act(obs[0], np.random.default_rng(1)), other.greedy(obs[1])]
    copies = [one.copy() for one in results]
    policy.act(obs[2], rng)
    for found, copy, wanted in zip(results, copies, expected, strict=True):
        np.testing.assert_array_equal(found, copy)
        np.testing.assert_array_equal(found, wanted)


@each_policy
def test_only_valid_actions_are_taken_and_their_probabilities_add_up_to_1(make: Any) -> None:
    policy, rng = policy_of(make, 90), np.random.default_rng(0)
    if not policy.num_actions:
        return
    obs = rng.normal(size=(90, 4)).astype(np.float32)
    mask = np.tile([[True, False, True], [False, True, True], [False, True, False]], (30, 1))
    rows = np.arange(90)
    logs = np.stack([policy.log_prob(obs, np.full(90, action), mask) for action in (1, 2, 3)], axis=1)
    np.testing.assert_allclose(np.exp(logs).sum(1), 1, atol=1e-5)
    if not remembered_by(policy).fields:
        valid = np.where(mask, policy.outputs(obs), -np.inf)
        np.testing.assert_allclose(logs, valid - np.logaddexp.reduce(valid, 1, keepdims=True), atol=1e-5)
    assert (np.exp(logs)[~mask] == 0).all()
    best = np.where(mask, logs, -np.inf).argmax(1) + 1
    action, log_prob = policy.act(obs, rng, mask)
    assert mask[rows, action - 1].all()
    np.testing.assert_allclose(log_prob, logs[rows, action - 1], atol=1e-6)
    remembered_by(policy).begin(90)
    np.testing.assert_array_equal(policy.greedy(obs, mask), best)


@pytest.mark.parametrize(
    ("shape", "channels"), [((10, 12, 10), "first"), ((10, 12, 3), "auto"), ((4,), "auto")]
)
def test_channels_that_nobody_told_are_first_if_unclear(shape: tuple[int, ...], channels: str) -> None:
    told = TorchPolicySpec("small_cnn", shape, "uint8", 2, 0, (8,), "relu", False).to_json()
    assert "channels" not in told
    assert TorchPolicySpec.from_json(told).channels == channels


def test_only_numbers_are_normalised() -> None:
    spec = observation_from_space(ROOM)
    inputs = Inputs(spec, images=False, flat=True, normalises=True, clip=10.0)
    obs = observations(spec, ROOM, 300)
    inputs.observe(obs)
    seen, raw = inputs.of(obs, inputs.normaliser.frozen()), spec.encode(obs, False)
    fixed = spec.fixed(False)
    np.testing.assert_array_equal(seen[:, fixed], raw[:, fixed])
    np.testing.assert_allclose(seen[:, ~fixed].mean(0), 0, atol=1e-4)
    np.testing.assert_allclose(seen[:, ~fixed].std(0), 1, atol=1e-3)


def test_an_image_goes_beside_its_normalised_numbers_as_bytes() -> None:
    spec = observation_from_space(PICTURED)
    inputs = Inputs(spec, images=True, flat=False, normalises=True, clip=10.0)
    obs = observations(spec, PICTURED, 50)
    inputs.observe(obs)
    rows = inputs.of(obs, inputs.normaliser.frozen())
    numbers = Inputs(observation_from_space(ROOM), False, True, True, 10.0)
    numbers.observe(obs[NUMBERS])
    assert (rows.dtype, rows.shape) == (np.uint8, (50, 144 + 28 * 4))
    np.testing.assert_array_equal(rows[:, :144], obs[IMAGE].reshape(50, 144))
    np.testing.assert_array_equal(
        np.ascontiguousarray(rows[:, 144:]).view(np.float32),
        numbers.of(obs[NUMBERS], numbers.normaliser.frozen()),
    )
    plain = laid_out(spec.encode(obs, True), None, as_bytes=True)
    np.testing.assert_array_equal(
        np.ascontiguousarray(plain[:, 144:]).view(np.float32), spec.encode(obs, True)[NUMBERS]
    )


def test_a_shape_report_needs_no_observation_but_one_that_exists() -> None:
    spec = observation_from_space(PICTURED)
    nothing = Inputs(spec, images=True, flat=False, normalises=True, clip=10.0).nothing()
    assert spec.contains(nothing).all()
