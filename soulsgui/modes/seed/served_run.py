"""One run of an inference server: who is served, in which batches, and with which weights."""

import logging
import math
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.environments.choices import Mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.modes.seed.batching import BatchCandidate, awaited, expected, fitting
from soulsgui.modes.seed.served_client import ChosenActions, ServedClient
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import make_policy
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.heartbeat import derived_seed
from soulsgui.sampling.inference_messages import (
    MOST_IN_FLIGHT,
    ActionReply,
    ReceivedRequest,
    Request,
    RequestReader,
)
from soulsgui.sampling.link import ClientLink, check_network
from soulsgui.sampling.owner_link import Plan, Stepping
from soulsgui.sampling.sampling_modes import epsilons, explore
from soulsgui.sampling.segments import steps_that_fit
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.beats import LATE_S, BeatClock, BeatReader, clients_of
from soulsgui.wire.codec import CodecError, WeightsHeader
from soulsgui.wire.connection import Link
from soulsgui.wire.keys import Keys, inference_number
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.heartbeat import EXPIRY_S, MAX_ENVS, Heartbeat, InferenceFigures
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_WAIT_S = 0.1
_LEAST_WAIT_S = 0.001
_EXPIRY_S = 60
_LONG_S = 0.01  # what takes no longer holds nobody up


def server_of(client: str, servers: int) -> int:
    """Return the number, from 1, of the inference server that a client belongs to."""
    return zlib.crc32(client.encode()) % servers + 1


class PendingRequest(NamedTuple):
    """A request that waits for its answer."""

    name: str
    client: ServedClient
    request: Request


class LiveClient(NamedTuple):
    """A client that was admitted here, beats, and is let in by the trainer."""

    client: ServedClient
    grant: Grant
    epsilon: NDArray[np.float64]  # of each of its environments
    requests: str  # key


class ServedRun:
    """Serves the clients of one run; `link` is the connection that answers them."""

    def __init__(
        self, config: ServerConfig, client_link: ClientLink, link: Link, figures: InferenceFigures
    ) -> None:
        self._config, self._settings = config, config.settings
        self._client_link, self._link, self._figures = client_link, link, figures
        self._keys, self._progress = Keys(client_link.address.prefix), client_link.progress
        self._number = inference_number(self._progress.client)
        self._spaces = SpacesSpec.from_json(config.spaces)
        self._reader = RequestReader(self._spaces)
        self._policy = make_policy(config.policy, config.settings["central.inference_device"])
        self._memory = remembered_by(self._policy)
        self._rng = np.random.default_rng(derived_seed(config.seed, self._progress.client, config.attempt))
        self._progress.env_id = config.settings["env.id"]
        self._clients: dict[str, ServedClient] = {}  # those that were admitted
        self._attempt = config.attempt
        self._uploader = self._begin_session()
        self._header: WeightsHeader | None = None
        self._swapped_at = self._looked_at = float("-inf")
        self._clock, self._beats = BeatClock(), BeatReader(self._keys)
        self._heard: ServerView | None = None
        self._plan = client_link.plan
        self._listed: set[str] = set()  # at the last look
        self._live: dict[str, LiveClient] = {}
        self._unreadable: set[str] = set()  # clients whose newest requests could not be used
        self._answers: list[tuple[str | bytes, ...]] = []  # commands that are to be sent
        self._taken: list[ServedClient] = []  # whose last request is to be recorded

    def _begin_session(self) -> Uploader:
        progress, first = self._progress, 0
        for one in self._clients.values():  # anew: who went away leaves no gap
            one.first_env, first = first, first + one.num_envs
        progress.served = {name: one.first_env for name, one in self._clients.items()}
        progress.num_envs = max(first, 1)
        buffer_bytes = int(self._settings["client.buffer_bytes"])
        return self._client_link.enter(self._config, self._config.contract, buffer_bytes)

    def turn(self) -> None:
        """Answer one batch, as soon as there are weights and the trainer takes samples."""
        client_link, now = self._client_link, time.monotonic()
        view, plan = client_link.view, client_link.plan
        if view is not self._heard or plan is not self._plan:
            self._hear(view, plan)
        self._swap(view, now)
        if now - self._looked_at >= _LOOK_EVERY_S:
            self._looked_at, self._heard = now, None
            self._look_at_clients(now)
        if self._header is None or plan.stepping is not Stepping.FREE or not self._live:
            self._exchange()
            client_link.wait(lambda view: view.header != self._header, _WAIT_S)
        elif not self._uploader.has_room(sum(client.open_steps for client in self._clients.values())):
            self._exchange()
            self.cut_all()
            client_link.wait(lambda _: self._uploader.has_room(0), _WAIT_S)
        elif asked := self._collect():
            self._answer(self._header, asked)

    def _hear(self, view: ServerView, plan: Plan) -> None:
        """Do what is wanted of this server; raise where it is refused."""
        self._heard, self._plan = view, plan
        if view.config is not None and view.config.attempt != self._attempt:
            # Another trainer does not know whose environments are whose: the hello tells.
            self._attempt = view.config.attempt
            self.cut_all()
            self._uploader = self._begin_session()
        self._client_link.obey(plan, "waiting" if self._header is None else "sampling")
        self._client_link.answer_of_trainer(view)

    def _swap(self, view: ServerView, now: float) -> None:
        """Take the newest weights, between two batches, if they are due."""
        header, tensors = view.header, view.tensors
        if header is None or tensors is None or header.run_id != self._config.run_id:
            return
        if header == self._header or now - self._swapped_at < self._settings["central.broadcast_period"]:
            return
        self._policy.load(tensors)
        if self._header is None:
            check_network(self._policy, header, self._spaces.observation)
        self._header, self._swapped_at = header, now
        self._figures.swaps += 1
        self._progress.model_id, self._progress.update = header.model_id, header.update

    def _look_at_clients(self, now: float) -> None:
        """See who is to be served; forget who is silent, not let in, or not on the roster any more."""
        self._exchange()  # what was refused at the last look is not to be refused again
        connection, keys = self._link.redis, self._keys
        servers = int(self._settings["central.inference_servers"])
        everybody = [name for name in clients_of(connection, keys) if not inference_number(name)]
        mine = [name for name in everybody if server_of(name, servers) == self._number]
        said = zip(mine, self._beats.read(connection, mine), strict=True)
        read_beats = ((name, Heartbeat.read(data)) for name, data in said if data)
        # One of another client says nothing of this client, nor of that one.
        beats = {name: beat for name, beat in read_beats if beat is not None and beat.client == name}
        pipeline = connection.pipeline(transaction=False)
        for name in beats:
            pipeline.pttl(keys.beat(name))
            pipeline.get(keys.grant(name))
        read = iter(pipeline.execute())
        self._live, let_in = {}, dict[str, tuple[Grant, int]]()
        gone = [*self._listed.difference(mine), *(name for name in mine if name not in beats)]
        for (name, beat), left_ms, granted in zip(beats.items(), read, read, strict=True):
            grant = Grant.read(granted)
            self._clock.observe(beat, EXPIRY_S - max(left_ms, 0) / 1000, now)
            age_s = self._clock.age_s(name, now)
            silent = age_s is None or age_s > LATE_S
            if beat.leaving or silent or grant is None or grant.status != "accepted":
                gone.append(name)
            elif grant.session != beat.session or beat.num_envs > MAX_NUM_ENVS:
                pipeline.delete(keys.requests(name))  # nobody takes them, and there may be more and more
            else:
                let_in[name] = grant, beat.num_envs
                for waiting in (keys.requests(name), keys.replies(name)):
                    pipeline.ltrim(waiting, -MOST_IN_FLIGHT, -1)
                    pipeline.expire(waiting, _EXPIRY_S)
        pipeline.execute()
        self._forget(gone)
        self._listed = set(mine)
        self._admit({name: count for name, (_, count) in let_in.items() if not self._has(name, count)})
        self._live = {
            name: LiveClient(self._clients[name], grant, epsilons(grant, count), keys.requests(name))
            for name, (grant, count) in let_in.items()
            if self._has(name, count)
        }
        self._figures.clients = len(self._clients)

    def _has(self, name: str, num_envs: int) -> bool:
        return name in self._clients and self._clients[name].num_envs == num_envs

    def _admit(self, newcomers: Mapping[str, int]) -> None:
        """Take those in who ask, with as many environments as each says that it has.

        One session numbers the environments of all, and is begun before any of them is answered. Everybody
        waits until the trainer lets it in: so there is one at each look at most, whoever comes or changes.
        """
        pipeline, before = self._link.redis.pipeline(transaction=False), dict(self._clients)
        for name in newcomers:
            pipeline.lindex(self._keys.requests(name), -1)
        for (name, count), data in zip(newcomers.items(), pipeline.execute(), strict=True):
            if data is None:
                continue
            received, why = self._decoded(name, data, count), self._why_not(name, count)
            if received is None or why:
                self._answers.append(("DEL", self._keys.requests(name)))
                if received is not None:
                    self._refuse(name, received, why)
                continue
            logger.info("%s asks with %d environments", name, count)
            self._cut([self._clients.pop(name)] if name in self._clients else ())
            longest = int(self._settings["client.segment_length"])
            self._clients[name] = ServedClient(count, self._spaces, longest, self._memory.shapes)
        if self._clients != before:
            self._record()  # no step may have the number of another one
            self._uploader = self._begin_session()

    def _why_not(self, name: str, num_envs: int) -> str:
        """Return why a client with so many environments can't be admitted; empty where it can."""
        others = sum(one.num_envs for other, one in self._clients.items() if other != name)
        if others + num_envs > MAX_ENVS:
            return f"it has {others:,} environments, and {MAX_ENVS:,} at most"
        most = steps_that_fit(self._spaces, self._memory.shapes)
        return f"a message holds one step of {most:,} environments at most" if num_envs > most else ""

    def _forget(self, names: Sequence[str]) -> None:
        """Throw away what was asked by clients that are not served any more, and end their unrolls."""
        if not names:
            return
        pipeline = self._link.redis.pipeline(transaction=False)
        pipeline.delete(*map(self._keys.requests, names))
        pipeline.delete(*map(self._keys.replies, names))
        self._figures.expired += pipeline.execute()[0]
        self._unreadable.difference_update(names)
        for name in names:
            self._clock.forget(name)
        self._cut([self._clients.pop(name) for name in names if name in self._clients])

    def _collect(self) -> list[PendingRequest]:
        """Wait for a request, then for those of the others, no longer than a batch may wait."""
        room = self._settings["central.inference_batchsize"]
        delay_s = self._settings["central.inference_delay"]
        found = list[tuple[str, ReceivedRequest]]()
        now = time.monotonic()
        resting = {name: end for name in self._live if (end := self._rests_until(name)) > now}
        left = set(self._live.keys() - resting.keys() or self._live)  # who may ask
        deadline = now + (delay_s if expected(self._waiting(left, now), delay_s) else _WAIT_S)
        deadline = min([deadline, *resting.values()])
        while left and room > 0 and (now := time.monotonic()) <= deadline:
            waiting = self._waiting(left, now)
            if found:  # only who is alone in a batch may have more environments than it takes
                waiting = [one for one in waiting if one.num_envs <= room]
                if not expected(waiting, delay_s):
                    break
            last = awaited(waiting, room, delay_s)
            for name, data in self._pop(waiting, room, delay_s, last, deadline - now):
                if name not in left:  # of one client two were there: this one belongs to the next batch
                    self._answers.append(("LPUSH", self._live[name].requests, data))
                    continue
                self._live[name].client.asks(time.monotonic())
                received = self._read(name, data)
                if received is not None:
                    if not found and last is None:
                        deadline = time.monotonic() + delay_s
                    found.append((name, received))
                    left.discard(name)
                    room -= received.num_envs
        return self._take(found) if found else []

    def _rests_until(self, name: str) -> float:
        """Return until when a client lets others ask: as long, for each, as its last request took here.

        Who has room in a batch need not; nor do those count who ask more seldom.
        """
        client, room = self._live[name].client, self._settings["central.inference_batchsize"]
        if client.num_envs <= room or client.spent_s < _LONG_S:
            return -math.inf
        since = client.asked_at - float(self._settings["central.inference_delay"])
        asking = sum(one.asked_at >= since for one in self._clients.values())  # itself, too
        return client.asked_at + asking * client.spent_s

    def _waiting(self, names: Iterable[str], now: float) -> list[BatchCandidate]:
        clients = ((name, self._live[name].client) for name in names)
        return [
            BatchCandidate(name, client.num_envs, now - client.asked_at, client.pause_s)
            for name, client in clients
        ]

    def _pop(
        self, waiting: list[BatchCandidate], room: int, delay_s: float, last: str | None, left_s: float
    ) -> list[tuple[str, bytes]]:
        """Send the answers, and wait until `last` asks, or else anyone; return what is asked then.

        Where not all have room it is only known then whose requests are to be looked for: once more is asked.
        """
        live, wait_s = self._live, max(left_s, _LEAST_WAIT_S)
        in_turn = [one.name for one in sorted(waiting, key=lambda one: one.age_s, reverse=True)]
        all_fit = sum(one.num_envs for one in waiting) <= room
        whom = [last] if last is not None else in_turn
        others = [name for name in in_turn if name != whom[0]] if all_fit else []
        first, *more = self._exchange(
            ("BLPOP", *(live[name].requests for name in whom), wait_s),
            *(("LPOP", live[name].requests) for name in others),
        )
        if first is None:
            return _found(others, more)
        asks = next(name for name in whom if live[name].requests.encode() == first[0])
        if not all_fit:
            room -= live[asks].client.num_envs
            others = fitting([one for one in waiting if one.name != asks], room, delay_s)
            more = self._exchange(*(("LPOP", live[name].requests) for name in others)) if others else []
        return _found([asks, *others], [first[1], *more])

    def _exchange(self, *commands: tuple[Any, ...]) -> list[Any]:
        """Send the answers that wait, and commands; return what those say."""
        answers, self._answers = self._answers, []
        try:
            return self._link.exchange(*answers, *commands, meanwhile=self._settle)[len(answers) :]
        finally:
            self._record()

    def _settle(self) -> None:
        """Do what has time until the answers are on the way: record, and send on what is due."""
        self._record()
        now = time.monotonic()
        self._cut(client for client in self._clients.values() if now >= client.due and client.open_steps)

    def _record(self) -> None:
        """Record what the requests told."""
        for client in self._taken:
            self._push(client, client.record())
        self._taken.clear()

    def _read(self, name: str, data: bytes) -> ReceivedRequest | None:
        """Return a request; None for one that can't be used, or is answered already."""
        client = self._live[name].client
        received = self._decoded(name, data, client.num_envs)
        if received is None or not client.repeats(received.unroll, received.number):
            return received
        if received.number != client.number:
            return None
        self._figures.repeated += 1
        if not client.answer:  # the server went away before it was answered
            return received
        self._send(name, client.answer)
        return None

    def _decoded(self, name: str, data: bytes, num_envs: int) -> ReceivedRequest | None:
        try:
            received = self._reader.read(data)
            if received.num_envs != num_envs:
                raise CodecError(f"{received.num_envs} environments, where it says {num_envs}")
        except CodecError as error:
            self._count_unreadable(name, error)
            return None
        return received

    def _count_unreadable(self, name: str, error: CodecError) -> None:
        self._figures.unreadable += 1
        if name not in self._unreadable:
            logger.info("a request of %s can't be used: %s", name, error)
        self._unreadable.add(name)

    def _take(self, received: list[tuple[str, ReceivedRequest]]) -> list[PendingRequest]:
        """Take requests over that can be used."""
        try:
            requests = self._reader.checked([one for _, one in received])
        except CodecError as error:
            if len(received) > 1:
                return [asked for one in received for asked in self._take([one])]
            self._count_unreadable(received[0][0], error)
            return []
        now = time.monotonic()
        return [self._take_one(name, one, now) for (name, _), one in zip(received, requests, strict=True)]

    def _take_one(self, name: str, request: Request, now: float) -> PendingRequest:
        client = self._live[name].client
        self._unreadable.discard(name)
        if client.repeats(request.unroll, request.number):
            return PendingRequest(name, client, request)
        if not client.open_steps:
            client.due = now + self._settings["client.segment_seconds"]
        self._figures.begun_anew += client.number < 0 < request.number
        client.take(request)
        self._taken.append(client)
        if request.round_trip_ms:
            self._figures.took(request.round_trip_ms)
        return PendingRequest(name, client, request)

    def _send(self, name: str, answer: bytes) -> None:
        self._answers.append(("RPUSH", self._keys.replies(name), answer))

    def _refuse(self, name: str, request: ReceivedRequest, why: str) -> None:
        """Tell a client, and the server's owner, why it gets no actions."""
        self._figures.unreadable += 1
        if name not in self._unreadable:
            logger.warning("%s gets no actions for its %d environments: %s", name, request.num_envs, why)
        self._unreadable.add(name)
        words = request.unroll, request.number, self._figures.generation
        self._send(name, ActionReply(*words, -1, 0, np.empty(0), why).pack())

    def _answer(self, header: WeightsHeader, asked: list[PendingRequest]) -> None:
        """Choose the actions of a batch, and send them."""
        began = time.monotonic()
        obs = np.concatenate([one.request.obs for one in asked])
        masks = [one.request.mask for one in asked if one.request.mask is not None]
        states, memory = [dict(one.client.memory.fields) for one in asked], self._memory
        memory.fields = {name: np.concatenate([state[name] for state in states]) for name in memory.shapes}
        action, log_prob = self._choose(asked, obs, np.concatenate(masks) if masks else None)
        chosen = self._policy.to_environment(action)
        begin = 0
        for one, state in zip(asked, states, strict=True):
            rows = slice(begin, begin := begin + one.client.num_envs)
            one.client.memory.fields = {name: field[rows].copy() for name, field in memory.fields.items()}
            words = one.request.unroll, one.request.number, self._figures.generation
            answer = ActionReply(*words, header.model_id, header.update, chosen[rows]).pack()
            request, drawn = one.request, (action[rows], log_prob[rows])
            one.client.answered(ChosenActions(header, request.obs, request.mask, *drawn, state), answer)
            self._send(one.name, answer)
            one.client.answered_at = time.monotonic()
            one.client.spent_s = one.client.answered_at - began
        self._figures.chose(len(obs))

    def _choose(
        self, asked: list[PendingRequest], obs: NDArray[Any], mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions as the grant of each client says that it explores."""
        live = [self._live[one.name] for one in asked]
        # The trainer tells all clients the same way to explore; what differs is the rate.
        rates = np.concatenate([one.epsilon for one in live])
        return explore(self._policy, obs, self._rng, live[0].grant, mask, rates)

    def cut_all(self) -> None:
        """Send what was recorded."""
        self._cut(self._clients.values())

    def _cut(self, clients: Iterable[ServedClient]) -> None:
        for client in clients:
            self._push(client, client.cut())

    def _push(self, client: ServedClient, pieces: Iterable[Segments]) -> None:
        began = time.monotonic()
        for segments in pieces:
            self._progress.stepped(segments.steps)
            chunk = pack_chunk(self._config.run_id, self._config.contract, segments)
            self._uploader.push_chunk(chunk, segments.steps, int(segments.model_id_first.max()))
        client.spent_s += time.monotonic() - began


def _found(names: Iterable[str], data: Iterable[bytes | None]) -> list[tuple[str, bytes]]:
    return [(name, one) for name, one in zip(names, data, strict=True) if one is not None]
