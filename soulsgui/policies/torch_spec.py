"""What a client must know to build a policy that needs torch; read and written without torch."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, get_args

from soulsgui.config.sections.network import Channels
from soulsgui.policies.described import unreadable

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
        values: What is learned of the return (settings of `dqn` by name) where the outputs are values of the
            actions; None where they are logits of a policy.
        largest: Largest value of an image, where it is less than bytes have (`observations.largest_of`).
        channels: Which side of an image they are: `first`, `last`, or `auto` for what its shape says.
    """

    network: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int
    first_action: int
    hidden_sizes: tuple[int, ...]
    activation: str
    normalise: bool
    values: dict[str, Any] | None = None
    largest: float | None = None
    channels: Channels = "auto"

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        told = asdict(self)
        lists = {name: list(told[name]) for name in ("observation_shape", "hidden_sizes")}
        if self.largest is None:  # what was saved before there was one reads the same
            del told["largest"]
        if self.channels == "auto":
            del told["channels"]
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
                values=None if data.get("values") is None else dict(data["values"]),
                largest=None if data.get("largest") is None else float(data["largest"]),
                channels=_channels(data),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise unreadable(error) from error


def _channels(data: Mapping[str, Any]) -> Channels:
    """Return where channels are; first, where that was not asked yet and the shape does not say it."""
    shape, channels = data["observation_shape"], data.get("channels", "auto")
    if channels not in get_args(Channels):
        raise ValueError(f"channels {channels!r}")
    if channels == "auto" and len(shape) == 3 and shape[0] == shape[2]:
        return "first"
    found: Channels = channels
    return found
