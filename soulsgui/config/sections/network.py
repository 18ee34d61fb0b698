"""Settings of the networks, of what goes into them, and of the hardware that learns."""

from typing import Annotated, Literal

from pydantic import Field

from soulsgui.config.declaring import Effect, Section, setting

Layers = Annotated[tuple[Annotated[int, Field(ge=1, le=65536)], ...], Field(max_length=8)]

Channels = Literal["auto", "first", "last"]
"""Which side of an image holds its channels; `auto`: what its shape says (`environments.images`)."""


class NetworkSettings(Section):
    """Shape of the networks."""

    name: str = setting(
        "mlp",
        "`mlp`, which clients run without PyTorch; `mlp_layer_norm`, with layer normalisation; `nature_cnn`, "
        "`small_cnn` and `impala_resnet` for byte images; or `module:Class` of your own, installed on "
        "the server and on every client (soulsgui.rl.networks.named). All but `mlp` need PyTorch on clients.",
        to_clients=True,
        pattern=r"^(mlp|mlp_layer_norm|nature_cnn|small_cnn|impala_resnet|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$",
    )
    channels: Channels = setting(
        "auto",
        "Which axis of an image holds the channels: the `first`, the `last`, or `auto`, by its shape: the "
        "last one if it has at most 4 entries or only the first two axes are equal, otherwise the first. "
        "The run's log and network.txt say which was chosen; if the first and last axes are equal, it has "
        "to be set.",
    )
    hidden_sizes: Layers = setting(
        (64, 64),
        "Width of each hidden layer of the policy network, or of the Q-network; or of the dense layers "
        "after the filters for images (512 in the source of nature_cnn, 128 in that of small_cnn, 256 in "
        "that of impala_resnet).",
    )
    value_hidden_sizes: Layers = setting(
        (64, 64), "Width of each hidden layer of the value network, or of each critic."
    )
    activation: Literal["tanh", "relu"] = setting("tanh", "Activation between the layers.")
    policy_init_scale: Annotated[float, Field(gt=0, le=10)] = setting(
        0.01,
        "Factor on the initial weights of the last policy layer; small values start with a nearly uniform "
        "policy (arXiv 2006.05990, section 3.2).",
    )
    value_init_scale: Annotated[float, Field(gt=0, le=10)] = setting(
        1.0,
        "Factor on the initial weights of the last value layer (arXiv 2006.05990, section 3.2, finds that it "
        "matters little).",
    )
    shared: bool = setting(
        False,
        "For `ppo` and `vtrace`: let policy and value share all layers (`network.hidden_sizes`) except "
        "their last ones; `network.value_hidden_sizes` is then ignored (arXiv 2006.05990, section 3.2, "
        "advises against it). With `network.recurrent` they share the memory anyway.",
    )
    recurrent: Literal["none", "lstm", "gru"] = setting(
        "none",
        "Memory of the policy, for environments that do not show everything at once: a recurrent layer "
        "after the layers of `network.name` and `network.hidden_sizes` (after filters, the latter may be "
        "empty). With `ppo` it is shared by policy and value.",
    )
    recurrent_size: Annotated[int, Field(ge=1, le=4096)] = setting(
        64, "Width of the recurrent layer.", unit="units"
    )

    action_std: Literal["state_independent", "state_dependent"] = setting(
        "state_independent",
        "For continuous actions: whether their standard deviation is learned as one number each, or "
        "predicted by the policy network for each observation (sac always does the latter; its td3 learns "
        "none).",
    )
    initial_std: Annotated[float, Field(gt=0.001, le=100)] = setting(
        0.5,
        "Standard deviation of continuous actions at the start, before they are squashed; if they are "
        "clipped instead, as a fraction of half their range (arXiv 2006.05990, section 3.2).",
    )
    std_transform: Literal["softplus", "exponential"] = setting(
        "softplus",
        "For `ppo` and `vtrace`: function that makes a standard deviation above 0 from the learned number; "
        "arXiv 2006.05990, section 3.2, recommends the softplus, most programs use the exponential. sac "
        "always uses the softplus.",
    )
    squash: Literal["tanh", "clip"] = setting(
        "tanh",
        "How continuous actions are kept within their bounds: squashed by a tanh, or clipped. Unbounded "
        "ones are neither.",
    )


class NormalizeSettings(Section):
    """Scaling of what the networks see and learn from."""

    observations: bool = setting(
        True,
        "Scale observations by their running mean and standard deviation, as part of the agent; discrete "
        "observations (one-hot) and images are not scaled.",
    )
    clip: Annotated[float, Field(gt=0, le=1000)] = setting(
        10.0, "Normalised observations are limited to plus and minus this value.", unit="standard deviations"
    )
    rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the discounted return (`gamma`), as part of "
        "the agent. Curves, goals and scores still show the original rewards.",
    )
    reward_clip: Annotated[float | None, Field(gt=0, le=1e15)] = setting(
        None,
        "Rewards, scaled or not, are limited to plus and minus this value before they are learned from; "
        "empty: no limit.",
    )


class LearnerSettings(Section, effect=Effect.RESUME):
    """The hardware that learns."""

    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "`cuda` uses a GPU, `cpu` never does; `auto` uses a GPU, if there is one, for images and for "
        "layers of 1024 or more: smaller networks are faster on the CPU.",
    )
    threads: Annotated[int, Field(ge=0, le=1024)] = setting(
        0,
        "Threads of the learner on the CPU; 0 chooses by the size of the network: one for small ones, "
        "which are slower with a second thread.",
        unit="threads",
    )
    processes: Annotated[int, Field(ge=1, le=64)] = setting(
        1,
        "Processes that compute each gradient together, each with a part of the batch and a GPU of its "
        "own: for networks and batches that keep a GPU busy. The steps are the same except for rounding; "
        "batch sizes are those of all processes together. Without a GPU they learn on the CPU, which is "
        "much slower than a single process for small networks.",
        unit="processes",
    )
    compile: Literal["auto", "on", "off"] = setting(
        "auto",
        "Let torch compile gradients that are not implemented by hand: images, `iqn`, actions of PPO other "
        "than a single choice. `auto` compiles in the background if enough updates are expected, and keeps "
        "the result if it is faster; never for `determinism: lockstep` and PPO on the CPU, whose curves "
        "are exactly repeatable. `on` always compiles, `off` never. A C++ compiler (g++) is needed.",
    )
    precision: Literal["float32", "mixed"] = setting(
        "float32",
        "`mixed` lets image networks compute in bfloat16 on a GPU where that is precise enough; float32 is "
        "exact, and always used on the CPU.",
    )
    max_updates_per_s: Annotated[float | None, Field(gt=0)] = setting(
        None,
        "Most updates a second, for algorithms with a replay memory; clients then wait to keep the replay "
        "ratio. Empty: no limit.",
        unit="updates/s",
    )
    memory_limit: Annotated[int | None, Field(ge=0)] = setting(
        None,
        "Memory for the observations of a replay memory, including numbers beside images and action masks. "
        "If more is needed, they are kept in a file in the folder of the run: as fast as before while the "
        "sampled part fits into the computer's memory, otherwise as fast as the disk. The file is deleted "
        "when the run ends; with `checkpoint.with_buffer` it stays, and a stopped run can continue with "
        "it. Empty: half of the computer's memory.",
        unit="bytes",
    )

    @property
    def compiles(self) -> Literal["auto", "on", "off"]:
        """`compile`; `off` where several processes compute together: all would have to at the same time."""
        return self.compile if self.processes == 1 else "off"
