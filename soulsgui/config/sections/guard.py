"""Settings of the guard against a training that diverges."""

from soulsgui.config.declaring import Effect, Section, setting

_EMPTY = "empty: only numbers that are not finite."


class GuardSettings(Section):
    """What is no training any more: it is not published, and the last checkpoint takes its place."""

    max_loss: float | None = setting(
        1e10,
        f"Largest absolute value of a loss; {_EMPTY} Rewards of a million need more.",
        effect=Effect.RESUME,
        gt=0,
    )
    max_grad_norm: float | None = setting(
        1e10, f"Largest length of a gradient before it is shortened; {_EMPTY}", effect=Effect.RESUME, gt=0
    )
    max_q_value: float | None = setting(
        1e8,
        f"Largest absolute mean of the values of actions, or of their targets; {_EMPTY}",
        effect=Effect.RESUME,
        gt=0,
    )
    max_kl: float | None = setting(
        100.0,
        f"Largest divergence of a policy from the one before its update; {_EMPTY}",
        effect=Effect.RESUME,
        gt=0,
    )
    max_restores: int = setting(
        3,
        "How often in a row the training goes on from its last checkpoint after it has diverged; then the "
        "run is ended. A checkpoint behind the place where it diverged begins the count anew.",
        effect=Effect.RESUME,
        unit="restores",
        ge=0,
        le=100,
    )
