"""Which of the improvements to deep Q-learning an agent is made of."""

from dataclasses import dataclass
from typing import Literal

from soulsgui.rl.settings import DQNSettings

Kind = Literal["value", "quantile", "categorical", "implicit", "recurrent"]
_KINDS: dict[str, Kind] = {
    "dqn": "value",
    "qr_dqn": "quantile",
    "c51": "categorical",
    "iqn": "implicit",
    "rainbow": "categorical",
    "r2d2": "recurrent",
}


@dataclass(frozen=True)
class Parts:
    """The parts of an agent, as its settings say, or as its name does.

    Rainbow (arXiv 1710.02298) is C51 with all of them; to leave one out, take C51 and name the others. R2D2
    (Kapturowski et al. 2019) is always double, dueling and prioritised, never noisy.

    Attributes:
        kind: What is learned of the return: its mean (`value`), quantiles at fixed levels (`quantile`,
            QR-DQN), probabilities of fixed atoms (`categorical`, C51), the quantile at any level (`implicit`,
            IQN), or its rescaled mean by all that was seen (`recurrent`, R2D2).
        double: The online network chooses the next action, the target network values it.
        dueling: Value and advantages have streams of their own.
        noisy: Noise in the weights explores, and nothing else.
        prioritised: What surprised most is drawn most.
        n_step: Steps of a window.
    """

    kind: Kind
    double: bool
    dueling: bool
    noisy: bool
    prioritised: bool
    n_step: int

    @classmethod
    def of(cls, dqn: DQNSettings) -> "Parts":
        """Return the parts that settings ask for."""
        rainbow, recurrent = dqn.agent == "rainbow", dqn.agent == "r2d2"
        everything = rainbow or recurrent
        return cls(
            kind=_KINDS[dqn.agent],
            double=everything or dqn.double,
            dueling=everything or dqn.dueling,
            noisy=rainbow or (dqn.exploration == "noisy" and not recurrent),
            prioritised=everything or dqn.replay == "prioritised",
            n_step=dqn.n_step,
        )
