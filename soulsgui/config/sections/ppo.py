"""Settings of proximal policy optimisation."""

from typing import Annotated, Literal

from soulsgui.config.declaring import Section, setting
from soulsgui.config.schedules import Scheduled, Within
from soulsgui.config.sections import shared


class PPOSettings(Section):
    """Proximal policy optimisation."""

    n_steps: int = setting(
        256,
        "Steps each environment contributes to a round.",
        unit="steps per environment",
        ge=1,
        le=1_000_000,
    )
    n_clients: int | None = setting(
        None,
        "Fewest clients needed to begin the first round; empty means `clients.local`, at least 1. "
        "Later rounds need one.",
        ge=1,
        le=10_000,
    )
    gamma: float = shared.gamma()
    gae_lambda: float = setting(
        0.9,
        "Weight of longer returns in the advantage estimate: 0 trusts the value network, 1 the rewards.",
        ge=0,
        le=1,
    )
    epochs: int = setting(10, "Passes over the data of a round.", unit="passes", ge=1, le=1000)
    minibatch_size: int = setting(
        128,
        "Transitions per gradient step.",
        unit="transitions",
        ge=1,
        le=1_000_000,
    )
    shuffle: Literal["transitions", "trajectories", "none"] = setting(
        "transitions",
        "What a pass over a round draws in random order: single transitions (arXiv 2006.05990, section 3.5, "
        "recommends it), or pieces of episodes, `ppo.sequence_length` steps each; `none` takes these pieces "
        "as they were played. With `network.recurrent` there are only pieces.",
    )
    sequence_length: int = setting(
        64,
        "With `network.recurrent`, or where `ppo.shuffle` does not draw single transitions: steps of an "
        "episode that are learned from in one piece, with a memory also how far a gradient reaches back. "
        "Minibatches are made of whole pieces.",
        unit="steps",
        ge=1,
        le=65_536,
    )
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        1e-3,
        "Step size of the optimiser (Adam): a number, or a schedule such as {schedule: linear, from: 0.001, "
        "to: 0}, over `stop.env_steps` or, with `over: 50000`, so many environment steps.",
    )
    adam_beta1: float = setting(
        0.9, "Part of its momentum that the optimiser (Adam) keeps at each step.", ge=0, lt=1
    )
    adam_beta2: float = setting(
        0.999, "The same for the mean square of the gradients, which its steps are divided by.", ge=0, lt=1
    )
    adam_epsilon: float = setting(
        1e-5, "What the optimiser (Adam) adds to the root of that: it bounds the steps.", gt=0, le=1
    )
    clip: Annotated[Scheduled, Within(gt=0, le=10)] = setting(
        0.2,
        "How far the probability ratio may move away from 1 before its gradient is cut off: a number, or a "
        "schedule.",
    )
    entropy_coef: Annotated[Scheduled, Within(ge=0, le=10)] = setting(
        0.0, "Reward for an undecided policy, 0 switches it off: a number, or a schedule."
    )
    value_coef: float = setting(1.0, "Weight of the value loss.", gt=0, le=100)
    value_clip: float | None = setting(
        None,
        "Limit on the change of the value estimate per update; empty switches it off "
        "(arXiv 2006.05990 advises against it). In deviations where `ppo.normalize_value` is on.",
        gt=0,
        le=1e15,
    )
    value_huber: float | None = setting(
        None,
        "Error beyond which the value loss is linear (Huber loss); empty: it is square everywhere "
        "(arXiv 2006.05990 advises against Huber). In deviations where `ppo.normalize_value` is on.",
        gt=0,
        le=1e15,
    )
    normalize_value: bool = setting(
        False,
        "Let the value network tell values in deviations from the mean of all value targets so far, which is "
        "kept with the agent. It helps where returns are large; elsewhere it may hurt (arXiv 2006.05990, "
        "section 3.3: to be tried).",
    )
    max_grad_norm: float | None = setting(
        0.5, "Gradients longer than this are shortened to it; empty leaves them as they are.", gt=0, le=1e15
    )
    normalize_advantage: Literal["none", "minibatch", "round"] = setting(
        "round",
        "Whether advantages are scaled to mean 0 and deviation 1: not at all, within each minibatch, or over "
        "the whole round, once per pass.",
    )
    recompute_advantages: bool = setting(
        True, "Compute advantages anew before each pass instead of once per round."
    )
    target_kl: float | None = setting(
        None,
        "Stop the passes of a round early when the policy has moved this far; empty switches it off.",
        gt=0,
    )
    round_timeout: float = setting(
        30.0,
        "A client that has not delivered its share of a round by then is lost to it, as one that leaves, is "
        "paused or begins anew is at once; `ppo.lost_member` says what follows.",
        unit="s",
        gt=0,
        le=86_400,
    )
    lost_member: Literal["shrink", "wait", "redistribute", "stop"] = setting(
        "shrink",
        "What becomes of a round that loses a client: `shrink` trains with the rest, `wait` waits until it "
        "is back or somebody stops or forgets it, `redistribute` lets the others make the missing steps, by "
        "their speed, `stop` ends the run.",
    )
    balance: bool = setting(
        False,
        "Give fast clients more steps of a round and slow ones fewer, by their measured speed, so that all "
        "end at about the same time; their sum stays. With one of four clients four times slower this "
        "made 2.2 times the steps; it costs the repeatable curve of several clients. Quotas stay equal where "
        "the round would become shorter by less than a fifth.",
    )
