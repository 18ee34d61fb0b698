"""Which of the improvements to deep Q-learning an agent is made of."""

from dataclasses import dataclass
from typing import Literal

from soulsgui.rl.settings import DQNSettings

Kind = Literal["value", "quantile", "categorical", "implicit"]
_KINDS: dict[str, Kind] = {
    "dqn": "value",
    "qr_dqn": "quantile",
    "c51": "categorical",
    "iqn": "implicit",
    "rainbow": "categorical",
}
_RAINBOW_STEPS = 3


@dataclass(frozen=True)
class Parts:
    """The parts of an agent, as its settings say, or as its name does.

    Rainbow (arXiv 1710.02298) is C51 with all of them; to leave one out, take C51 and name the others.

    Attributes:
        kind: What is learned of the return: its mean (`value`), quantiles at fixed levels (`quantile`,
            QR-DQN), probabilities of fixed atoms (`categorical`, C51), or the quantile at any level
            (`implicit`, IQN).
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
        rainbow = dqn.agent == "rainbow"
        return cls(
            kind=_KINDS[dqn.agent],
            double=rainbow or dqn.double,
            dueling=rainbow or dqn.dueling,
            noisy=rainbow or dqn.exploration == "noisy",
            prioritised=rainbow or dqn.replay == "prioritised",
            n_step=dqn.n_step or (_RAINBOW_STEPS if rainbow else 1),
        )
