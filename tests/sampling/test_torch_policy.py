"""Policies in torch on a client: the server's numbers, also over whole episodes, or what is told instead."""

import sys
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.environments.actions import action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError, ClientRegistrationError, HardwareError, UsageError
from soulsgui.experience.frame_stacks import IMAGE, NUMBERS, FrameStacks
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.dqn import DQNAgent, R2D2Agent
from soulsgui.rl.agents.ppo import PPOAgent, RecurrentPPOAgent
from soulsgui.rl.buffers.replay import NStepBatch, UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.rl.networks.recurrent import RecurrentTorso
from soulsgui.sampling.torch_policy import TorchPolicy, policy_device
from tests.environments.toys import SPACES_TAKEN, Room
from tests.experience.segments import segments_of
from tests.rl.agents.cases import MEMBERS, windows
from tests.rl.recurrent import played
from tests.rl.support import client_of, dqn_settings, ppo_settings

IMAGES = SpacesSpec(BoxSpec((36, 40, 3), "uint8"), DiscreteSpec(4, start=2))
VECTORS = SpacesSpec(BoxSpec((2, 3), "float64"), DiscreteSpec(4, start=2))
BOTH = replace(IMAGES, observation=observation_from_space(Room().observation_space))
OWN = "tests.rl.networks.test_named:Own"


def make_agent(name: str, spaces: SpacesSpec, seed: int = 0, **changes: Any) -> PPOAgent:
    sizes = {"hidden_sizes": (16,), "value_hidden_sizes": (8,), "policy_init_scale": 1.0}
    return PPOAgent(spaces, ppo_settings(name=name, epochs=1, **(sizes | changes)), seed)


def seen(spaces: SpacesSpec, rng: np.random.Generator) -> NDArray[Any]:
    """Return a random observation."""
    box: Any = spaces.observation
    if spaces == BOTH:
        room = Room().observation_space
        room.seed(int(rng.integers(2**31)))
        return box.read(room.sample())
    if box.dtype == "uint8":
        return rng.integers(0, (box.high or (255,))[0] + 1, box.shape, dtype=np.uint8)
    return rng.normal(3, 2, box.shape).astype(box.dtype)


def observations(spaces: SpacesSpec, count: int, seed: int = 0) -> NDArray[Any]:
    rng = np.random.default_rng(seed)
    return np.stack([seen(spaces, rng) for _ in range(count)])


def round_of(policy: Policy, obs: NDArray[Any]) -> Segments:
    """Return what the policy does at 22 observations: two episodes, of which one goes on."""
    action, log_prob = policy.act(obs[np.delete(np.arange(22), (10, 21))], np.random.default_rng(0))
    return segments_of(
        obs=obs,
        length=np.array([10, 10]),
        action=action,
        log_prob=log_prob,
        reward=np.arange(20, dtype=np.float32),
        terminated=np.array([True, False]),
    )


@pytest.mark.parametrize(
    ("name", "spaces"),
    [
        ("nature_cnn", IMAGES),
        ("impala_resnet", IMAGES),
        ("mlp_layer_norm", VECTORS),
        ("mlp_layer_norm", IMAGES),
        (OWN, IMAGES),
        (OWN, VECTORS),
    ],
)
def test_a_client_says_what_the_server_says(name: str, spaces: SpacesSpec) -> None:
    agent = make_agent(name, spaces)
    first = client_of(agent)
    assert isinstance(first, TorchPolicy)
    before = agent.state()[0]
    figures = agent.update(round_of(first, observations(spaces, 22)), START)
    assert np.isfinite(list(figures.values())).all()
    after = agent.state()[0]
    learned = [name for name in before if name.startswith(("policy", "value")) and before[name].ndim]
    still = [name for name in learned if np.array_equal(before[name], after[name])]
    assert (len(learned) > 3, still) == (True, []), "the gradient reaches everything"
    images = name != "mlp_layer_norm" and spaces is IMAGES
    # Images are scaled; statistics of single pixels are neither taken nor sent.
    assert bool(agent.normaliser.count) != images
    assert any(key.startswith("normaliser") for key in agent.export_weights()) != images
    policy = client_of(agent)
    obs = observations(spaces, 50, seed=1)
    said = agent.outputs(obs)
    assert said.std(0).min() > 1e-3, "it depends on the observation"
    np.testing.assert_array_equal(policy.outputs(obs), said)
    assert not np.array_equal(first.outputs(obs), said), "another copy keeps its weights"
    shifted = said - said.max(1, keepdims=True)
    log_probs = shifted - np.log(np.exp(shifted).sum(1, keepdims=True))
    action, log_prob = policy.act(obs, np.random.default_rng(3))
    np.testing.assert_allclose(log_prob, log_probs[np.arange(50), action - 2], atol=1e-5)
    np.testing.assert_array_equal(policy.log_prob(obs, action), log_prob)
    np.testing.assert_array_equal(policy.greedy(obs), said.argmax(1) + 2)


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
@pytest.mark.parametrize(("sides", "channels"), [(4, "auto"), (10, "last"), (10, "first")])
def test_a_client_sees_maps_of_bits_as_the_server_does(algorithm: str, sides: int, channels: str) -> None:
    spaces = replace(BITS, observation=BoxSpec((10, 10, sides), "uint8", (0,), (1,)))
    settings = dqn_settings(name="small_cnn", hidden_sizes=(16,), channels=channels)
    agent: PPOAgent | DQNAgent = DQNAgent(spaces, settings, 0)
    if algorithm == "ppo":
        agent = make_agent("small_cnn", spaces, channels=channels)
    obs = observations(spaces, 30)
    # What was saved where nobody was asked reads the same: it says nothing of channels.
    assert agent.policy_spec().get("channels", "auto") == channels
    np.testing.assert_allclose(client_of(agent).outputs(obs), agent.outputs(obs), atol=1e-5)


@pytest.mark.parametrize("takes", [kind for kind in SPACES_TAKEN if kind != "words"])
def test_actions_of_every_kind_are_drawn_as_the_server_learns(takes: str) -> None:
    agent = make_agent(
        "mlp_layer_norm", replace(VECTORS, action=action_from_space(SPACES_TAKEN[takes])), minibatch_size=100
    )
    policy, obs = client_of(agent), observations(VECTORS, 9)
    np.testing.assert_array_equal(policy.outputs(obs), agent.outputs(obs))
    best = agent.head.distribution(torch.from_numpy(agent.outputs(obs)), None).mode().detach()
    np.testing.assert_allclose(policy.greedy(obs), agent.head.stored(best.numpy()), atol=1e-6)
    figures = agent.update(round_of(policy, observations(VECTORS, 22)), START)
    assert figures["approx_kl"] == pytest.approx(0, abs=1e-5)


@pytest.mark.parametrize("agent", [PPOAgent, RecurrentPPOAgent])
def test_without_torch_it_is_told_what_to_do(agent: type[PPOAgent], monkeypatch: pytest.MonkeyPatch) -> None:
    spec = agent(IMAGES, ppo_settings(name="nature_cnn", hidden_sizes=(8,), recurrent="gru"), 0).policy_spec()
    monkeypatch.delitem(sys.modules, "soulsgui.sampling.torch_policy")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ClientRegistrationError, match=r"nature_cnn .* needs PyTorch") as caught:
        make_policy(spec)
    assert "pip install torch" in caught.value.remedy
    assert "mlp" in caught.value.remedy


def test_a_policy_computes_on_a_gpu_where_that_is_wanted_and_there_is_one() -> None:
    chosen = {
        (wanted, gpu): policy_device(wanted, gpu) for wanted in ("auto", "cpu") for gpu in (True, False)
    }
    assert {choice for choice, device in chosen.items() if device == "cuda"} == {("auto", True)}
    assert policy_device("cuda", True) == "cuda"
    with pytest.raises(HardwareError, match=r"central\.inference_device is cuda") as caught:
        policy_device("cuda", False)
    assert "inference_device=auto" in caught.value.remedy


def test_numpy_needs_no_device_and_torch_takes_the_one_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    make_policy(make_agent("mlp", VECTORS).policy_spec(), "cuda")
    with pytest.raises(HardwareError):
        make_policy(make_agent(OWN, VECTORS).policy_spec(), "cuda")


@pytest.mark.parametrize("changes", [{}, *MEMBERS.values()], ids=["dqn", *MEMBERS])
def test_network_and_observations_meet_on_the_device(changes: dict[str, Any]) -> None:
    agent = trained_values("nature_cnn", IMAGES, **changes)
    policy = TorchPolicy(agent.policy_spec(), "meta")  # computes nothing, but minds where things are
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        policy.outputs(observations(IMAGES, 3))


def test_values_and_networks_that_nobody_knows_here_are_refused() -> None:
    values = trained_values("mlp_layer_norm", VECTORS).policy_spec() | {"values": {"agent": "dqn"}}
    with pytest.raises(CheckpointError, match="can't be read"):
        make_policy(values)
    elsewhere = make_agent(OWN, VECTORS).policy_spec() | {"network": "nowhere_at_all:Own"}
    with pytest.raises(UsageError, match="There is no network “nowhere_at_all:Own”") as caught:
        make_policy(elsewhere)
    assert "every client" in caught.value.remedy


def trained_values(name: str, spaces: SpacesSpec, seed: int = 0, **changes: Any) -> DQNAgent:
    sizes = {"hidden_sizes": (16, 8), "quantiles": 4, "atoms": 5}
    agent = DQNAgent(spaces, dqn_settings(name=name, learning_rate=0.01, **(sizes | changes)), seed)
    for index in range(2):
        batch = windows(8, index, spaces)
        agent.observe(batch.obs)
        assert np.isfinite(agent.update(batch)).all()
    return agent


@pytest.mark.parametrize("changes", [{}, *MEMBERS.values()], ids=["dqn", *MEMBERS])
@pytest.mark.parametrize(
    ("name", "spaces"), [("nature_cnn", IMAGES), ("mlp_layer_norm", VECTORS), (OWN, VECTORS)]
)
def test_actions_are_valued_as_by_the_server(name: str, spaces: SpacesSpec, changes: dict[str, Any]) -> None:
    agent = trained_values(name, spaces, **changes)
    assert bool(agent.normaliser.count) == (spaces is VECTORS)
    if name == "nature_cnn":  # filters begin by fan-in
        weight = DQNAgent(spaces, agent.settings, 0).state()[0]["online.torso.layers.0.weight"]
        assert 0.95 / np.sqrt(192) < np.abs(weight).max() <= 1 / np.sqrt(192)
    policy, obs = client_of(agent), observations(spaces, 20, seed=1)
    said = agent.outputs(obs)
    assert said.std(0).min() > 1e-5, "they depend on the observation"
    np.testing.assert_array_equal(policy.outputs(obs), said)
    np.testing.assert_array_equal(policy.greedy(obs), said.argmax(1) + 2)


@pytest.mark.parametrize("name", ["impala_resnet", "mlp_layer_norm", OWN])
@pytest.mark.parametrize("algorithm", ["ppo", "dqn", "iqn"])
def test_an_image_and_numbers_are_seen_together(name: str, algorithm: str) -> None:
    obs = observations(BOTH, 22)
    if algorithm == "ppo":
        agent: Any = make_agent(name, BOTH, minibatch_size=100)
    else:
        agent = DQNAgent(BOTH, dqn_settings(name=name, hidden_sizes=(16, 16), agent=algorithm), 0)
        agent.observe(obs)
    first = client_of(agent)
    if algorithm == "ppo":
        assert agent.update(round_of(first, obs), START)["approx_kl"] == pytest.approx(0, abs=1e-5)
    else:
        actions = np.arange(20) % 4 + 2
        reward, discount = np.ones(20, np.float32), np.full(20, 0.9, np.float32)
        agent.update(NStepBatch(obs[:20], actions, reward, obs[1:21], discount))
    assert agent.normaliser.count
    said = agent.outputs(obs)
    np.testing.assert_allclose(client_of(agent).outputs(obs), said, atol=1e-5)
    for part in (IMAGE, NUMBERS):
        changed = obs.copy()
        changed[part] = obs[part][::-1]
        assert np.abs(agent.outputs(changed) - said).max() > 1e-4, "both count"
    assert sum(layer.parameters for layer in next(iter(agent.shapes().values())))


SIDES = (4, 36, 36)
STACKED = replace(IMAGES, observation=BoxSpec(SIDES, "uint8"))
BITS = replace(IMAGES, observation=BoxSpec((10, 10, 3), "uint8", (0,), (1,)))
CUBE = replace(IMAGES, observation=BoxSpec((10, 10, 10), "uint8", (0,), (1,)))
BURN_IN, LENGTH = 3, 5
CUTS = ((7, False), (7, False), (4, True), (7, False), (2, True), (7, False))


def recurrent_agent(algorithm: str, name: str, spaces: SpacesSpec, seed: int = 0, **changes: Any) -> Any:
    wanted = {"name": name, "hidden_sizes": (12,), "recurrent": "lstm", "recurrent_size": 9, **changes}
    if spaces == CUBE:
        wanted["channels"] = "last"  # its shape does not say it
    if algorithm == "ppo":
        # All of the round in one minibatch, so that its ratios are those before any step.
        wanted |= {"policy_init_scale": 3.0, "minibatch_size": 1000, "epochs": 1, "learning_rate": 0.01}
        return RecurrentPPOAgent(spaces, ppo_settings(value_hidden_sizes=(8,), **wanted), seed)
    wanted |= {"agent": "r2d2", "burn_in": BURN_IN, "n_step": 2, "learning_rate": 0.01}
    return R2D2Agent(spaces, dqn_settings(**wanted), seed)


def torso_of(agent: Any) -> RecurrentTorso:
    found = agent.online.torso if isinstance(agent, R2D2Agent) else agent.memory
    assert isinstance(found, RecurrentTorso)
    return found


def learned_from(agent: Any) -> dict[str, float]:
    """Let a client play, and the server learn from it once."""
    batch = played(agent, 0, CUTS, partial(seen, agent.spaces))
    if isinstance(agent, RecurrentPPOAgent):
        return agent.update(batch, START)
    kept = memory(agent)
    agent.observe(batch.obs)
    kept.add(segments(batch))
    drawn = kept.draw(30 * LENGTH, np.random.default_rng(0))
    assert np.isfinite(agent.update(drawn.batch)).all()
    return agent.figures()


def memory(agent: R2D2Agent) -> SequenceReplay:
    ring = UniformReplay(1000, agent.spaces.observation)
    return SequenceReplay(ring, MEMORY, torso_of(agent).state_size, BURN_IN, LENGTH, 1000, 0.9)


def segments(batch: Segments, obs: Any = None) -> Segments:
    """Return a round as a memory takes it."""
    before = np.cumsum(batch.length) - batch.length
    begins = np.maximum.accumulate(np.where(batch.joined, 0, before))
    where = {"source": np.zeros(batch.count, np.int64), "episode": np.cumsum(~batch.joined)}
    return replace(batch, obs=batch.obs if obs is None else obs, first_step=before - begins, **where)


@pytest.mark.parametrize("algorithm", ["r2d2", "ppo"])
@pytest.mark.parametrize(
    ("name", "spaces"),
    [
        ("nature_cnn", STACKED),
        ("small_cnn", BITS),
        ("small_cnn", CUBE),
        ("mlp_layer_norm", VECTORS),
        (OWN, BITS),
        (OWN, VECTORS),
        ("impala_resnet", BOTH),
        ("mlp_layer_norm", BOTH),
    ],
)
def test_client_and_server_agree_over_whole_episodes(algorithm: str, name: str, spaces: SpacesSpec) -> None:
    cell = "gru" if spaces is VECTORS else "lstm"
    agent = recurrent_agent(algorithm, name, spaces, recurrent=cell)
    first = {name: tensor.clone() for name, tensor in torso_of(agent).named_tensors()}
    figures = learned_from(agent)
    assert np.isfinite(list(figures.values())).all()
    if algorithm == "ppo":
        assert figures["approx_kl"] == pytest.approx(0, abs=1e-6), "from the client's states to its words"
    for place, tensor in torso_of(agent).named_tensors():
        assert not torch.equal(tensor, first[place]), f"the gradient does not reach {place}"
    policy, rng = client_of(agent), np.random.default_rng(1)
    obs = observations(spaces, 40, seed=1)
    np.testing.assert_allclose(policy.outputs(obs), agent.outputs(obs), atol=1e-5)
    assert agent.outputs(obs).std(0).min() > 1e-5, "it depends on the observation"

    obs = obs.reshape(20, 2, *obs.shape[1:])
    starts = np.zeros((20, 2), np.bool_)
    starts[0] = starts[7, 1] = starts[8, 0] = True
    torso = torso_of(agent)
    inputs = torch.as_tensor(agent._inputs(obs.reshape(40, *obs.shape[2:])))
    with torch.no_grad():
        features, last = torso(
            inputs.view(20, 2, *inputs.shape[1:]), torch.zeros(2, torso.state_size), torch.from_numpy(starts)
        )
    policy.remembered.begin(2)
    for step in range(20):
        policy.remembered.forget(starts[step])
        policy.act(obs[step], rng)
        remembered = policy.remembered.fields[MEMORY]
        np.testing.assert_allclose(remembered[:, : torso.features], features[step], atol=1e-5)
    np.testing.assert_allclose(policy.remembered.fields[MEMORY], last, atol=1e-5)


def test_sequences_of_stacked_frames_go_on_from_the_states_that_clients_stored() -> None:
    agent = recurrent_agent("r2d2", "nature_cnn", STACKED)
    batch = played(agent, 0, ((7, False), (7, False), (7, True)), partial(seen, STACKED))
    # The round again, of frames that neighbours share: what is shown slides over 4 frames.
    rng, rows = np.random.default_rng(5), len(batch.obs)
    frames = rng.integers(0, 256, (rows + 3, *SIDES[1:]), dtype=np.uint8)
    first = np.arange(rows) - np.repeat(np.arange(3), batch.length + 1)  # cuts repeat an observation
    stacks = FrameStacks(frames, first, 4, 1)
    shown = np.asarray(stacks)
    policy, said, states = client_of(agent), [], []
    for index, begin in enumerate(np.cumsum(batch.length + 1) - batch.length - 1):
        states.append(policy.remembered.fields[MEMORY][0].copy())
        for row in range(begin, begin + 7):
            before = policy.remembered.fields[MEMORY]
            said.append(policy._through(shown[row : row + 1], before)[0][0])  # type: ignore[attr-defined]
            policy.greedy(shown[row : row + 1])
        assert index == 0 or states[-1].any()
    kept = memory(agent)
    kept.add(segments(replace(batch, state={MEMORY: np.array(states)}), stacks))
    drawn = kept.draw(40 * LENGTH, np.random.default_rng(0)).batch
    given = agent._rows(drawn)
    assert given.obs.dtype == np.uint8, "scaled where the network is, not on the way"
    with torch.no_grad():
        found = agent.online(
            torch.from_numpy(given.obs), torch.from_numpy(given.state), BURN_IN, torch.from_numpy(given.exact)
        )
    assert set(drawn.number) == {0, 1, 2}
    for column, number in enumerate(drawn.number):
        steps = int(drawn.valid[:, column].sum())
        np.testing.assert_allclose(
            found[:steps, column], np.array(said[7 * number : 7 * number + steps]), atol=1e-5
        )


def test_filters_may_stand_right_before_the_memory_and_begin_by_fan_in() -> None:
    agent = recurrent_agent("r2d2", "nature_cnn", STACKED, hidden_sizes=())
    assert torso_of(agent)._layer.input_size == 64
    weight = agent.state()[0]["online.torso.torso.layers.0.weight"]
    assert 0.95 / 16 < np.abs(weight).max() <= 1 / 16
    assert sum(layer.parameters for layer in agent.shapes()["values"]) == agent._flat.parameter.numel()
    learned_from(agent)
    obs = observations(STACKED, 3)
    np.testing.assert_allclose(client_of(agent).outputs(obs), agent.outputs(obs), atol=1e-5)
