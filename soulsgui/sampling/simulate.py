"""`client --simulate N`: many clients from one asynchronous process that step no environment.

What they put on the wire is like the real thing.
"""

import asyncio
import logging
import random
import threading
import time
from contextlib import suppress
from functools import lru_cache
from typing import Any

import numpy as np
import redis
import redis.asyncio
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.environments.choices import MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.frame_stacks import field_of
from soulsgui.experience.segments import TERMINATED, Segments
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.heartbeat import own_versions
from soulsgui.sampling.progress import Progress
from soulsgui.wire.beats import own_instance
from soulsgui.wire.codec import HEADER_BYTES, CodecError, WeightsHeader, read_header
from soulsgui.wire.connection import AWAY, Address, Backoff, connect_async
from soulsgui.wire.keys import EntryId, Keys, check_client_name
from soulsgui.wire.messages.chunk import NUMBER_FIELD, digest_number, pack_chunk
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S, Answer
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, family_of, state_of
from soulsgui.wire.messages.session import (
    CHUNK_FIELD,
    EPISODE_FIELD,
    HELLO_FIELD,
    Episode,
    Grant,
    SessionHello,
    Wish,
)

logger = logging.getLogger(__name__)


_WAIT_S = 0.5
_LOOK_EVERY_S = 2.0
_STEP_S = 0.25
_EPISODE_STEPS = 64
_SOCKET_TIMEOUT_S = 10.0
_LOOK_FOR_STOP_S = 0.1
_TELL_EVERY_S = 10.0


class SampleMaker:
    """Makes chunks for one run. Every segment is a whole episode; every reward is 1."""

    def __init__(self, config: ServerConfig) -> None:
        self.config = config
        self._spaces = SpacesSpec.from_json(config.spaces)
        self._state = state_of(config.policy)

    def chunk(self, env_index: int, episode: int, steps: int, header: WeightsHeader) -> bytes:
        """Return one episode as the bytes of a chunk."""
        obs, action, log_prob = self._content(steps)
        actions = self._spaces.masked_actions
        made = Segments(
            env_index=np.array([env_index], np.int32),
            episode=np.array([episode], np.int64),
            first_step=np.zeros(1, np.int64),
            length=np.array([steps], np.int32),
            model_id_first=np.array([header.model_id], np.int64),
            model_id_last=np.array([header.model_id], np.int64),
            digest=np.array([digest_number(header.digest)], np.uint64),
            flags=np.array([TERMINATED], np.uint8),
            obs=obs,
            action=action,
            reward=np.ones(steps, np.float32),
            log_prob=log_prob,
            action_mask=np.ones((steps + 1, actions), np.bool_) if actions else None,
            state={name: np.zeros((1, *shape), np.float32) for name, shape in self._state.items()},
        )
        return pack_chunk(self.config.run_id, self.config.contract, made)

    @lru_cache(maxsize=64)  # noqa: B019 - as many as there are lengths; the maker lives as long as its run
    def _content(self, steps: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """Return observations, actions and log-probabilities of so many steps of a uniform policy."""
        rng = np.random.default_rng(steps)
        space = self._spaces.observation
        obs = np.zeros((steps + 1, *space.shape), space.dtype)
        for name, box in space.fields:
            low, high = (limit.astype(np.float64) for limit in box.limits)
            drawn = rng.normal(size=(steps + 1, *box.shape))
            field_of(obs, name)[:] = np.clip(drawn, low, high).astype(box.dtype)
        return space.rounded(obs), *_chosen(self._spaces.action, steps, rng)


def _chosen(
    space: ActionSpec, steps: int, rng: np.random.Generator
) -> tuple[NDArray[Any], NDArray[np.float32]]:
    """Return so many stored actions of a policy that knows nothing, and their log-probabilities."""
    if isinstance(space, BoxActionSpec):
        drawn = rng.standard_normal((steps, *space.shape), dtype=np.float32)
        density = -0.5 * (np.square(drawn) + np.float32(np.log(2 * np.pi))).sum(axis=1)
        return drawn, density.astype(np.float32)
    if isinstance(space, MultiBinarySpec):
        first, sizes = np.zeros(space.shape, np.int64), np.full(space.shape, 2)
    elif isinstance(space, MultiDiscreteSpec):
        first, sizes = np.array(space.start), np.array(space.sizes)
    else:
        first, sizes = np.array(space.start), np.array(space.n)
    action = rng.integers(first, first + sizes, (steps, *space.shape)).astype(space.dtype)
    return action, np.full(steps, -np.log(sizes).sum(), np.float32)


class SharedView:
    """Reads once for all."""

    def __init__(self, connection: "redis.asyncio.Redis", keys: Keys) -> None:
        self.looked = False  # at the server, at least once
        self.config: ServerConfig | None = None
        self.header: WeightsHeader | None = None
        self._redis = connection
        self._keys = keys
        self._maker: SampleMaker | None = None
        self._clients: set[str] = set()  # who has asked
        self._woken: set[str] = set()

    def woken(self, client: str) -> bool:
        """Whether a client was told to look since it asked last, or has never asked."""
        woken = client in self._woken or client not in self._clients
        self._clients.add(client)
        self._woken.discard(client)
        return woken

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
        header = None
        with suppress(CodecError):
            header = read_header(head) if isinstance(head, bytes) and head else None
        if header != self.header:
            self.header = header
            self._woken |= self._clients
        self.looked = True

    async def _listen(self, heard: "redis.asyncio.client.PubSub") -> None:
        """Return when the weights changed, or after a moment; take note of who was woken up."""
        message = await heard.get_message(timeout=_WAIT_S)
        while message is not None:
            channel = message["channel"].decode()
            if channel == self._keys.weights_event:
                return
            self._woken.add(channel.removeprefix(self._keys.wake_up("")))
            message = await heard.get_message(timeout=0)


class SimulatedClient:
    """Plays for whatever run there is."""

    def __init__(
        self,
        connection: "redis.asyncio.Redis",
        keys: Keys,
        progress: Progress,
        view: SharedView,
        rate: float,
        rng: random.Random,
    ) -> None:
        self.progress = progress
        self._redis = connection
        self._keys = keys
        self._view = view
        self._rate = rate
        self._backoff = Backoff(first_s=0.1, rng=rng)
        self._rng = rng
        self._ended = False
        self._grant: Grant | None = None
        self._wish: Wish | None = None
        self._last = self._last_episode = EntryId(0, 0)
        self._round, self._played = -1, 0
        self._next_look = self._next_beat = 0.0

    async def run(self, stop: asyncio.Event) -> None:
        """Live until stopped, through absences of the server."""
        # Not all in one instant, as real ones would not come either.
        await asyncio.sleep(self._rng.random() * _STEP_S)
        while not (stop.is_set() or self._ended):
            try:
                await self._session(stop)
                self._backoff.reset()
            except (*AWAY, redis.ResponseError) as error:
                self.progress.error = f"{type(error).__name__}: {error}"[:200]
                await _sleep(stop, self._backoff.delay_s())
        await self._say_goodbye()

    async def _session(self, stop: asyncio.Event) -> None:
        config = self._view.config
        if config is None or not config.spaces:
            self.progress.phase = "waiting"
            if self._view.looked:
                await self._beat_when_due()
            await _sleep(stop, _STEP_S)
            return
        maker = self._view.maker_of(config)
        await self._say_hello(config)
        moment = time.monotonic()
        while not (stop.is_set() or self._ended):
            if self._view.config is None or self._view.config.run_id != config.run_id:
                return
            await self._beat_when_due()
            await self._look_when_due()
            now = time.monotonic()
            self._obey()
            await self._play(maker, config, (now - moment) * self._rate)
            moment = now
            await _sleep(stop, _STEP_S)

    async def _say_hello(self, config: ServerConfig) -> None:
        progress = self.progress
        progress.begin_run(config.run_id)
        progress.env_id = str(config.settings.get("env.id", ""))
        hello = SessionHello(
            client=progress.client,
            instance=progress.instance,
            run_id=config.run_id,
            contract=config.contract,
            num_envs=progress.num_envs,
        ).to_json()
        pipeline = self._redis.pipeline(transaction=False)
        for key in self._keys.chunks(progress.client), self._keys.episodes(progress.client):
            pipeline.xadd(key, {HELLO_FIELD: hello})
        self._last, self._last_episode = map(EntryId.parse, await pipeline.execute())
        progress.session = str(self._last)
        progress.sent_chunks = progress.sent_bytes = progress.sent_steps = 0
        self._round, self._grant = -1, None
        self._next_look = self._next_beat = 0.0

    async def _beat_when_due(self) -> None:
        now = time.monotonic()
        if now >= self._next_beat:
            self._next_beat = now + PERIOD_S
            await self._redis.set(
                self._keys.beat(self.progress.client), self.progress.beat().to_json(), ex=EXPIRY_S
            )

    async def _look_when_due(self) -> None:
        """Read grant and wish when something woke this client up, and now and then anyway."""
        now, client = time.monotonic(), self.progress.client
        if self._view.woken(client) or now >= self._next_look:
            self._next_look = now + _LOOK_EVERY_S
            grant, wish = await self._redis.mget(self._keys.grant(client), self._keys.wish(client))
            found = Grant.read(grant)
            self._grant = found if found is not None and found.session == self.progress.session else None
            self._wish = Wish.read(wish)

    def _obey(self) -> None:
        progress, wish = self.progress, self._wish
        progress.phase = "sampling"
        if wish is not None:
            progress.answered = Answer(command_id=wish.command_id, ok=True)
            self._ended = wish.state in ("finish", "stop")
            if wish.state != "run":
                progress.phase = "stopping" if self._ended else "paused"

    async def _play(self, maker: SampleMaker, config: ServerConfig, budget: float) -> None:
        """Send as many steps as the time that passed allows, the credit and the round."""
        header, grant, sent = self._view.header, self._grant, self.progress
        if grant is None or grant.status != "accepted" or header is None or header.run_id != config.run_id:
            return
        if sent.phase != "sampling":
            return
        sent.model_id, sent.update = header.model_id, header.update
        steps = min(round(budget) or 1, self._allowed(config, grant, header))
        while steps > 0 and sent.sent_chunks < grant.credit_entries and sent.sent_bytes < grant.credit_bytes:
            length = min(steps, _EPISODE_STEPS)
            await self._send(maker, config, header, length)
            steps -= length

    def _allowed(self, config: ServerConfig, grant: Grant, header: WeightsHeader) -> int:
        if family_of(str(config.settings.get("algorithm", "ppo"))) == OFF_POLICY:
            return 2**31 if grant.credit_steps is None else grant.credit_steps - self.progress.sent_steps
        share = grant.round
        if share is None or share.round_id != header.model_id:
            return 0
        if share.round_id != self._round:
            self._round, self._played = share.round_id, 0
        return share.steps - self._played

    async def _send(
        self, maker: SampleMaker, config: ServerConfig, header: WeightsHeader, steps: int
    ) -> None:
        progress = self.progress
        payload = maker.chunk(progress.episodes % progress.num_envs, progress.episodes, steps, header)
        number = progress.episode_ended(float(steps), steps)
        episode = Episode(
            run_id=config.run_id,
            attempt=header.attempt,
            number=number,
            env_index=number % progress.num_envs,
            total_return=float(steps),
            length=steps,
            terminated=True,
            model_id=header.model_id,
            seconds=steps / self._rate,
        )
        self._last, self._last_episode = self._last.next, self._last_episode.next
        pipeline = self._redis.pipeline(transaction=False)
        fields: dict[Any, Any] = {CHUNK_FIELD: payload, NUMBER_FIELD: progress.sent_chunks}
        pipeline.xadd(self._keys.chunks(progress.client), fields, id=str(self._last))
        text: dict[Any, Any] = {EPISODE_FIELD: episode.to_json()}
        pipeline.xadd(self._keys.episodes(progress.client), text, id=str(self._last_episode))
        await pipeline.execute()
        self._played += steps
        progress.stepped(steps)
        progress.sent_chunks += 1
        progress.sent_bytes += len(payload)
        progress.sent_steps += steps

    async def _say_goodbye(self) -> None:
        self.progress.leaving = True
        self._next_beat = 0.0
        with suppress(*AWAY, redis.ResponseError):
            await self._beat_when_due()
            await self._redis.aclose()


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not beyond the stop."""
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await stop.wait()


def run_fleet(address: Address, name: str, count: int, rate: float, num_envs: int) -> int:
    """Simulate `count` clients `NAME-1`, `NAME-2` … until told to stop; return the exit code."""
    setup_logging()
    check_client_name(f"{name}-{count}")
    logger.warning(
        "the trainer learns from the random samples of these %d clients: use a run of its own", count
    )
    asyncio.run(Fleet(address, name, count, rate, num_envs).run(stop_on_signals()))
    return 0


class Fleet:
    """The clients of one process; see `run_fleet`."""

    def __init__(self, address: Address, name: str, count: int, rate: float, num_envs: int) -> None:
        keys = Keys(address.prefix)
        instance, versions = own_instance(), own_versions()
        self.view = SharedView(connect_async(address, _SOCKET_TIMEOUT_S), keys)
        self.clients = [
            SimulatedClient(
                connect_async(address, _SOCKET_TIMEOUT_S),
                keys,
                Progress(
                    f"{name}-{number}", instance, num_envs, versions, simulated=True, keeps_episodes=False
                ),
                self.view,
                rate,
                random.Random(number),
            )
            for number in range(1, count + 1)
        ]

    async def run(self, asked: threading.Event) -> None:
        """Play until asked to stop, or until the server has sent every client away."""
        stop = asyncio.Event()
        following = asyncio.create_task(self.view.follow(stop))
        playing = [asyncio.create_task(client.run(stop)) for client in self.clients]
        telling = asyncio.create_task(self._tell())
        everybody = asyncio.gather(*playing)
        while not (asked.is_set() or everybody.done()):
            await asyncio.wait({everybody}, timeout=_LOOK_FOR_STOP_S)
        stop.set()
        await everybody
        telling.cancel()
        await asyncio.gather(following, telling, return_exceptions=True)
        self._log("left")

    async def _tell(self) -> None:
        while True:
            await asyncio.sleep(_TELL_EVERY_S)
            self._log("so far")

    def _log(self, when: str) -> None:
        made = [client.progress for client in self.clients]
        joined, steps = sum(bool(one.session) for one in made), sum(one.env_steps for one in made)
        episodes = sum(one.episodes for one in made)
        words = "%s: %d clients, %d in a session, %d steps, %d episodes"
        logger.info(words, when, len(made), joined, steps, episodes)
