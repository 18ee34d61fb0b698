"""The network of a client is compared with the one that it is a copy of."""

import numpy as np
import pytest

from soulsgui.environments.reference import reference_observation
from soulsgui.environments.spaces import BoxSpec, DiscreteSpec, SpacesSpec
from soulsgui.errors import ClientRegistrationError
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.rl.agents.dqn import DQNAgent
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.sampling.network_check import check_network
from soulsgui.wire.weights import pack_weights, unpack_weights
from tests.training.nodes import small_settings

SPACES = SpacesSpec(BoxSpec((4,), "float32"), DiscreteSpec(3))


@pytest.mark.parametrize("kind", [PPOAgent, DQNAgent])
def test_a_copy_agrees_and_one_with_another_number_does_not(kind: type[PPOAgent] | type[DQNAgent]) -> None:
    agent = kind(SPACES, small_settings(), seed=1)
    box = SPACES.observation
    told = tuple(map(float, agent.outputs(reference_observation(box))[0]))
    assert len(told) == 3
    header, tensors = unpack_weights(pack_weights("run", 1, 5, 4, agent.export_weights(), told)[1])
    policy = NumpyMLPPolicy(agent.policy_spec())
    policy.load(tensors)
    check_network(policy, header, box)
    changed = dict(tensors) | {"policy.1.bias": tensors["policy.1.bias"] + np.float32(0.001)}
    policy.load(changed)
    with pytest.raises(ClientRegistrationError, match="other numbers here than on the server"):
        check_network(policy, header, box)
