"""What the trainer tells clients: the run, the weights, the grants."""

import logging
from collections import OrderedDict
from collections.abc import Container, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import redis
from numpy.typing import NDArray

from soulsgui.wire.codec import WeightsHeader, pack_weights
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_KEPT = 64
_KEPT_BYTES = 256 * 2**20


@dataclass(frozen=True)
class TrainingPosition:
    """Where a run is."""

    model_id: int
    update: int
    env_steps: int
    episodes: int


@dataclass(frozen=True)
class Published:
    """Weights that were published, and where the run was then."""

    position: TrainingPosition
    header: WeightsHeader
    tensors: dict[str, NDArray[Any]]
    size: int


class Publisher:
    """Publishes, and remembers what was published."""

    def __init__(self, keys: Keys, config: ServerConfig, remembered: int = 1) -> None:
        self.digests: dict[int, int] = {}  # of each model id that is remembered, oldest first
        self.updates: dict[int, int] = {}
        self._keys = keys
        self._config = config
        self._remembered = remembered
        self._blob = b""
        self._kept: OrderedDict[int, Published] = OrderedDict()
        self._held: dict[int, Published] = {}

    @property
    def size(self) -> int:
        """Bytes of the newest weights."""
        return len(self._blob)

    def kept(self, model_id: int) -> Published | None:
        """Return weights that were published a while ago, or None when they are gone."""
        return self._kept.get(model_id) or self._held.get(model_id)

    def hold(self, model_ids: Container[int]) -> None:
        """Keep weights for longer than the newest ones, and let go of those that were held before."""
        self._held = {id_: one for id_, one in {**self._held, **self._kept}.items() if id_ in model_ids}

    def prepare(
        self, position: TrainingPosition, tensors: dict[str, NDArray[Any]], reference: tuple[float, ...] = ()
    ) -> WeightsHeader:
        """Make weights the newest ones; `publish` sends them."""
        of_run = {"run_id": self._config.run_id, "attempt": self._config.attempt, **asdict(position)}
        header, self._blob = pack_weights(**of_run, tensors=tensors, reference=reference)
        self.remember(header)
        self._kept[position.model_id] = Published(position, header, tensors, len(self._blob))
        while len(self._kept) > 1 and (
            len(self._kept) > _KEPT or sum(kept.size for kept in self._kept.values()) > _KEPT_BYTES
        ):
            self._kept.popitem(last=False)
        return header

    def remember(self, header: WeightsHeader) -> None:
        """Know weights by their digest from now on; they are newer than all that are known."""
        self.digests[header.model_id] = digest_number(header.digest)
        self.updates[header.model_id] = header.update
        while len(self.digests) > self._remembered:
            oldest = next(iter(self.digests))
            del self.digests[oldest], self.updates[oldest]

    def publish(self, connection: redis.Redis, grants: Mapping[str, Grant]) -> None:
        """Send the newest weights with the grants of their round, in one transaction."""
        pipeline = connection.pipeline(transaction=True)
        pipeline.set(self._keys.config, self._config.to_json())
        for client, grant in grants.items():
            pipeline.set(self._keys.grant(client), grant.to_json())
        pipeline.set(self._keys.weights, self._blob)
        pipeline.publish(self._keys.weights_event, next(reversed(self._kept)))
        pipeline.execute()

    def tell_all(self, connection: redis.Redis, grants: Mapping[str, Grant]) -> None:
        """Change grants of clients outside of a publish."""
        pipeline = connection.pipeline(transaction=True)
        for client, grant in grants.items():
            pipeline.set(self._keys.grant(client), grant.to_json())
            pipeline.publish(self._keys.wake_up(client), "grant")
        pipeline.execute()
