"""Settings of V-trace: actor and critic, asynchronous."""

from typing import Annotated

from soulsgui.config.declaring import Section, setting
from soulsgui.config.schedules import Scheduled, Within
from soulsgui.config.sections import shared


class VTraceSettings(Section):
    """V-trace (IMPALA, APPO): asynchronous, on-policy corrected for the age of the samples."""

    gamma: float = shared.gamma()
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
    max_policy_lag: int = shared.max_policy_lag(8)
    max_model_delay: int = shared.max_model_delay(50, "also while they wait to be learned from, ")
