"""Settings of soft actor-critic."""

from typing import Annotated

from soulsgui.config.declaring import Section, setting
from soulsgui.config.schedules import Scheduled, Within
from soulsgui.config.sections import shared


class SACSettings(Section):
    """Soft actor-critic: asynchronous, off-policy, for actions that are numbers within bounds."""

    gamma: float = shared.gamma()
    learning_rate: Annotated[Scheduled, Within(gt=0, le=1)] = setting(
        3e-4,
        "Step size of the optimiser (Adam), for actor, critics and temperature alike: a number, or a "
        "schedule as for `ppo.learning_rate`.",
    )
    batch_size: int = shared.batch_size(256)
    buffer_size: int = shared.buffer_size(1_000_000)
    learning_starts: int = shared.learning_starts()
    replay_ratio: float = shared.replay_ratio(
        256.0, 100_000, "As many as `sac.batch_size` make one gradient step an environment step. "
    )
    replay_ratio_tolerance: float = shared.replay_ratio_tolerance()
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
    max_policy_lag: int = shared.max_policy_lag(30)
    max_model_delay: int = shared.max_model_delay(500)
