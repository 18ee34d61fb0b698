"""What every simulated client of a process would read for itself: the run, the newest weights, wake-ups."""

import asyncio
import logging
from contextlib import suppress

import redis
import redis.asyncio

from soulsgui.sampling.simulate.samples import SampleMaker
from soulsgui.wire.codec import CodecError
from soulsgui.wire.connection import AWAY, Backoff
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.weights import HEADER_BYTES, WeightsHeader, read_header

logger = logging.getLogger(__name__)

_WAIT_S = 0.5


class SharedView:
    """Reads once for all.

    Attributes:
        config: The present run, None while there is none.
        header: Head of the newest weights.

    Args:
        connection: A connection of its own.
        keys: Key names.
    """

    def __init__(self, connection: "redis.asyncio.Redis", keys: Keys) -> None:
        self.config: ServerConfig | None = None
        self.header: WeightsHeader | None = None
        self._redis = connection
        self._keys = keys
        self._maker: SampleMaker | None = None
        self._woken: set[str] = set()
        self._all_after = 0
        self._seen: dict[str, int] = {}

    def woken(self, client: str) -> bool:
        """Whether a client was told to look since it asked last."""
        for_all = self._seen.get(client) != self._all_after
        self._seen[client] = self._all_after
        if client in self._woken:
            self._woken.discard(client)
            return True
        return for_all

    def maker_of(self, config: ServerConfig) -> SampleMaker:
        """Return what makes samples of a run: the same for all, since it keeps what is costly to draw."""
        if self._maker is None or self._maker.config != config:
            self._maker = SampleMaker(config)
        return self._maker

    async def follow(self, stop: asyncio.Event) -> None:
        """Listen until stopped, through absences of the server."""
        backoff = Backoff()
        while not stop.is_set():
            heard = self._redis.pubsub(ignore_subscribe_messages=True)
            try:
                await heard.psubscribe(self._keys.weights_event, self._keys.wake_up("*"))
                while not stop.is_set():
                    await self._read()
                    backoff.reset()
                    await self._listen(heard)
            except (*AWAY, redis.ResponseError) as error:
                logger.warning("the server is away (%s); trying again", type(error).__name__)
                await asyncio.sleep(backoff.delay_s())
            finally:
                with suppress(*AWAY):
                    await heard.aclose()  # type: ignore[no-untyped-call]

    async def _read(self) -> None:
        config = await self._redis.get(self._keys.config)
        head = await self._redis.getrange(self._keys.weights, 0, HEADER_BYTES - 1)
        self.config = ServerConfig.read(config)
        try:
            header = read_header(head) if isinstance(head, bytes) and head else None
        except CodecError:
            header = None
        if header != self.header:
            self.header = header
            self._all_after += 1

    async def _listen(self, heard: "redis.asyncio.client.PubSub") -> None:
        """Return when the weights changed, or after a moment; take note of who was woken up."""
        message = await heard.get_message(timeout=_WAIT_S)
        while message is not None:
            channel = message["channel"].decode()
            if channel == self._keys.weights_event:
                return
            self._woken.add(channel.removeprefix(self._keys.wake_up("")))
            message = await heard.get_message(timeout=0)
