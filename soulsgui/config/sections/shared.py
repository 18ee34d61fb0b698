"""How settings are declared that several algorithms have, each with a value of its own."""

from typing import Any

from soulsgui.config.declaring import setting


def gamma() -> Any:
    """Declare the discount."""
    return setting(0.99, "Discount of future rewards: the most important setting of all.", ge=0, le=1)


def batch_size(default: int) -> Any:
    """Declare how many transitions a gradient step learns from."""
    return setting(default, "Transitions per gradient step.", unit="transitions", ge=1, le=1_000_000)


def buffer_size(default: int) -> Any:
    """Declare the size of a replay memory."""
    return setting(
        default,
        "Transitions that are kept to learn from; the oldest give way.",
        unit="transitions",
        ge=100,
        le=100_000_000,
    )


def learning_starts() -> Any:
    """Declare how many transitions come before the first update."""
    return setting(
        1_000,
        "Transitions to collect before the first update; `stop.env_steps` has to be more.",
        unit="transitions",
        ge=1,
        le=100_000_000,
    )


def replay_ratio(default: float, most: float, remark: str = "") -> Any:
    """Declare how often each transition is drawn.

    Args:
        default: The shipped value.
        most: Largest value.
        remark: What else there is to say of this algorithm's.
    """
    return setting(
        default,
        "How often each transition is drawn, on average: transitions drawn by transitions taken in. "
        f"{remark}Above it the learner waits for samples, below it the clients wait for the learner.",
        gt=0,
        le=most,
    )


def replay_ratio_tolerance() -> Any:
    """Declare how far the replay ratio may stray."""
    return setting(
        0.1, "How far the replay ratio may stray before one side waits, as a part of it.", gt=0, le=1
    )


def max_policy_lag(default: int) -> Any:
    """Declare how many updates old samples may be.

    Args:
        default: The shipped value.
    """
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


def max_model_delay(default: int, remark: str = "") -> Any:
    """Declare after how many publishes samples are too old.

    Args:
        default: The shipped value.
        remark: What else there is to say of this algorithm's.
    """
    return setting(
        default,
        f"Samples of weights that were published longer ago than this are refused, {remark}and clients wait "
        "rather than make them.",
        unit="publishes",
        ge=1,
        le=10_000,
    )
