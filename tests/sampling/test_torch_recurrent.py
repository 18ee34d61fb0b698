"""A memory behind a network that needs torch: client and server, over whole episodes, from stored states."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec
from soulsgui.environments.observations import observation_from_space
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import CheckpointError
from soulsgui.experience.frame_stacks import FrameStacks
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import START
from soulsgui.policies.policy import make_policy
from soulsgui.policies.specs import MEMORY
from soulsgui.rl.agents.dqn import R2D2Agent
from soulsgui.rl.agents.ppo import RecurrentPPOAgent
from soulsgui.rl.buffers.replay import UniformReplay
from soulsgui.rl.buffers.sequences import SequenceReplay
from soulsgui.rl.networks.recurrent import RecurrentTorso
from soulsgui.sampling.torch_policy import TorchRecurrentPolicy
from tests.environments.toys import Room
from tests.experience.segments import segments_of
from tests.rl.recurrent import played
from tests.rl.support import client_of, dqn_settings, ppo_settings

SIDES = (4, 36, 36)
IMAGES = SpacesSpec(BoxSpec(SIDES, "uint8"), DiscreteSpec(4, start=2))
BITS = SpacesSpec(BoxSpec((10, 10, 3), "uint8", (0,), (1,)), DiscreteSpec(4, start=2))
CUBE = SpacesSpec(BoxSpec((10, 10, 10), "uint8", (0,), (1,)), DiscreteSpec(4, start=2))
VECTORS = SpacesSpec(BoxSpec((2, 3), "float64"), DiscreteSpec(4, start=2))
OWN = "tests.rl.networks.test_named:Own"
BURN_IN, LENGTH = 3, 5
CUTS = ((7, False), (7, False), (4, True), (7, False), (2, True), (7, False))


class World:
    """Spaces, and observations of them."""

    def __init__(self, shown: str) -> None:
        room = Room().observation_space
        room.seed(0)
        both = SpacesSpec(observation_from_space(room), DiscreteSpec(4, start=2))
        self._shown, self._room = shown, room
        self.spaces = {"images": IMAGES, "bits": BITS, "cube": CUBE, "vectors": VECTORS, "both": both}[shown]

    def seen(self, rng: np.random.Generator) -> NDArray[Any]:
        box = self.spaces.observation
        if self._shown == "both":
            return box.read(self._room.sample())
        if self._shown == "vectors":
            return rng.normal(3, 2, box.shape)
        largest = 1 if self._shown in ("bits", "cube") else 255
        return rng.integers(0, largest + 1, box.shape, dtype=np.uint8)


def make_agent(algorithm: str, name: str, spaces: SpacesSpec, seed: int = 0, **changes: Any) -> Any:
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


def learned_from(agent: Any, world: World) -> dict[str, float]:
    """Let a client play, and the server learn from it once."""
    batch = played(agent, 0, CUTS, world.seen)
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
    return segments_of(
        obs=batch.obs if obs is None else obs,
        length=batch.length,
        action=batch.action,
        reward=batch.reward,
        log_prob=batch.log_prob,
        terminated=batch.terminated,
        truncated=batch.truncated,
        source=np.zeros(batch.count, np.int64),
        episode=np.cumsum(~batch.joined),
        first_step=before - begins,
        state=batch.state,
    )


@pytest.mark.parametrize("algorithm", ["r2d2", "ppo"])
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("nature_cnn", "images"),
        ("small_cnn", "bits"),
        ("small_cnn", "cube"),
        ("mlp_layer_norm", "vectors"),
        (OWN, "bits"),
        (OWN, "vectors"),
        ("impala_resnet", "both"),
        ("mlp_layer_norm", "both"),
    ],
)
def test_client_and_server_agree_over_whole_episodes(algorithm: str, name: str, shown: str) -> None:
    world = World(shown)
    cell = "gru" if shown == "vectors" else "lstm"
    agent = make_agent(algorithm, name, world.spaces, recurrent=cell)
    first = {name: tensor.clone() for name, tensor in torso_of(agent).named_tensors()}
    figures = learned_from(agent, world)
    assert np.isfinite(list(figures.values())).all()
    if algorithm == "ppo":
        assert figures["approx_kl"] == pytest.approx(0, abs=1e-6), "from the client's states to its words"
    for place, tensor in torso_of(agent).named_tensors():
        assert not torch.equal(tensor, first[place]), f"the gradient does not reach {place}"
    policy, rng = client_of(agent), np.random.default_rng(1)
    obs = np.stack([world.seen(rng) for _ in range(40)])
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
    world = World("images")
    agent = make_agent("r2d2", "nature_cnn", world.spaces)
    batch = played(agent, 0, ((7, False), (7, False), (7, True)), world.seen)
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
    agent = make_agent("r2d2", "nature_cnn", IMAGES, hidden_sizes=())
    assert torso_of(agent)._layer.input_size == 64
    weight = agent.state()[0]["online.torso.torso.layers.0.weight"]
    assert 0.95 / 16 < np.abs(weight).max() <= 1 / 16
    assert sum(layer.parameters for layer in agent.shapes()["values"]) == agent._flat.parameter.numel()
    learned_from(agent, World("images"))
    obs = np.random.default_rng(0).integers(0, 256, (3, *SIDES), dtype=np.uint8)
    np.testing.assert_allclose(client_of(agent).outputs(obs), agent.outputs(obs), atol=1e-5)


def test_weights_that_do_not_fit_are_refused_and_change_nothing() -> None:
    agent = make_agent("r2d2", "mlp_layer_norm", VECTORS)
    policy, obs = client_of(agent), np.ones((2, 2, 3))
    assert isinstance(policy, TorchRecurrentPolicy)
    said, weights = policy.outputs(obs), agent.export_weights()
    other = make_agent("r2d2", "mlp_layer_norm", VECTORS, seed=1).export_weights()
    for name in ("torso.layers.1.weight", "memory.hidden.weight", "policy.0.bias"):
        assert name in weights
        with pytest.raises(CheckpointError, match=name):
            policy.load(other | {name: weights[name][:-1]})
    np.testing.assert_array_equal(policy.outputs(obs), said)
    for broken in ({"network": None, "observation_dtype": "words"}, {"cell": "rnn"}, {"state": {}}):
        with pytest.raises(CheckpointError, match="description of the policy"):
            make_policy(agent.policy_spec() | broken)
