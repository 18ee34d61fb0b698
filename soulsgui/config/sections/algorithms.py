"""Settings of the learning algorithms."""

from typing import Annotated, Any, Literal

from pydantic import Field

from soulsgui.config.declaring import Effect, Fraction, Scheduled, Section, Within, setting

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Bound = Annotated[float, Field(gt=0, le=1e15)]
OptionalBound = Annotated[float | None, Field(gt=0, le=1e15)]
Rate = Annotated[Scheduled, Within(gt=0, le=1)]
BufferSize = Annotated[int, Field(ge=100, le=100_000_000)]
LearningStarts = Annotated[int, Field(ge=1, le=100_000_000)]
Publishes = Annotated[int, Field(ge=1, le=10_000)]

# What several algorithms have. Functions: a field belongs to one model alone.


def _gamma() -> Any:
    return setting(0.99, "Discount of future rewards: the most important setting of all.")


def _learning_starts() -> Any:
    told = "Transitions to collect before the first update; `stop.env_steps` has to be more."
    return setting(1_000, told, unit="transitions")


def _tolerance() -> Any:
    return setting(0.1, "How far the replay ratio may deviate before one side waits, as a fraction of it.")


def _batch_size(default: int) -> Any:
    return setting(default, "Transitions per gradient step.", unit="transitions")


def _buffer_size(default: int) -> Any:
    return setting(
        default, "Transitions kept to learn from; new ones replace the oldest.", unit="transitions"
    )


def _replay_ratio(default: float, remark: str = "") -> Any:
    return setting(
        default,
        "How often each transition is sampled on average: transitions sampled divided by transitions added. "
        f"{remark}Above it the learner waits for samples, below it the clients wait for the learner.",
        effect=Effect.NOW,
    )


def _max_policy_lag(default: int) -> Any:
    return setting(
        default,
        "How many updates the learner may be ahead of the weights that samples were made with. Weights are "
        "published often enough for this, and the number of samples in flight is limited. It is a target, "
        "not a limit: samples are older if a client is slow or far away (until they are refused), or if "
        "the weights are large: at most 50 MB of them are published per second (5 MB every 0.1 s).",
        unit="updates",
    )


def _max_model_delay(default: int, remark: str = "") -> Any:
    return setting(
        default,
        f"Samples of weights that were published longer ago than this are refused, {remark}and clients wait "
        "instead of making them.",
        unit="publishes",
    )


class PPOSettings(Section):
    """Proximal policy optimisation."""

    n_steps: Count = setting(
        256, "Steps each environment contributes to a round.", unit="steps per environment"
    )
    n_clients: Annotated[int | None, Field(ge=1, le=10_000)] = setting(
        None,
        "Number of clients needed to start the first round; empty means `clients.local` (at least 1) until "
        "`round_timeout` has passed. Later rounds need one.",
    )
    gamma: Fraction = _gamma()
    gae_lambda: Fraction = setting(
        0.9,
        "Weight of longer returns in the advantage estimate: 0 trusts the value network, 1 trusts the "
        "rewards.",
    )
    epochs: Annotated[int, Field(ge=1, le=1000)] = setting(
        10, "Passes over the data of a round.", unit="passes"
    )
    minibatch_size: Count = _batch_size(128)
    shuffle: Literal["transitions", "trajectories", "none"] = setting(
        "transitions",
        "What is shuffled in each pass over a round: single transitions (recommended by arXiv 2006.05990, "
        "section 3.5), or pieces of episodes of `ppo.sequence_length` steps; `none` takes these pieces in "
        "the order they were played. With `network.recurrent` there are only pieces.",
    )
    sequence_length: Annotated[int, Field(ge=1, le=65_536)] = setting(
        64,
        "With `network.recurrent`, or if `ppo.shuffle` does not shuffle single transitions: length of the "
        "pieces of episodes that are learned from; with a memory, also how far back gradients reach. "
        "Minibatches consist of complete pieces.",
        unit="steps",
    )
    learning_rate: Rate = setting(
        1e-3,
        "Step size of the optimiser (Adam): a number, or a schedule such as {schedule: linear, from: 0.001, "
        "to: 0}, over `stop.env_steps` or, with `over: 50000`, over that many environment steps.",
        effect=Effect.NEXT_ROUND,
    )
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = setting(
        0.9, "Fraction of the momentum that the optimiser (Adam) keeps at each step (beta 1)."
    )
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = setting(
        0.999,
        "Fraction of the mean square of the gradients that the optimiser (Adam) keeps at each step (beta 2).",
    )
    adam_epsilon: Annotated[float, Field(gt=0, le=1)] = setting(
        1e-5,
        "Epsilon of the optimiser (Adam), added to the root of the mean square: it limits the step size.",
    )
    clip: Annotated[Scheduled, Within(gt=0, le=10)] = setting(
        0.2,
        "How far the probability ratio may move away from 1 before its gradient is cut off: a number, or a "
        "schedule.",
        effect=Effect.NEXT_ROUND,
    )
    entropy_coef: Annotated[Scheduled, Within(ge=0, le=10)] = setting(
        0.0,
        "Weight of the entropy bonus, which rewards an undecided policy; 0 switches it off: a number, or a "
        "schedule.",
        effect=Effect.NEXT_ROUND,
    )
    value_coef: Annotated[float, Field(gt=0, le=100)] = setting(
        1.0, "Weight of the value loss.", effect=Effect.NEXT_ROUND
    )
    value_clip: OptionalBound = setting(
        None,
        "Limit on the change of the value estimate per update; empty switches it off (arXiv 2006.05990 "
        "advises against it). In standard deviations if `ppo.normalize_value` is on.",
    )
    value_huber: OptionalBound = setting(
        None,
        "Error beyond which the value loss is linear (Huber loss); empty: it is squared everywhere (arXiv "
        "2006.05990 advises against Huber). In standard deviations if `ppo.normalize_value` is on.",
    )
    normalize_value: bool = setting(
        False,
        "Normalise values by the mean and standard deviation of all value targets so far, which are saved "
        "with the agent. This helps if returns are large; otherwise it may hurt (arXiv 2006.05990, section "
        "3.3).",
    )
    max_grad_norm: OptionalBound = setting(
        0.5,
        "Largest norm of a gradient; longer ones are shortened to it. Empty: no limit.",
        effect=Effect.NEXT_ROUND,
    )
    normalize_advantage: Literal["none", "minibatch", "round"] = setting(
        "round",
        "Whether advantages are scaled to mean 0 and deviation 1: not at all, within each minibatch, or over "
        "the complete round, once per pass.",
    )
    recompute_advantages: bool = setting(
        True, "Compute advantages again before each pass instead of once per round."
    )
    target_kl: Annotated[float | None, Field(gt=0)] = setting(
        None,
        "Stop the passes of a round early when the policy has moved this far; empty switches it off.",
        effect=Effect.NEXT_ROUND,
    )
    round_timeout: Annotated[float, Field(gt=0, le=86_400)] = setting(
        30.0,
        "A client that has not delivered its share of a round by then is dropped from the round; one that "
        "leaves, is paused or restarts is dropped at once. `ppo.lost_member` says what happens next.",
        unit="s",
    )
    lost_member: Literal["shrink", "wait", "redistribute", "stop"] = setting(
        "shrink",
        "What to do with a round that loses a client: `shrink` trains with the rest; `wait` waits until "
        "the client is back, or is stopped or forgotten; `redistribute` lets the others make the missing "
        "steps, according to their speed; `stop` ends the run.",
    )
    balance: bool = setting(
        False,
        "Give fast clients more steps of a round and slow ones fewer, by their measured speed, so that all "
        "finish at about the same time; the total stays the same. With one of four clients four times "
        "slower, this made 2.2 times as many steps; but the curve of several clients is then not "
        "repeatable. Shares stay equal if the round would become shorter by less than a fifth.",
    )


BEYOND_SUPPORT = "beyond_support"
"""Figure of c51 and rainbow: share of samples whose return lies outside of what they can tell."""


def beyond_support_words(share: float) -> str:
    """Warn when `share` (`BEYOND_SUPPORT`) of the returns is too much; empty when it is not."""
    if share <= 0.01:
        return ""
    return f"{share:.0%} of the learned returns are outside dqn.value_min and dqn.value_max"


BEYOND_SUPPORT_REMEDY = (
    "Start a run in which they cover the lowest and the highest discounted return, or use qr_dqn or iqn, "
    "which have no such bounds."
)


class DQNSettings(Section):
    """Deep Q-learning."""

    agent: Literal["dqn", "qr_dqn", "c51", "iqn", "rainbow", "r2d2"] = setting(
        "dqn",
        "What is learned of the return: its mean (dqn), its quantiles (qr_dqn, iqn) or its distribution "
        "over fixed atoms (c51). rainbow is c51 with everything: double, dueling, noisy and prioritised, "
        "whatever their settings; to leave one out, use c51 and set the others. r2d2 learns the mean with "
        "a memory (`network.recurrent`), from sequences; double, dueling, prioritised.",
    )
    dueling: bool = setting(
        False,
        "Use separate layers for the value of a state and the advantages of the actions: the last layer of "
        "`network.hidden_sizes` exists for each (arXiv 1511.06581).",
    )
    n_step: Annotated[int, Field(ge=1, le=1000)] = setting(
        5,
        "Number of rewards that are added up before the value of the next state is used (n-step return).",
        unit="steps",
    )
    gamma: Fraction = _gamma()
    learning_rate: Rate = setting(
        5e-4,
        "Step size of the optimiser (Adam): a number, or a schedule as for `ppo.learning_rate`.",
        effect=Effect.NOW,
    )
    batch_size: Count = _batch_size(128)
    buffer_size: BufferSize = _buffer_size(100_000)
    learning_starts: LearningStarts = _learning_starts()
    replay_ratio: Annotated[float, Field(gt=0, le=1000)] = _replay_ratio(64.0)
    replay_ratio_tolerance: Annotated[float, Field(gt=0, le=1)] = _tolerance()
    double: bool = setting(
        True,
        "Choose the next action by the online network and value it by the target network (arXiv 1509.06461).",
    )
    loss: Literal["huber", "mse"] = setting(
        "huber",
        "Loss of the temporal difference with `dqn.agent` dqn: `huber` limits the gradient of large "
        "errors, `mse` does not. The other agents have their own losses.",
    )
    target_interval: Annotated[int, Field(ge=1, le=10_000_000)] = setting(
        1, "Updates between two moves of the target network.", unit="updates"
    )
    target_tau: Annotated[float, Field(gt=0, le=1)] = setting(
        0.01,
        "How far each update moves the target network towards the online one: small values with "
        "`dqn.target_interval` 1 follow it smoothly, 1 copies it (then use an interval of about 100).",
    )
    q_clip: OptionalBound = setting(
        None,
        "Values (or quantiles) of the next state are limited to plus and minus this in the target; empty: "
        "no limit. c51 and rainbow have `dqn.value_min` and `dqn.value_max` instead; r2d2 has none.",
    )
    quantiles: Annotated[int, Field(ge=1, le=1000)] = setting(
        32,
        "Quantiles of each action's return: those of qr_dqn (200 in the paper), and how many levels iqn "
        "samples for each update and averages over to act (8 to 64).",
    )
    kappa: Annotated[float, Field(ge=0, le=1e15)] = setting(
        1.0,
        "Error at which the quantile loss changes from squared to linear; 0 is pure quantile regression.",
    )
    atoms: Annotated[int, Field(ge=2, le=1000)] = setting(
        51, "Atoms of the return's distribution in c51 and rainbow."
    )
    value_min: Annotated[float, Field(ge=-1e15, le=1e15)] = setting(
        -10.0, "Lowest return that c51 and rainbow can represent: that of the first atom."
    )
    value_max: Annotated[float, Field(ge=-1e15, le=1e15)] = setting(
        10.0, "Highest return that c51 and rainbow can represent: that of the last atom."
    )
    replay: Literal["uniform", "prioritised"] = setting(
        "uniform",
        "How transitions are sampled: uniformly, or those with larger errors more often (arXiv 1511.05952).",
    )
    priority_exponent: Fraction = setting(
        0.6, "How much the error counts in prioritised replay: 0 not at all, 1 in proportion."
    )
    priority_correction: Annotated[Scheduled, Within(ge=0, le=1)] = setting(
        {"schedule": "linear", "from": 0.4, "to": 1.0, "over": 100_000},
        "How much of the bias of prioritised replay the importance weights correct: 0 nothing, 1 all. A "
        "number, or a schedule.",
        effect=Effect.NOW,
    )
    sequence_length: Annotated[int, Field(ge=2, le=10_000)] = setting(
        20,
        "For `dqn.agent` r2d2: steps of an episode that are learned from together. A gradient step takes "
        "as many sequences as fit `dqn.batch_size` best; clients send pieces of at most half this length.",
        unit="steps",
    )
    burn_in: Annotated[int, Field(ge=0, le=10_000)] = setting(
        10,
        "For `dqn.agent` r2d2: steps before those, which only update the stored memory (burn-in). The "
        "start of an episode needs none.",
        unit="steps",
    )
    priority_mix: Fraction = setting(
        0.9,
        "For `dqn.agent` r2d2: how much the largest error in a sequence counts for its priority; the rest "
        "is the mean error.",
    )
    max_grad_norm: Bound = setting(
        10.0, "Largest norm of a gradient; longer ones are shortened to it.", effect=Effect.NOW
    )
    exploration: Literal["epsilon", "ladder", "boltzmann", "noisy"] = setting(
        "epsilon",
        "How clients explore: by random actions (epsilon), by fewer of them in each environment than in "
        "the one before (ladder), by sampling actions according to their values (boltzmann), or by noise "
        "in the weights, sampled again at each publish (noisy; arXiv 1706.10295), in addition to random "
        "actions (`dqn.epsilon`).",
    )
    epsilon: Annotated[Scheduled, Within(ge=0, le=1)] = setting(
        {"schedule": "linear", "from": 1.0, "to": 0.04, "over": 10_000},
        "Probability of a random action: a number, or a schedule. {schedule: exponential, from: 1, to: "
        "0.01, over: 10000} and {schedule: piecewise, points: [[0, 1], [5000, 0.1], [20000, 0.01]]} are "
        "examples. With noise in the weights, 0 leaves exploration to the noise alone.",
        effect=Effect.NOW,
    )
    ladder_exponent: Annotated[float, Field(ge=0, le=100)] = setting(
        7.0,
        "For `dqn.exploration` ladder: environment i of N takes random actions with the probability "
        "epsilon^(1 + exponent * i / (N - 1)), over all clients (arXiv 1803.00933).",
    )
    temperature: Annotated[Scheduled, Within(gt=0, le=1e15, reaches=False)] = setting(
        {"schedule": "linear", "from": 1.0, "to": 0.05, "over": 10_000},
        "For `dqn.exploration` boltzmann: of two actions whose values differ by this, the better one is "
        "taken 2.7 times as often. A number, or a schedule.",
        effect=Effect.NOW,
    )
    noisy_sigma: Annotated[float, Field(gt=0, le=10)] = setting(
        0.5, "For `dqn.exploration` noisy: how large the noise in the weights is at the start."
    )
    max_policy_lag: Count = _max_policy_lag(30)
    max_model_delay: Publishes = _max_model_delay(500)


class SACSettings(Section):
    """Soft actor-critic, and its relatives for actions that are numbers within bounds."""

    agent: Literal["sac", "td3", "tqc", "crossq"] = setting(
        "sac",
        "The agent: sac (soft actor-critic); td3, whose policy is deterministic and explores by noise on "
        "its actions (arXiv 1802.09477); tqc, soft actor-critic whose critics predict quantiles of the "
        "return, of which the highest are dropped (arXiv 2005.04269); or crossq, soft actor-critic with "
        "batch normalisation instead of target networks (arXiv 1902.05605).",
    )
    gamma: Fraction = _gamma()
    learning_rate: Rate = setting(
        3e-4,
        "Step size of the optimiser (Adam), for actor, critics and temperature: a number, or a "
        "schedule as for `ppo.learning_rate`.",
        effect=Effect.NOW,
    )
    batch_size: Count = _batch_size(256)
    buffer_size: BufferSize = _buffer_size(1_000_000)
    learning_starts: LearningStarts = _learning_starts()
    replay_ratio: Annotated[float, Field(gt=0, le=100_000)] = _replay_ratio(
        256.0, "A value equal to `sac.batch_size` makes one gradient step per environment step. "
    )
    replay_ratio_tolerance: Annotated[float, Field(gt=0, le=1)] = _tolerance()
    target_tau: Annotated[float, Field(gt=0, le=1)] = setting(
        0.005,
        "How far each update moves the target networks towards the critics; 1 copies them. crossq has none.",
    )
    initial_temperature: Annotated[float, Field(gt=0, le=1000)] = setting(
        1.0, "Temperature at the start: the value of one nat of entropy, in rewards."
    )
    learn_temperature: bool = setting(
        True,
        "Adjust the temperature so that the policy keeps the entropy of `sac.target_entropy`; otherwise it "
        "stays at its initial value.",
    )
    target_entropy: Annotated[float | None, Field(ge=-10_000, le=10_000)] = setting(
        None,
        "Entropy that the policy keeps, for actions scaled to -1 … 1; empty: minus the number of "
        "dimensions of an action (arXiv 1812.05905, appendix D).",
        unit="nats",
    )
    exploration_noise: Annotated[float, Field(gt=0.001, le=2)] = setting(
        0.1,
        "For `sac.agent` td3: standard deviation of the noise on the actions of clients, scaled to -1 … 1. "
        "Before the first update it is 1.",
    )
    target_noise: Annotated[float, Field(ge=0, le=2)] = setting(
        0.2,
        "For `sac.agent` td3: standard deviation of the noise on the actions in the critics' targets.",
    )
    target_noise_clip: Annotated[float, Field(ge=0, le=2)] = setting(
        0.5, "For `sac.agent` td3: the noise in the critics' targets is limited to plus and minus this."
    )
    policy_delay: Count = setting(
        2,
        "For `sac.agent` td3 and crossq: updates of the critics per update of the actor (and, with td3, of "
        "the target networks; with crossq, of the temperature).",
        unit="updates",
    )
    critics: Annotated[int, Field(ge=1, le=100)] = setting(
        5, "For `sac.agent` tqc: number of critics; the other agents have two."
    )
    quantiles: Annotated[int, Field(ge=1, le=1000)] = setting(
        25, "For `sac.agent` tqc: quantiles of the return that each critic predicts."
    )
    dropped_quantiles: Annotated[int, Field(ge=0, le=999)] = setting(
        2,
        "For `sac.agent` tqc: how many quantiles per critic are dropped from the targets, the highest of "
        "all critics together: drop more if values are overestimated.",
    )
    max_policy_lag: Count = _max_policy_lag(30)
    max_model_delay: Publishes = _max_model_delay(500)


class VTraceSettings(Section):
    """V-trace: asynchronous actor and critic."""

    gamma: Fraction = _gamma()
    trace_lambda: Fraction = setting(
        0.9, "Weight of longer returns in the targets: 1 as in the paper, less trusts the value network more."
    )
    rho_clip: Annotated[float, Field(gt=0, le=100)] = setting(
        1.0,
        "Largest importance weight of a step (rho). A large one estimates the values of the newest policy; "
        "a smaller one moves them towards those of the policies that played.",
    )
    c_clip: Annotated[float, Field(gt=0, le=100)] = setting(
        1.0, "Largest factor with which later steps count (c): smaller values make targets less noisy."
    )
    batch_size: Count = setting(
        256,
        "Transitions per batch, in complete segments as they arrive. Divided by the number of "
        "environments, this is about the length of a trace (IMPALA's unroll), as segments of one episode "
        "are joined.",
        unit="transitions",
    )
    epochs: Annotated[int, Field(ge=1, le=100)] = setting(
        4, "Gradient steps on each batch; the targets are computed again for each.", unit="steps"
    )
    learning_rate: Rate = setting(
        1e-3,
        "Step size of the optimiser (Adam): a number, or a schedule as for `ppo.learning_rate`.",
        effect=Effect.NOW,
    )
    clip: Annotated[Scheduled | None, Within(gt=0, le=10)] = setting(
        0.2,
        "How far the probability ratio to the policy that played may move away from 1 before its gradient "
        "is cut off, as in PPO (APPO): a number, or a schedule; empty for the plain policy gradient of "
        "IMPALA.",
        effect=Effect.NOW,
    )
    entropy_coef: Annotated[Scheduled, Within(ge=0, le=10)] = setting(
        0.01,
        "Weight of the entropy bonus, which rewards an undecided policy; 0 switches it off: a number, or a "
        "schedule.",
        effect=Effect.NOW,
    )
    value_coef: Annotated[float, Field(gt=0, le=100)] = setting(
        0.5, "Weight of the value loss.", effect=Effect.NOW
    )
    max_grad_norm: Bound = setting(
        0.5, "Largest norm of a gradient; longer ones are shortened to it.", effect=Effect.NOW
    )
    normalize_advantage: bool = setting(
        True, "Scale the advantages of each gradient step to mean 0 and deviation 1."
    )
    buffer_size: Annotated[int, Field(ge=1, le=10_000_000)] = setting(
        512,
        "Transitions that may wait to be learned from, at least two batches. While this many wait, the "
        "streams are not read, and clients may have no more than this in flight: small values keep samples "
        "fresh.",
        unit="transitions",
    )
    max_policy_lag: Count = _max_policy_lag(8)
    max_model_delay: Publishes = _max_model_delay(50, "also while they wait to be learned from, ")
