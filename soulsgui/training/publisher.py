"""What the trainer tells clients: the run, the weights, the grants."""

from collections import OrderedDict
from collections.abc import Mapping
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
        self._kept: OrderedDict[int, tuple[WeightsHeader, dict[str, NDArray[Any]], int]] = OrderedDict()

    @property
    def digests(self) -> dict[int, int]:
        """Digest of each model id that is still remembered."""
        return {model_id: digest_number(header.digest) for model_id, (header, _, _) in self._kept.items()}

    def weights_of(self, model_id: int) -> tuple[WeightsHeader, dict[str, NDArray[Any]]] | None:
        """Return weights that were published a while ago, or None when they are gone."""
        kept = self._kept.get(model_id)
        return None if kept is None else (kept[0], kept[1])

    def prepare(self, model_id: int, update: int, tensors: dict[str, NDArray[Any]]) -> WeightsHeader:
        """Make weights the newest ones; `publish` sends them."""
        run_id, attempt = self._config.run_id, self._config.attempt
        header, self._blob = pack_weights(run_id, attempt, model_id, update, tensors)
        self._kept[model_id] = header, tensors, len(self._blob)
        while len(self._kept) > 1 and (
            len(self._kept) > _KEPT or sum(size for _, _, size in self._kept.values()) > _KEPT_BYTES
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
