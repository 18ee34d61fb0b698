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
        "`small_cnn` and `impala_resnet` for images of bytes; or `module:Class` of your own, installed on "
        "the server and on every client (soulsgui.rl.networks.named). All but `mlp` need PyTorch on clients.",
        to_clients=True,
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
    policy_init_scale: Annotated[float, Field(gt=0, le=10)] = setting(
        0.01,
        "Factor on the initial weights of the last policy layer; small values begin with a nearly "
        "uniform policy (arXiv 2006.05990, section 3.2).",
    )
    value_init_scale: Annotated[float, Field(gt=0, le=10)] = setting(
        1.0,
        "Factor on the initial weights of the last value layer (arXiv 2006.05990, section 3.2, finds that it "
        "matters little).",
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
    recurrent_size: Annotated[int, Field(ge=1, le=4096)] = setting(
        64, "Width of the recurrent layer.", unit="units"
    )

    action_std: Literal["state_independent", "state_dependent"] = setting(
        "state_independent",
        "Where actions are numbers within bounds: whether their deviation is learned as one number each, or "
        "told by the policy network for each observation (sac always does the latter; its td3 learns none).",
    )
    initial_std: Annotated[float, Field(gt=0.001, le=100)] = setting(
        0.5,
        "Deviation of such actions at the start, before they are squashed; where they are cut off instead, "
        "as a part of half their range (arXiv 2006.05990, section 3.2).",
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
    clip: Annotated[float, Field(gt=0, le=1000)] = setting(
        10.0, "Normalised observations are limited to plus and minus this value.", unit="standard deviations"
    )
    rewards: bool = setting(
        False,
        "Divide rewards by the running standard deviation of the return that falls off with `gamma`, as part "
        "of the agent. Curves, goals and scores go on showing what the environment gave.",
    )
    reward_clip: Annotated[float | None, Field(gt=0, le=1e15)] = setting(
        None,
        "Rewards, scaled or not, are limited to plus and minus this value before they are learned from; "
        "empty does not limit them.",
    )


class LearnerSettings(Section, effect=Effect.RESUME):
    """The hardware that learns."""

    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "`cuda` computes on a GPU, `cpu` never does; `auto` takes a GPU, where there is one, for images and "
        "for layers of 1024 or more: smaller networks are quicker on the CPU.",
    )
    threads: Annotated[int, Field(ge=0, le=1024)] = setting(
        0,
        "Threads of the learner on the CPU; 0 chooses by the size of the network: one for small ones, which "
        "a second thread only slows down.",
        unit="threads",
    )
    processes: Annotated[int, Field(ge=1, le=64)] = setting(
        1,
        "Processes that compute each gradient together, a part of the batch each, every one on a GPU of its "
        "own: for networks and batches that keep a GPU busy. A step is the same, but for rounding; batch "
        "sizes are those of all together. Where there is no GPU they learn on the CPU, which is much slower "
        "than one for small networks.",
        unit="processes",
    )
    compile: Literal["auto", "on", "off"] = setting(
        "auto",
        "Let torch compile the gradient of networks that have none written out by hand: images, `iqn`, "
        "actions of PPO that are no single choice. `auto` does it beside the learning where the updates "
        "that are expected repay it, and keeps it if it is quicker; never for `determinism: lockstep` and "
        "PPO on the CPU, whose curves are equal to the bit. `on` does so everywhere, `off` nowhere. Without "
        "a compiler of C++ (g++) nothing is compiled.",
    )
    precision: Literal["float32", "mixed"] = setting(
        "float32",
        "`mixed` lets networks of images compute in bfloat16 on a GPU where that is enough; float32 is "
        "exact, and what the CPU always does.",
    )
    max_updates_per_s: Annotated[float | None, Field(gt=0)] = setting(
        None,
        "Updates a second of an algorithm with a replay memory, at most; clients then wait, so that the "
        "replay ratio is met. Empty: as many as this computer can.",
        unit="updates/s",
    )
    memory_limit: Annotated[int | None, Field(ge=0)] = setting(
        None,
        "Memory for the observations of a replay memory, the numbers beside images and the action masks "
        "among them. A larger one keeps them in a file in the folder of the run, which the system reads and "
        "writes as it can: as quick as before while what is drawn fits into the computer's memory, else as "
        "quick as the disk. The file goes with the run's end; with `checkpoint.with_buffer` it stays, and a "
        "run that was stopped goes on with it. Empty: half of the computer's memory.",
        unit="bytes",
    )

    @property
    def compiles(self) -> Literal["auto", "on", "off"]:
        """`compile`; `off` where several processes compute together: all would have to at the same time."""
        return self.compile if self.processes == 1 else "off"
