"""Settings of deep Q-learning."""

from typing import Literal

from soulsgui.config.declaring import Section, setting


class DQNSettings(Section):
    """Deep Q-learning: asynchronous, off-policy."""

    gamma: float = setting(0.99, "Discount of future rewards: the most important setting of all.", ge=0, le=1)
    learning_rate: float = setting(5e-4, "Step size of the optimiser (Adam).", gt=0, le=1)
    batch_size: int = setting(64, "Transitions per gradient step.", unit="transitions", ge=1, le=1_000_000)
    buffer_size: int = setting(
        100_000,
        "Transitions that are kept to learn from; the oldest give way.",
        unit="transitions",
        ge=100,
        le=100_000_000,
    )
    learning_starts: int = setting(
        1_000,
        "Transitions to collect before the first update.",
        unit="transitions",
        ge=1,
        le=100_000_000,
    )
    replay_ratio: float = setting(
        16.0,
        "How often each transition is drawn, on average: transitions drawn by transitions taken in. Above it "
        "the learner waits for samples, below it the clients wait for the learner.",
        gt=0,
        le=1000,
    )
    replay_ratio_tolerance: float = setting(
        0.1, "How far the replay ratio may stray before one side waits, as a part of it.", gt=0, le=1
    )
    double: bool = setting(
        True,
        "Choose the next action by the online network and value it by the target network (arXiv 1509.06461).",
    )
    loss: Literal["huber", "mse"] = setting(
        "huber",
        "Loss of the temporal difference: `huber` bounds the gradient of large errors, `mse` does not.",
    )
    target_interval: int = setting(
        100, "Updates between two moves of the target network.", unit="updates", ge=1, le=10_000_000
    )
    target_tau: float = setting(
        1.0,
        "How far each move takes the target network to the online one: 1 copies it, small values with "
        "`dqn.target_interval` 1 follow softly.",
        gt=0,
        le=1,
    )
    max_grad_norm: float = setting(10.0, "Gradients longer than this are shortened to it.", gt=0)
    epsilon_start: float = setting(
        1.0, "Probability of a random action at the beginning of the run.", ge=0, le=1
    )
    epsilon_end: float = setting(0.04, "Probability of a random action at last.", ge=0, le=1)
    epsilon_steps: int = setting(
        10_000,
        "Environment steps over which the probability of a random action goes down evenly.",
        unit="steps",
        ge=1,
    )
    max_model_delay: int = setting(
        50,
        "Samples of weights that were published longer ago than this are refused, and clients wait rather "
        "than make them.",
        unit="publishes",
        ge=1,
        le=10_000,
    )
