"""Settings of the networks and of what goes into them."""

from typing import Annotated, Literal

from pydantic import Field

from soulsgui.config.declaring import Section, setting

Layers = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Field(max_length=8)]


class NetworkSettings(Section):
    """Shape of the networks."""

    hidden_sizes: Layers = setting(
        (64, 64), "Width of each hidden layer of the policy network, or of the Q-network."
    )
    value_hidden_sizes: Layers = setting(
        (64, 64), "Width of each hidden layer of the value network, or of each critic."
    )
    activation: Literal["tanh", "relu"] = setting("tanh", "Activation between the layers.")
    policy_init_scale: float = setting(
        0.01,
        "Factor on the initial weights of the last policy layer; small values begin with a nearly "
        "uniform policy (arXiv 2006.05990, section 3.2).",
        gt=0,
        le=10,
    )

    action_std: Literal["state_independent", "state_dependent"] = setting(
        "state_independent",
        "Where actions are numbers within bounds: whether their deviation is learned as one number each, or "
        "told by the policy network for each observation (sac always does the latter).",
    )
    initial_std: float = setting(
        0.5,
        "Deviation of such actions at the start, before they are squashed; where they are cut off instead, "
        "as a part of half their range (arXiv 2006.05990, section 3.2).",
        gt=0.001,
        le=100,
    )
    squash: Literal["tanh", "clip"] = setting(
        "tanh",
        "How such actions are kept within their bounds: squashed by a tanh, or cut off. Unbounded ones are "
        "neither.",
    )


class NormalizeSettings(Section):
    """Scaling of what the networks see."""

    observations: bool = setting(
        True, "Scale observations by their running mean and standard deviation, as part of the agent."
    )
    clip: float = setting(
        10.0,
        "Normalised observations are limited to plus and minus this value.",
        unit="standard deviations",
        gt=0,
        le=1000,
    )
