"""The thread that keeps weights, grant and wishes up to date.

Pub/sub only wakes it; the truth is in the keys, read again at every wake-up, each second, and after
every reconnect.
"""

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import redis
from numpy.typing import NDArray

from soulsgui.wire.codec import (
    HEADER_BYTES,
    CodecError,
    WeightsHeader,
    body_offset,
    read_header,
    unpack_body,
)
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant, GreedyOrder, Wish

logger = logging.getLogger(__name__)

_LOOK_AT_LEAST_EVERY_S = 1.0
_STOP_WITHIN_S = 0.1
_AT_ONCE_BYTES = 65536
"""New weights that are smaller come with the first answer; of larger ones the head comes first."""

_MOST_AT_ONCE_BYTES = 4 * 2**20
"""The same of weights as large as the last ones were: of these the time to ask again would count."""

Weights = tuple[WeightsHeader | None, dict[str, NDArray[Any]] | None]

WHEN_AWAY = "A server on this machine is started with: soulsgui serve"
"""What a client's user can do while there is no server."""


@dataclass(frozen=True)
class ServerView:
    """What the server says, all read at one time."""

    config: ServerConfig | None = None
    header: WeightsHeader | None = None
    tensors: dict[str, NDArray[Any]] | None = field(default=None, compare=False)
    grant: Grant | None = None
    wish: Wish | None = None

    @property
    def greedy_order(self) -> GreedyOrder | None:
        """The order for an evaluation, when the weights to play it with are here, too."""
        order = None if self.grant is None else self.grant.greedy
        header = None if self.tensors is None else self.header
        if order is None or header is None or (self.config and self.config.run_id != header.run_id):
            return None
        same = (header.model_id, header.attempt) == (order.model_id, order.attempt)
        return order if same else None


class Downloader(threading.Thread):
    """Reads what the server says; its callbacks are called in this thread."""

    def __init__(
        self,
        address: Address,
        client: str,
        on_change: Callable[[ServerView], None],
        on_return: Callable[[], None],
    ) -> None:
        super().__init__(name="downloader", daemon=True)
        self._keys = Keys(address.prefix)
        self._client = client
        self._on_change = on_change
        self._on_return = on_return
        self._stop_event = threading.Event()
        self._link = Link(address, self._stop_event, "downloader", WHEN_AWAY)
        self.takes_weights = True
        self._view = ServerView()
        self._size = 0  # of the last weights, with their header
        self._looked_for: Grant | None = None  # the grant whose evaluation's weights were looked for
        self._config: tuple[bytes | None, ServerConfig | None] = (None, None)

    def close(self) -> None:
        """End."""
        self._stop_event.set()
        if self.is_alive():
            self.join()
        self._link.close()

    def run(self) -> None:
        """Watch until closed."""
        while not self._stop_event.is_set():
            subscription = self._link.redis.pubsub(  # type: ignore[no-untyped-call]
                ignore_subscribe_messages=True
            )
            try:
                channels = (self._keys.weights_event, self._keys.wake_up(self._client))
                subscription.subscribe(*channels)
                for _ in channels:  # confirmations: from here on no notice is missed
                    subscription.get_message(timeout=_LOOK_AT_LEAST_EVERY_S)
                noticed = True
                while not self._stop_event.is_set():
                    self._look(noticed)
                    returned = self._link.away
                    self._link.back()
                    if returned:
                        self._on_return()
                    noticed = self._wait(subscription)
            except AWAY as error:
                try:
                    self._link.lost(error)
                except Stopped:
                    return
            except redis.ResponseError as error:
                self._link.refused(error)
                self._stop_event.wait(_LOOK_AT_LEAST_EVERY_S)
            finally:
                subscription.close()

    def _wait(self, subscription: redis.client.PubSub) -> bool:
        """Wait for a notice, but not for longer than until the next look; return whether weights are new."""
        for _ in range(round(_LOOK_AT_LEAST_EVERY_S / _STOP_WITHIN_S)):
            notice = subscription.get_message(timeout=_STOP_WITHIN_S)
            if notice:
                return bool(notice["channel"] == self._keys.weights_event.encode())
            if self._stop_event.is_set():
                break
        return False

    def _look(self, noticed: bool) -> None:
        """Read everything again, and the weights when they are new."""
        keys, old = self._keys, self._view
        most = HEADER_BYTES
        if noticed:  # new weights are to be expected: more is asked for than they have, if that can be
            most = self._size + HEADER_BYTES  # a header may grow
            most = most if _AT_ONCE_BYTES < most <= _MOST_AT_ONCE_BYTES else _AT_ONCE_BYTES
        pipeline = self._link.redis.pipeline(transaction=False)
        pipeline.get(keys.config)
        pipeline.get(keys.grant(self._client))
        pipeline.get(keys.wish(self._client))
        takes_weights = self.takes_weights
        pipeline.getrange(keys.weights, 0, most - 1 if takes_weights else 0)
        config, grant, wish, head = pipeline.execute()
        if config != self._config[0]:
            self._config = config, ServerConfig.read(config)
        told = Grant.read(grant)
        header, tensors = self._weights(head, most) if takes_weights else self._weights_to_evaluate(told)
        view = ServerView(self._config[1], header, tensors, told, Wish.read(wish))
        if view != old:
            self._view = view
            self._on_change(self._view)

    def _weights_to_evaluate(self, grant: Grant | None) -> Weights:
        """Return the weights that an evaluation is asked for with, where no others are wanted."""
        order, before = (None if grant is None else grant.greedy), self._looked_for
        if grant is None or order is None:
            return None, None
        if before is not None and (grant.session, order) == (before.session, before.greedy):
            same = self._view.greedy_order == order
            return (self._view.header, self._view.tensors) if same else (None, None)
        head = self._link.redis.getrange(self._keys.weights, 0, _AT_ONCE_BYTES - 1)
        assert isinstance(head, bytes)
        try:
            header = read_header(head) if head else None
        except CodecError:
            header = None
        config = self._config[1]
        if header is None or config is None or header.run_id != config.run_id:
            return None, None  # they are still to come
        if (header.attempt, header.model_id) < (order.attempt, order.model_id):
            return None, None
        self._looked_for = grant
        if (header.attempt, header.model_id) > (order.attempt, order.model_id):
            return None, None  # newer ones came first: the server will ask somebody else
        return self._weights(head, _AT_ONCE_BYTES)

    def _weights(self, head: bytes, most: int) -> Weights:
        """Return the newest weights."""
        old = self._view
        if not head:
            return None, None
        try:
            header = read_header(head)
            if header == old.header:
                return old.header, old.tensors
            if len(head) < most:
                self._size = len(head)
                return header, unpack_body(header, head[body_offset(head) :])
            rest = self._link.redis.getrange(self._keys.weights, body_offset(head), -1)
            assert isinstance(rest, bytes)
            self._size = body_offset(head) + len(rest)
            return header, unpack_body(header, rest)
        except CodecError as error:
            now = self._link.redis.getrange(self._keys.weights, 0, len(head) - 1)
            if now == head:  # otherwise newer ones came between the two reads: they are read at the next look
                logger.warning("weights ignored: %s", error)
            return old.header, old.tensors
