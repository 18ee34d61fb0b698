"""Settings of the networks and of what goes into them."""

from typing import Annotated, Literal

from pydantic import Field

from soulsgui.config.declaring import Section, setting

Layers = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Field(max_length=8)]

Channels = Literal["auto", "first", "last"]
"""Which side of an image holds its channels; `auto`: what its shape says (`environments.images`)."""


class NetworkSettings(Section):
    """Shape of the networks."""

    name: str = setting(
        "mlp",
        "`mlp`, which clients run without PyTorch; `mlp_layer_norm`, with layer normalisation; `nature_cnn`, "
        "`small_cnn` and `impala_resnet` for images of bytes; or `module:Class` of your own, installed on "
        "the server and on every client (soulsgui.rl.networks.named). All but `mlp` need PyTorch on clients.",
        pattern=r"^(mlp|mlp_layer_norm|nature_cnn|small_cnn|impala_resnet|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
    )
    channels: Channels = setting(
        "auto",
        "Which side of an image its channels are, for networks that see images: the `first`, the `last`, or, "
        "with `auto`, what its shape says: last where there are at most 4 or only the first two sides are "
        "equal, otherwise first. The run's log and network.txt tell which it took; where the first side is "
        "as long as the last it can't be told, and has to be set.",
    )
    hidden_sizes: Layers = setting(
        (64, 64),
        "Width of each hidden layer of the policy network, or of the Q-network; of the dense layers behind "
        "the filters where images are seen (512 in the source of nature_cnn, 128 in that of small_cnn, "
        "256 in that of impala_resnet).",
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
    value_init_scale: float = setting(
        1.0,
        "Factor on the initial weights of the last value layer (arXiv 2006.05990, section 3.2, finds that it "
        "matters little).",
        gt=0,
        le=10,
    )
    shared: bool = setting(
        False,
        "Of `ppo` and `vtrace`: let policy and value share all layers but their last ones, "
        "`network.hidden_sizes`; `network.value_hidden_sizes` is then not looked at (arXiv 2006.05990, "
        "section 3.2, advises against it). With `network.recurrent` they share the memory anyway.",
    )
    recurrent: Literal["none", "lstm", "gru"] = setting(
        "none",
        "Memory of the policy, for environments that do not show all at once: a recurrent layer behind the "
        "layers of `network.name` and `network.hidden_sizes` (behind filters there need be none of the "
        "latter). Of `ppo` it is shared by policy and value.",
    )
    recurrent_size: int = setting(64, "Width of the recurrent layer.", unit="units", ge=1, le=4096)

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
    std_transform: Literal["softplus", "exponential"] = setting(
        "softplus",
        "Of `ppo` and `vtrace`: what makes a deviation above 0 of what is learned; arXiv 2006.05990, section "
        "3.2, recommends the softplus, most programs take the exponential. sac always has a softplus.",
    )
    squash: Literal["tanh", "clip"] = setting(
        "tanh",
        "How such actions are kept within their bounds: squashed by a tanh, or cut off. Unbounded ones are "
        "neither.",
    )


class NormalizeSettings(Section):
    """Scaling of what the networks see and learn from."""

    observations: bool = setting(
        True,
        "Scale observations by their running mean and standard deviation, as part of the agent; choices, "
        "which networks see one-hot, and images stay as they are.",
    )
    clip: float = setting(
        10.0,
        "Normalised observations are limited to plus and minus this value.",
        unit="standard deviations",
        gt=0,
        le=1000,
    )
    rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the return that falls off with `gamma`, as part "
        "of the agent. Curves, goals and scores go on showing what the environment gave.",
    )
    reward_clip: float | None = setting(
        None,
        "Rewards, scaled or not, are limited to plus and minus this value before they are learned from; "
        "empty does not limit them.",
        gt=0,
        le=1e15,
    )
