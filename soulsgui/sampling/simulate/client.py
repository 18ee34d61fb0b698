"""One simulated client: hello, beats, chunks within its credit, episodes, wishes."""

import asyncio
import random
import time
from typing import Any

import redis
import redis.asyncio

from soulsgui.sampling.progress import Progress
from soulsgui.sampling.simulate.samples import SampleMaker
from soulsgui.sampling.simulate.view import SharedView
from soulsgui.wire.connection import AWAY, Backoff
from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.episode import Episode
from soulsgui.wire.messages.heartbeat import EXPIRY_S, PERIOD_S, Answer
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, family_of
from soulsgui.wire.messages.session import CHUNK_FIELD, EPISODE_FIELD, HELLO_FIELD, Grant, Hello, Wish
from soulsgui.wire.weights import WeightsHeader

_LOOK_EVERY_S = 2.0
_STEP_S = 0.25
_EPISODE_STEPS = 64


class SimulatedClient:
    """Plays for whatever run there is.

    Args:
        connection: Its own connection.
        keys: Key names.
        progress: Its counters.
        view: What all clients of this process read together.
        rate: Environment steps per second.
        rng: Source of jitter.
    """

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
        self._number = self._chunks = self._bytes = self._steps = 0
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

    # --- one session -------------------------------------------------------------------------------

    async def _session(self, stop: asyncio.Event) -> None:
        config = self._view.config
        if config is None or not config.spaces:
            self.progress.phase = "waiting"
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
        hello = Hello(
            client=progress.client,
            instance=progress.instance,
            run_id=config.run_id,
            contract=config.contract,
            num_envs=progress.num_envs,
        ).to_json()
        own = self._keys
        self._last = EntryId.parse(await self._redis.xadd(own.chunks(progress.client), {HELLO_FIELD: hello}))
        self._last_episode = EntryId.parse(
            await self._redis.xadd(own.episodes(progress.client), {HELLO_FIELD: hello})
        )
        progress.session = str(self._last)
        self._number = self._chunks = self._bytes = self._steps = 0
        self._round, self._grant = -1, None
        progress.sent_chunks = progress.sent_bytes = progress.sent_steps = 0
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
        wish = self._wish
        if wish is None:
            self.progress.phase = "sampling"
            return
        self.progress.answered = Answer(command_id=wish.command_id, ok=True)
        self.progress.phase = "paused" if wish.state == "pause" else "sampling"
        if wish.state in ("finish", "stop"):
            self.progress.phase = "stopping"
            self._ended = True

    # --- playing -----------------------------------------------------------------------------------

    async def _play(self, maker: SampleMaker, config: ServerConfig, budget: float) -> None:
        """Send as many steps as the time that passed allows, the credit and the round."""
        header, grant = self._view.header, self._grant
        if grant is None or grant.status != "accepted" or header is None or header.run_id != config.run_id:
            return
        if self.progress.phase != "sampling":
            return
        self.progress.model_id, self.progress.update = header.model_id, header.update
        allowed = self._allowed(config, grant, header)
        steps = min(round(budget) or 1, allowed)
        while steps > 0 and self._chunks < grant.credit_entries and self._bytes < grant.credit_bytes:
            length = min(steps, _EPISODE_STEPS)
            await self._send(maker, config, header, length)
            steps -= length

    def _allowed(self, config: ServerConfig, grant: Grant, header: WeightsHeader) -> int:
        if family_of(str(config.settings.get("algorithm", "ppo"))) == OFF_POLICY:
            return 2**31 if grant.credit_steps is None else grant.credit_steps - self._steps
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
        fields: dict[Any, Any] = {CHUNK_FIELD: payload, NUMBER_FIELD: self._number}
        pipeline.xadd(self._keys.chunks(progress.client), fields, id=str(self._last))
        text: dict[Any, Any] = {EPISODE_FIELD: episode.to_json()}
        pipeline.xadd(self._keys.episodes(progress.client), text, id=str(self._last_episode))
        await pipeline.execute()
        self._number += 1
        self._chunks += 1
        self._bytes += len(payload)
        self._steps += steps
        self._played += steps
        progress.stepped(steps)
        progress.sent_chunks, progress.sent_bytes = self._chunks, self._bytes
        progress.sent_steps = self._steps

    async def _say_goodbye(self) -> None:
        self.progress.leaving = True
        self._next_beat = 0.0
        try:
            await self._beat_when_due()
            await self._redis.aclose()
        except (*AWAY, redis.ResponseError):
            return


async def _sleep(stop: asyncio.Event, seconds: float) -> None:
    """Wait, but not beyond the stop."""
    try:
        async with asyncio.timeout(seconds):
            await stop.wait()
    except TimeoutError:
        return
