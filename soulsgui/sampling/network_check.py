"""Whether the network here says the same as the one on the server that it is a copy of."""

from soulsgui.environments.reference import reference_observation, same_outputs
from soulsgui.environments.spaces import ObservationSpec
from soulsgui.errors import ClientRegistrationError
from soulsgui.policies.policy import Policy
from soulsgui.wire.weights import WeightsHeader


def check_network(policy: Policy, header: WeightsHeader, space: ObservationSpec) -> None:
    """Compare what the network says of the reference observation with what the server's says.

    Args:
        policy: The network here, with the weights of the header.
        header: What came with the weights.
        space: Space of one observation.

    Raises:
        ClientRegistrationError: It says something else: samples of it would teach the wrong thing.
    """
    if not same_outputs(header.reference, policy.outputs(reference_observation(space))[0]):
        raise ClientRegistrationError(
            "The network gives other numbers here than on the server.",
            "Install the same version of SoulsGUI and of numpy on both.",
        )
