"""Settings of the learning algorithms."""

from typing import Annotated, Any, Literal

from soulsgui.config.declaring import Scheduled, Section, Within, setting


def _gamma() -> Any:
    """Declare the discount."""
    return setting(0.99, "Discount of future rewards: the most important setting of all.", ge=0, le=1)


def _batch_size(default: int) -> Any:
    """Declare how many transitions a gradient step learns from."""
    return setting(default, "Transitions per gradient step.", unit="transitions", ge=1, le=1_000_000)


def _buffer_size(default: int) -> Any:
    """Declare the size of a replay memory."""
    return setting(
        default,
        "Transitions that are kept to learn from; the oldest give way.",
        unit="transitions",
        ge=100,
        le=100_000_000,
    )


def _learning_starts() -> Any:
    """Declare how many transitions come before the first update."""
    return setting(
        1_000,
        "Transitions to collect before the first update; `stop.env_steps` has to be more.",
        unit="transitions",
        ge=1,
        le=100_000_000,
    )


def _replay_ratio(default: float, most: float, remark: str = "") -> Any:
    """Declare how often each transition is drawn."""
    return setting(
        default,
        "How often each transition is drawn, on average: transitions drawn by transitions taken in. "
        f"{remark}Above it the learner waits for samples, below it the clients wait for the learner.",
        gt=0,
        le=most,
    )


def _replay_ratio_tolerance() -> Any:
    """Declare how far the replay ratio may stray."""
    return setting(
        0.1, "How far the replay ratio may stray before one side waits, as a part of it.", gt=0, le=1
    )


def _max_policy_lag(default: int) -> Any:
    """Declare how many updates old samples may be."""
    return setting(
        default,
        "How many updates the learner may be ahead of the weights that samples were made with: weights are "
        "published as often, and clients have as little on their way, as this asks for. An aim, no bound: "
        "samples are older where a client is slow or far away, until they are refused, and where weights are "
        "large: no more than 50 MB of them are published per second (5 MB every 0.1 s).",
        unit="updates",
        ge=1,
        le=1_000_000,
    )


def _max_model_delay(default: int, remark: str = "") -> Any:
    """Declare after how many publishes samples are too old."""
    return setting(
        default,
        f"Samples of weights that were published longer ago than this are refused, {remark}and clients wait "
        "rather than make them.",
        unit="publishes",
        ge=1,
        le=10_000,
    )


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
        "Fewest clients needed to begin the first round; empty means `clients.local`, at least 1, "
        "for as long as `round_timeout`. Later rounds need one.",
        ge=1,
        le=10_000,
    )
    gamma: float = _gamma()
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


BEYOND_SUPPORT = "beyond_support"
"""Figure of c51 and rainbow: share of samples whose return lies outside of what they can tell."""

_MUCH = 0.01


def beyond_support_words(share: float) -> str:
    """Say that `value_min` and `value_max` do not reach as far as the returns do; empty where they do.

    Args:
        share: The figure of `BEYOND_SUPPORT`.
    """
    if share <= _MUCH:
        return ""
    return f"{share:.0%} of the returns that are learned lie outside dqn.value_min and dqn.value_max"


BEYOND_SUPPORT_REMEDY = (
    "Begin a run in which they hold the lowest and the highest discounted return, or take qr_dqn or iqn, "
    "which have no such bounds."
)


class DQNSettings(Section):
    """Deep Q-learning: asynchronous, off-policy."""

    agent: Literal["dqn", "qr_dqn", "c51", "iqn", "rainbow", "r2d2"] = setting(
        "dqn",
        "What is learned of the return: its mean (dqn), its quantiles (qr_dqn, iqn) or its distribution over "
        "fixed atoms (c51). rainbow is c51 with everything: double, dueling, noisy and prioritised, whatever "
        "the settings of these say; to leave one out, take c51 and set the others. r2d2 "
        "learns the mean with a memory (`network.recurrent`), from sequences; double, dueling, prioritised.",
    )
    dueling: bool = setting(
        False,
        "Give the value of a state and the advantages of the actions layers of their own: the last one of "
        "`network.hidden_sizes` exists for each (arXiv 1511.06581).",
    )
    n_step: int = setting(
        5,
        "Rewards that are added up before the value of what follows is asked for.",
        unit="steps",
        ge=1,
        le=1000,
    )
    gamma: float = _gamma()
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        5e-4, "Step size of the optimiser (Adam): a number, or a schedule as for `ppo.learning_rate`."
    )
    batch_size: int = _batch_size(128)
    buffer_size: int = _buffer_size(100_000)
    learning_starts: int = _learning_starts()
    replay_ratio: float = _replay_ratio(64.0, 1000)
    replay_ratio_tolerance: float = _replay_ratio_tolerance()
    double: bool = setting(
        True,
        "Choose the next action by the online network and value it by the target network (arXiv 1509.06461).",
    )
    loss: Literal["huber", "mse"] = setting(
        "huber",
        "Loss of the temporal difference with `dqn.agent` dqn: `huber` bounds the gradient of large errors, "
        "`mse` does not. The other agents have losses of their own.",
    )
    target_interval: int = setting(
        1, "Updates between two moves of the target network.", unit="updates", ge=1, le=10_000_000
    )
    target_tau: float = setting(
        0.01,
        "How far each move takes the target network to the online one: small values with "
        "`dqn.target_interval` 1 follow softly, 1 copies it (then with an interval of 100, say).",
        gt=0,
        le=1,
    )
    q_clip: float | None = setting(
        None,
        "Values (or quantiles) of what follows are limited to plus and minus this in the target; null does "
        "not limit them. c51 and rainbow have `dqn.value_min` and `dqn.value_max` instead; r2d2 has none.",
        gt=0,
        le=1e15,
    )
    quantiles: int = setting(
        32,
        "Quantiles of each action's return: those of qr_dqn (200 in the paper), and how many levels iqn "
        "draws for each update and averages over to act (8 to 64).",
        ge=1,
        le=1000,
    )
    kappa: float = setting(
        1.0,
        "Difference where the loss of quantiles turns from square to linear; 0 is pure quantile regression.",
        ge=0,
        le=1e15,
    )
    atoms: int = setting(51, "Atoms of the return's distribution in c51 and rainbow.", ge=2, le=1000)
    value_min: float = setting(
        -10.0, "Lowest return that c51 and rainbow can tell: that of the first atom.", ge=-1e15, le=1e15
    )
    value_max: float = setting(
        10.0, "Highest return that c51 and rainbow can tell: that of the last atom.", ge=-1e15, le=1e15
    )
    replay: Literal["uniform", "prioritised"] = setting(
        "uniform",
        "How transitions are drawn: all alike, or those more often that surprised more (arXiv 1511.05952).",
    )
    priority_exponent: float = setting(
        0.6, "How much surprise counts for prioritised replay: 0 not at all, 1 in proportion.", ge=0, le=1
    )
    priority_correction: Annotated[Scheduled, Within(ge=0, le=1)] = setting(
        {"schedule": "linear", "from": 0.4, "to": 1.0, "over": 100_000},
        "How much of the bias of prioritised replay the weights of samples undo: 0 nothing, 1 all. A number, "
        "or a schedule.",
    )
    sequence_length: int = setting(
        20,
        "Of `dqn.agent` r2d2: steps of an episode that are learned from together. A gradient step takes "
        "so many sequences that `dqn.batch_size` is met best; clients send pieces of at most half of it.",
        unit="steps",
        ge=2,
        le=10_000,
    )
    burn_in: int = setting(
        10,
        "Of `dqn.agent` r2d2: steps before those, which only bring what was remembered then up to date. The "
        "beginning of an episode needs none.",
        unit="steps",
        ge=0,
        le=10_000,
    )
    priority_mix: float = setting(
        0.9,
        "Of `dqn.agent` r2d2: how much the largest surprise in a sequence counts for its priority; the rest "
        "is their mean.",
        ge=0,
        le=1,
    )
    max_grad_norm: float = setting(10.0, "Gradients longer than this are shortened to it.", gt=0, le=1e15)
    exploration: Literal["epsilon", "ladder", "boltzmann", "noisy"] = setting(
        "epsilon",
        "How clients explore: by random actions (epsilon), fewer of them in each environment than in the one "
        "before (ladder), by drawing actions by their values (boltzmann), or by noise in the weights, drawn "
        "anew at each publish (noisy; arXiv 1706.10295), with random actions besides (`dqn.epsilon`).",
    )
    epsilon: Annotated[Scheduled, Within(ge=0, le=1)] = setting(
        {"schedule": "linear", "from": 1.0, "to": 0.04, "over": 10_000},
        "Probability of a random action: a number, or a schedule. {schedule: exponential, from: 1, to: 0.01, "
        "over: 10000} and {schedule: piecewise, points: [[0, 1], [5000, 0.1], [20000, 0.01]]} are others. With "
        "noise in the weights, 0 leaves exploration to it alone.",
    )
    ladder_exponent: float = setting(
        7.0,
        "Of `dqn.exploration` ladder: environment i of N takes random actions with the probability "
        "epsilon^(1 + exponent * i / (N - 1)), over all clients (arXiv 1803.00933).",
        ge=0,
        le=100,
    )
    temperature: Annotated[Scheduled, Within(gt=0, le=1e15, reaches=False)] = setting(
        {"schedule": "linear", "from": 1.0, "to": 0.05, "over": 10_000},
        "Of `dqn.exploration` boltzmann: actions whose values lie this far apart are taken 2.7 to 1. A "
        "number, or a schedule.",
    )
    noisy_sigma: float = setting(
        0.5, "Of `dqn.exploration` noisy: how large the noise in the weights is at first.", gt=0, le=10
    )
    max_policy_lag: int = _max_policy_lag(30)
    max_model_delay: int = _max_model_delay(500)


class SACSettings(Section):
    """Soft actor-critic: asynchronous, off-policy, for actions that are numbers within bounds."""

    gamma: float = _gamma()
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        3e-4,
        "Step size of the optimiser (Adam), for actor, critics and temperature alike: a number, or a "
        "schedule as for `ppo.learning_rate`.",
    )
    batch_size: int = _batch_size(256)
    buffer_size: int = _buffer_size(1_000_000)
    learning_starts: int = _learning_starts()
    replay_ratio: float = _replay_ratio(
        256.0, 100_000, "As many as `sac.batch_size` make one gradient step an environment step. "
    )
    replay_ratio_tolerance: float = _replay_ratio_tolerance()
    target_tau: float = setting(
        0.005,
        "How far each update takes the target networks to the critics; 1 copies them.",
        gt=0,
        le=1,
    )
    initial_temperature: float = setting(
        1.0,
        "Temperature at the beginning: what a nat of entropy is worth, in rewards.",
        gt=0,
        le=1000,
    )
    learn_temperature: bool = setting(
        True,
        "Move the temperature so that the policy keeps the entropy of `sac.target_entropy`; otherwise it "
        "stays as it began.",
    )
    target_entropy: float | None = setting(
        None,
        "Entropy that the policy keeps, of actions scaled to -1 … 1; without one, minus the number of "
        "numbers in an action (arXiv 1812.05905, appendix D).",
        unit="nats",
        ge=-10_000,
        le=10_000,
    )
    max_policy_lag: int = _max_policy_lag(30)
    max_model_delay: int = _max_model_delay(500)


class VTraceSettings(Section):
    """V-trace (IMPALA, APPO): asynchronous, on-policy corrected for the age of the samples."""

    gamma: float = _gamma()
    trace_lambda: float = setting(
        0.9,
        "Weight of longer returns in the targets: 1 as in the paper, less trusts the value network more.",
        ge=0,
        le=1,
    )
    rho_clip: float = setting(
        1.0,
        "Largest importance weight of a step. Below it the values are those of the newest policy; a smaller "
        "one leans to the policies that played.",
        gt=0,
        le=100,
    )
    c_clip: float = setting(
        1.0, "Largest factor by which what comes later counts: less makes targets calmer.", gt=0, le=100
    )
    batch_size: int = setting(
        256,
        "Transitions per batch, of whole segments as they come. Divided by the environments that play, about "
        "how many steps a trace (IMPALA's unroll) reaches: segments of one episode are joined.",
        unit="transitions",
        ge=1,
        le=1_000_000,
    )
    epochs: int = setting(
        4, "Gradient steps on each batch, the targets computed anew for each.", unit="steps", ge=1, le=100
    )
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        1e-3, "Step size of the optimiser (Adam): a number, or a schedule as for `ppo.learning_rate`."
    )
    clip: Annotated[Scheduled | None, Within(gt=0, le=10)] = setting(
        0.2,
        "How far the probability ratio to the policy that played may move away from 1 before its gradient "
        "is cut off, as in PPO (APPO): a number, or a schedule; empty for the plain policy gradient of "
        "IMPALA.",
    )
    entropy_coef: Annotated[Scheduled, Within(ge=0, le=10)] = setting(
        0.01, "Reward for an undecided policy, 0 switches it off: a number, or a schedule."
    )
    value_coef: float = setting(0.5, "Weight of the value loss.", gt=0, le=100)
    max_grad_norm: float = setting(0.5, "Gradients longer than this are shortened to it.", gt=0, le=1e15)
    normalize_advantage: bool = setting(
        True, "Scale the advantages of each gradient step to mean 0 and deviation 1."
    )
    buffer_size: int = setting(
        512,
        "Transitions that may wait to be learned from, at least two batches. While so many wait the streams "
        "are not read, and clients may have no more than this on their way: small values keep samples young.",
        unit="transitions",
        ge=1,
        le=10_000_000,
    )
    max_policy_lag: int = _max_policy_lag(8)
    max_model_delay: int = _max_model_delay(50, "also while they wait to be learned from, ")
