"""What a client must know to build a policy that needs torch; read and written without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from soulsgui.errors import CheckpointError

KIND = "torch"


@dataclass(frozen=True)
class TorchPolicySpec:
    """A network by name and size; travels as JSON.

    Args:
        network: Its name, as `network.name` of the configuration.
        observation_shape: Shape of one observation.
        observation_dtype: Its dtype.
        num_actions: Number of actions.
        first_action: The smallest action (`start` of the Discrete space).
        hidden_sizes: Width of each dense layer.
        activation: `tanh` or `relu`.
        normalise: Whether observations are normalised with the statistics that come with the weights.
    """

    network: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: str
    normalise: bool

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        told = asdict(self)
        lists = {name: list(told[name]) for name in ("observation_shape", "hidden_sizes")}
        return {"kind": KIND} | told | lists

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "TorchPolicySpec":
        """Read what `to_json` wrote.

        Raises:
            CheckpointError: The data describe no such policy.
        """
        try:
            if data["kind"] != KIND:
                raise ValueError(f"kind {data['kind']!r}")
            return cls(
                network=str(data["network"]),
                observation_shape=tuple(int(side) for side in data["observation_shape"]),
                observation_dtype=str(data["observation_dtype"]),
                num_actions=int(data["num_actions"]),
                first_action=int(data["first_action"]),
                hidden_sizes=tuple(int(size) for size in data["hidden_sizes"]),
                activation=str(data["activation"]),
                normalise=bool(data["normalise"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(
                f"The description of the policy can't be read: {error!r}.",
                "Client and server are of different versions: update the older one.",
            ) from error
