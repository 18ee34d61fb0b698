"""Settings of soft actor-critic."""

from soulsgui.config.declaring import Section, setting


class SACSettings(Section):
    """Soft actor-critic: asynchronous, off-policy, for actions that are numbers within bounds."""

    gamma: float = setting(0.99, "Discount of future rewards: the most important setting of all.", ge=0, le=1)
    learning_rate: float = setting(
        3e-4, "Step size of the optimiser (Adam), for actor, critics and temperature alike.", gt=0, le=1
    )
    batch_size: int = setting(256, "Transitions per gradient step.", unit="transitions", ge=1, le=1_000_000)
    buffer_size: int = setting(
        1_000_000,
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
        256.0,
        "How often each transition is drawn, on average: transitions drawn by transitions taken in. As many "
        "as `sac.batch_size` make one gradient step an environment step. Above it the learner waits for "
        "samples, below it the clients wait for the learner.",
        gt=0,
        le=100_000,
    )
    replay_ratio_tolerance: float = setting(
        0.1, "How far the replay ratio may stray before one side waits, as a part of it.", gt=0, le=1
    )
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
    max_model_delay: int = setting(
        50,
        "Samples of weights that were published longer ago than this are refused, and clients wait rather "
        "than make them.",
        unit="publishes",
        ge=1,
        le=10_000,
    )
