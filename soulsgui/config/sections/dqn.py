"""Settings of deep Q-learning."""

from typing import Annotated, Literal

from soulsgui.config.declaring import Section, setting
from soulsgui.config.schedules import Scheduled, Within
from soulsgui.config.sections import shared

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
    gamma: float = shared.gamma()
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        5e-4, "Step size of the optimiser (Adam): a number, or a schedule as for `ppo.learning_rate`."
    )
    batch_size: int = shared.batch_size(128)
    buffer_size: int = shared.buffer_size(100_000)
    learning_starts: int = shared.learning_starts()
    replay_ratio: float = shared.replay_ratio(64.0, 1000)
    replay_ratio_tolerance: float = shared.replay_ratio_tolerance()
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
        "anew at each publish (noisy; arXiv 1706.10295).",
    )
    epsilon: Annotated[Scheduled, Within(ge=0, le=1)] = setting(
        {"schedule": "linear", "from": 1.0, "to": 0.04, "over": 10_000},
        "Probability of a random action: a number, or a schedule. {schedule: exponential, from: 1, to: 0.01, "
        "over: 10000} and {schedule: piecewise, points: [[0, 1], [5000, 0.1], [20000, 0.01]]} are others.",
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
    max_policy_lag: int = shared.max_policy_lag(30)
    max_model_delay: int = shared.max_model_delay(500)
