"""How clients are told to explore. Pure: where the run is, is passed in."""

from dataclasses import dataclass

from soulsgui.wire.messages.session import Ladder

_EPSILON_STEP = 0.005
_TEMPERATURE_STEP = 0.02


@dataclass(frozen=True)
class Orders:
    """How one client is to explore: the fields of its grant. With nothing set, as its policy says."""

    epsilon: float | None = None
    temperature: float | None = None
    ladder: Ladder | None = None

    def worth_telling(self, told: "Orders | None") -> bool:
        """Whether these orders differ from those told before by enough to be told."""
        if told is None or self.ladder != told.ladder:
            return True
        return _differ(self.epsilon, told.epsilon, _EPSILON_STEP) or _differ(
            self.temperature, told.temperature, _TEMPERATURE_STEP * (told.temperature or 1.0)
        )


def _differ(new: float | None, old: float | None, by: float) -> bool:
    if new is None or old is None:
        return new is not old
    return abs(new - old) >= by


@dataclass(frozen=True)
class Exploration:
    """How all clients explore at one moment.

    Attributes:
        epsilon: Probability of a random action; None: there is no such chance.
        temperature: Of actions drawn by their values; None: they are not.
        ladder: Exponent of the ladder of epsilons over all environments; None: all have the same.
    """

    epsilon: float | None = None
    temperature: float | None = None
    ladder: float | None = None

    def orders(self, first: int, count: int) -> Orders:
        """Return the orders of one client.

        Args:
            first: Number of its first environment among all that play.
            count: Environments that play.
        """
        ladder = (
            None if self.ladder is None else Ladder(first=first, count=max(count, 1), exponent=self.ladder)
        )
        return Orders(self.epsilon, self.temperature, ladder)

    def figures(self) -> dict[str, float]:
        """Return what there is to see of it on the curves: `epsilon` or `temperature`."""
        named = {"epsilon": self.epsilon, "temperature": self.temperature}
        return {name: value for name, value in named.items() if value is not None}
