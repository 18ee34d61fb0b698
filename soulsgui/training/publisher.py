"""What the trainer tells clients: the run, the weights, the grants."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import redis
from numpy.typing import NDArray

from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant
from soulsgui.wire.weights import WeightsHeader, pack_weights

_KEPT = 64
_KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class Standing:
    """Where a run is.

    Attributes:
        model_id: Id of its newest weights.
        update: Updates of the agent up to them.
        env_steps: Environment steps trained on.
        episodes: Episodes among them.
    """

    model_id: int
    update: int
    env_steps: int
    episodes: int


@dataclass(frozen=True)
class Published:
    """Weights that were published, and where the run was then."""

    standing: Standing
    header: WeightsHeader
    tensors: dict[str, NDArray[Any]]
    size: int


class Publisher:
    """Publishes, and remembers what was published.

    Args:
        keys: Key names.
        config: The run as clients see it.
    """

    def __init__(self, keys: Keys, config: ServerConfig) -> None:
        self._keys = keys
        self._config = config
        self._blob = b""
        self._kept: OrderedDict[int, Published] = OrderedDict()

    @property
    def digests(self) -> dict[int, int]:
        """Digest of each model id that is still remembered."""
        return {model_id: digest_number(kept.header.digest) for model_id, kept in self._kept.items()}

    def kept(self, model_id: int) -> Published | None:
        """Return weights that were published a while ago, or None when they are gone."""
        return self._kept.get(model_id)

    def prepare(self, standing: Standing, tensors: dict[str, NDArray[Any]]) -> WeightsHeader:
        """Make weights the newest ones; `publish` sends them."""
        run_id, attempt = self._config.run_id, self._config.attempt
        header, self._blob = pack_weights(run_id, attempt, standing.model_id, standing.update, tensors)
        self._kept[standing.model_id] = Published(standing, header, tensors, len(self._blob))
        while len(self._kept) > 1 and (
            len(self._kept) > _KEPT or sum(kept.size for kept in self._kept.values()) > _KEPT_BYTES
        ):
            self._kept.popitem(last=False)
        return header

    def publish(self, connection: redis.Redis, grants: Mapping[str, Grant]) -> None:
        """Send the newest weights with the grants of their round, in one transaction.

        Raises:
            redis.RedisError: Not done; it may be repeated.
        """
        pipeline = connection.pipeline(transaction=True)
        pipeline.set(self._keys.config, self._config.to_json())
        for client, grant in grants.items():
            pipeline.set(self._keys.grant(client), grant.to_json())
        pipeline.set(self._keys.weights, self._blob)
        pipeline.publish(self._keys.weights_event, next(reversed(self._kept)))
        pipeline.execute()

    def tell(self, connection: redis.Redis, client: str, grant: Grant) -> None:
        """Change one client's grant outside of a publish.

        Raises:
            redis.RedisError: Not done; it may be repeated.
        """
        pipeline = connection.pipeline(transaction=True)
        pipeline.set(self._keys.grant(client), grant.to_json())
        pipeline.publish(self._keys.wake_up(client), "grant")
        pipeline.execute()
