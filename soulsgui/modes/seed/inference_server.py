"""The inference server: chooses the actions of clients without a policy, in batches.

To the trainer it is a client: what its clients' environments show goes out on its own stream, as segments.
"""

import logging
import threading
import time
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, cast

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ClientRegistrationError, SoulsGuiError
from soulsgui.experience.segments import Segments
from soulsgui.modes.seed.figures import InferenceCount
from soulsgui.modes.seed.served_client import Acted, ServedClient
from soulsgui.policies.exploration import boltzmann, epsilon_greedy, ladder
from soulsgui.policies.numpy_recurrent import remembered_by
from soulsgui.policies.policy import Policy, make_policy
from soulsgui.process import setup_logging, stop_on_signals
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.heartbeat import ServerLogHandler, derived_seed
from soulsgui.sampling.link import ClientLink, check_network, checked_config
from soulsgui.sampling.owner_link import Stepping
from soulsgui.sampling.uploader import Uploader
from soulsgui.wire.beats import LATE_S, BeatClock, clients_of
from soulsgui.wire.codec import CodecError, WeightsHeader
from soulsgui.wire.connection import AWAY, Address, Link, Stopped
from soulsgui.wire.keys import INFERENCE, Keys
from soulsgui.wire.messages.chunk import pack_chunk
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.inference import MOST_IN_FLIGHT, Reply, Request
from soulsgui.wire.messages.server_config import OFF_POLICY, ServerConfig, family_of
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_LOOK_EVERY_S = 1.0
_WAIT_S = 0.1
_LEAST_WAIT_S = 0.001
_EXPIRY_S = 60


def _differs(config: ServerConfig | None, view: ServerView) -> bool:
    return view.config != config


def share_of(client: str, servers: int) -> int:
    """Return the number, from 1, of the inference server that a client belongs to."""
    return zlib.crc32(client.encode()) % servers + 1


@dataclass
class Asked:
    """A request that waits for its answer."""

    name: str
    client: ServedClient
    request: Request


@dataclass
class ServedRun:
    """What an inference server has for one run."""

    config: ServerConfig
    spaces: SpacesSpec
    policy: Policy
    uploader: Uploader
    rng: np.random.Generator
    header: WeightsHeader | None = None
    swapped_at: float = float("-inf")
    names: list[str] = field(default_factory=list)  # of the clients that belong to this server, and live
    grants: dict[str, Grant] = field(default_factory=dict)
    clients: dict[str, ServedClient] = field(default_factory=dict)
    looked_at: float = float("-inf")

    @property
    def open_steps(self) -> int:
        """Steps that were recorded and not sent yet."""
        return sum(client.open_steps for client in self.clients.values())


class InferenceServer:
    """Serves run after run."""

    def __init__(self, address: Address, name: str, stop: threading.Event, lines: ServerLogHandler) -> None:
        self._name, self._number = name, int(name.rpartition("-")[2])
        self._stop = stop
        self._keys = Keys(address.prefix)
        self._link = Link(address, stop, name)
        self.figures = InferenceCount()
        self.client_link = ClientLink(address, name, 1, stop, None, lines)
        self._clock = BeatClock()
        self._run_id = ""

    def run(self) -> None:
        """Serve until stopped."""
        before = self._link.run(lambda connection: connection.get(self._keys.beat(self._name)))
        beat = Heartbeat.read(cast("bytes | None", before))
        if beat is not None and beat.inference is not None:
            self.figures.generation = beat.inference.generation + 1
        self.client_link.progress.inference = self.figures.told()
        self.client_link.open()
        try:
            while (config := self._next_run()) is not None:
                self._run_id = config.run_id
                self._serve(config)
                self.client_link.leave_run()
            self.client_link.farewell = self.client_link.farewell or "asked to stop"
        finally:
            self.client_link.close()
            self._link.close()

    def _next_run(self) -> ServerConfig | None:
        link = self.client_link
        while not self._stop.is_set():
            link.obey(link.plan, "waiting")
            config = link.view.config
            served = config is not None and config.settings.get("inference") == "server" and config.spaces
            if served and config is not None and config.run_id != self._run_id:
                return config
            link.wait(partial(_differs, config), _LOOK_EVERY_S)
        return None

    def _serve(self, config: ServerConfig) -> None:
        """Serve one run until it is over."""
        link = self.client_link
        config = checked_config(config, link.progress)
        logging.getLogger().setLevel(config.settings["logging.level"].upper())
        spaces = SpacesSpec.from_json(config.spaces)
        if family_of(config.settings["algorithm"]) != OFF_POLICY:
            raise ClientRegistrationError("Rounds go with no inference server.", "Set inference=local.")
        link.progress.env_id, link.progress.num_envs = config.settings["env.id"], 1
        rng = np.random.default_rng(derived_seed(config.seed, self._name, config.attempt))
        run = ServedRun(config, spaces, make_policy(config.policy), self._enter(config), rng)
        logger.info("serves run %s (generation %d)", config.run_id, self.figures.generation)
        while self._goes_on(config):
            try:
                self._turn(run)
                self._link.back()
            except AWAY as error:
                self._link.lost(error)
            except redis.ResponseError as error:
                self._link.refused(error)
                self._stop.wait(_WAIT_S)
        self._cut(run, run.clients.values())

    def _enter(self, config: ServerConfig) -> Uploader:
        return self.client_link.enter(config, config.contract, int(config.settings["client.buffer_bytes"]))

    def _goes_on(self, config: ServerConfig) -> bool:
        now = self.client_link.view.config
        return not self._stop.is_set() and (now is None or now.run_id == config.run_id)

    def _turn(self, run: ServedRun) -> None:
        """Answer one batch, as soon as there are weights and the trainer takes samples."""
        link, now = self.client_link, time.monotonic()
        plan = link.plan
        link.obey(plan, "sampling" if run.header is not None else "waiting")
        if now - run.looked_at >= _LOOK_EVERY_S:
            run.looked_at = now
            self._look_at_clients(run, now)
        link.answer_of_trainer(link.view)  # raises where this server is refused
        self._swap(run, now)
        due = [client for client in run.clients.values() if client.open_steps and now >= client.due]
        self._cut(run, due)
        if run.header is None or plan.stepping is not Stepping.FREE or not run.names:
            link.wait(lambda view: view.header != run.header, _WAIT_S)
        elif not run.uploader.has_room(run.open_steps):
            self._cut(run, run.clients.values())
            link.wait(lambda _: run.uploader.has_room(0), _WAIT_S)
        elif asked := self._collect(run):
            self._answer(run, asked)

    def _swap(self, run: ServedRun, now: float) -> None:
        """Take the newest weights, between two batches, if they are due."""
        view, period_s = self.client_link.view, run.config.settings["central.broadcast_period"]
        header, tensors = view.header, view.tensors
        if header is None or tensors is None or header.run_id != run.config.run_id or header == run.header:
            return
        if now - run.swapped_at < period_s:
            return
        run.policy.load(tensors)
        if run.header is None:
            check_network(run.policy, header, run.spaces.observation)
        run.header, run.swapped_at = header, now
        self.figures.swaps += 1
        progress = self.client_link.progress
        progress.model_id, progress.update = header.model_id, header.update

    def _look_at_clients(self, run: ServedRun, now: float) -> None:
        """See who is to be served; empty the requests of those who are silent."""
        connection, keys = self._link.redis, self._keys
        servers = int(run.config.settings["central.inference_servers"])
        everybody = [name for name in clients_of(connection, keys) if not name.startswith(f"{INFERENCE}-")]
        mine = [name for name in everybody if share_of(name, servers) == self._number]
        pipeline = connection.pipeline(transaction=False)
        for name in mine:
            pipeline.get(keys.beat(name))
            pipeline.pttl(keys.beat(name))
            pipeline.get(keys.grant(name))
        read = iter(pipeline.execute())
        run.names = []
        for name, beat, left_ms, grant in zip(mine, read, read, read, strict=True):
            found, granted = Heartbeat.read(beat), Grant.read(grant)
            if found is not None:
                self._clock.observe(found, EXPIRY_S - max(left_ms, 0) / 1000, now)
            age_s = self._clock.age_s(name, now)
            if found is None or found.leaving or age_s is None or age_s > LATE_S:
                self._forget(run, name)
            elif granted is not None and granted.status == "accepted" and granted.session == found.session:
                run.names.append(name)
                run.grants[name] = granted
                pipeline.ltrim(keys.requests(name), -MOST_IN_FLIGHT, -1)
                pipeline.expire(keys.requests(name), _EXPIRY_S)
        pipeline.execute()
        self.figures.clients = len(run.clients)
        self.client_link.progress.inference = self.figures.told()

    def _forget(self, run: ServedRun, name: str) -> None:
        """Throw away what a silent client asked, and end its unroll."""
        emptied = int(self._link.redis.delete(self._keys.requests(name)))  # type: ignore[arg-type]
        self._link.redis.delete(self._keys.replies(name))
        self.figures.expired += emptied
        client = run.clients.pop(name, None)
        if client is not None:
            self._cut(run, [client])

    def _collect(self, run: ServedRun) -> list[Asked]:
        """Wait for a request, then for those of the others, no longer than a batch may wait."""
        settings, found = run.config.settings, list[Asked]()
        most, delay_s, rows = settings["central.inference_batchsize"], settings["central.inference_delay"], 0
        # Who was served longest ago comes first.
        waiting = sorted(
            run.names, key=lambda name: run.clients[name].asked_at if name in run.clients else 0.0
        )
        deadline = time.monotonic() + _WAIT_S
        while waiting and (popped := self._pop(waiting, deadline - time.monotonic(), most - rows)):
            now = time.monotonic()
            if not found:
                deadline = now + delay_s
            for name, data in popped:
                asked = self._read(run, name, data, now)
                if asked is not None:
                    found.append(asked)
                    waiting.remove(name)
                    rows += asked.client.num_envs
            # Whose last request is older than a batch may wait asks too seldom to be waited for.
            others = [run.clients[name].asked_at for name in waiting if name in run.clients]
            if found and (rows >= most or now - max(others, default=-np.inf) > delay_s):
                break
        return found

    def _pop(self, names: list[str], left_s: float, most: int) -> list[tuple[str, bytes]]:
        """Wait until one of them asks; return what some of them ask, nothing when the time is over."""
        keys = {self._keys.requests(name).encode(): name for name in names}
        connection = self._link.redis
        first = cast("tuple[bytes, bytes] | None", connection.blpop(list(keys), max(left_s, _LEAST_WAIT_S)))
        if first is None:
            return []
        others = [name for name in names if name != keys[first[0]]][: most - 1]
        pipeline = connection.pipeline(transaction=False)
        for name in others:
            pipeline.lpop(self._keys.requests(name))
        came = zip(others, pipeline.execute(), strict=True) if others else ()
        return [(keys[first[0]], first[1]), *((name, data) for name, data in came if data is not None)]

    def _read(self, run: ServedRun, name: str, data: bytes, now: float) -> Asked | None:
        """Take a request over; None for one that can't be used, or is answered already."""
        try:
            request = Request.read(data, run.spaces)
        except CodecError as error:
            self.figures.unreadable += 1
            logger.log(logging.INFO, "a request of %s can't be used: %s", name, error)
            return None
        client = run.clients.get(name)
        if client is not None and client.repeats(request):
            if request.number == client.number and client.answer:
                self.figures.repeated += 1
                self._send({name: client.answer})
            return None
        if client is None or client.num_envs != len(request.obs):
            client = self._admit(run, name, len(request.obs))
        if not client.open_steps:
            client.due = now + run.config.settings["client.segment_seconds"]
        self.figures.begun_anew += client.number < 0 < request.number
        self._push(run, client.take(request))
        client.asked_at = now
        if request.round_trip_ms:
            self.figures.took(request.round_trip_ms)
        return Asked(name, client, request)

    def _admit(self, run: ServedRun, name: str, num_envs: int) -> ServedClient:
        """Give a client numbers for its environments, in a session that has no others of the same numbers."""
        if (old := run.clients.pop(name, None)) is not None:
            self._cut(run, [old])
        first = 0
        for other in sorted(run.clients.values(), key=lambda one: one.first_env):
            if other.first_env - first >= num_envs:
                break
            first = other.first_env + other.num_envs
        longest = int(run.config.settings["client.segment_length"])
        client = ServedClient(num_envs, first, run.spaces, longest, remembered_by(run.policy))
        self._cut(run, run.clients.values())
        run.clients[name] = client
        progress = self.client_link.progress
        progress.num_envs = max(one.first_env + one.num_envs for one in run.clients.values())
        run.uploader = self._enter(run.config)
        logger.info("%s asks with %d environments", name, num_envs)
        return client

    def _answer(self, run: ServedRun, asked: list[Asked]) -> None:
        """Choose the actions of a batch, and send them."""
        header, policy, memory = run.header, run.policy, remembered_by(run.policy)
        assert header is not None
        obs = np.concatenate([one.request.obs for one in asked])
        masks = [one.request.mask for one in asked]
        mask = np.concatenate(masks) if masks[0] is not None else None
        states = [dict(one.client.memory.fields) for one in asked]
        memory.fields = {name: np.concatenate([state[name] for state in states]) for name in memory.shapes}
        action, log_prob = self._choose(run, asked, obs, mask)
        chosen = policy.to_environment(action)
        answers, begin = {}, 0
        for one, state in zip(asked, states, strict=True):
            rows = slice(begin, begin := begin + one.client.num_envs)
            one.client.memory.fields = {name: field[rows].copy() for name, field in memory.fields.items()}
            words = one.request.unroll, one.request.number, self.figures.generation
            answer = Reply(*words, header.model_id, header.update, chosen[rows]).pack()
            acted = Acted(header, one.request.obs, one.request.mask, action[rows], log_prob[rows], state)
            one.client.acted(acted, answer)
            answers[one.name] = answer
        self._send(answers)
        self.figures.chose(len(obs))

    def _choose(
        self, run: ServedRun, asked: list[Asked], obs: NDArray[Any], mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions as the grant of each client says that it explores."""
        grants = [(run.grants[one.name], one.client.num_envs) for one in asked]
        first = grants[0][0]
        if first.temperature is not None:
            return boltzmann(run.policy, obs, run.rng, first.temperature, mask)
        if first.epsilon is None:
            return run.policy.act(obs, run.rng, mask)
        rates = [epsilons(grant, num_envs) for grant, num_envs in grants]
        return epsilon_greedy(run.policy, obs, run.rng, np.concatenate(rates), mask)

    def _send(self, answers: dict[str, bytes]) -> None:
        """Give clients their answers; older ones that they did not take are gone."""
        pipeline = self._link.redis.pipeline(transaction=False)
        for name, answer in answers.items():
            key = self._keys.replies(name)
            pipeline.delete(key)
            pipeline.rpush(key, answer)
            pipeline.expire(key, _EXPIRY_S)
        pipeline.execute()

    def _cut(self, run: ServedRun, clients: Iterable[ServedClient]) -> None:
        for client in clients:
            self._push(run, client.cut())

    def _push(self, run: ServedRun, pieces: Iterable[Segments]) -> None:
        for segments in pieces:
            self.client_link.progress.stepped(segments.steps)
            chunk = pack_chunk(run.config.run_id, run.config.contract, segments)
            run.uploader.push_chunk(chunk, segments.steps)


def epsilons(grant: Grant, num_envs: int) -> NDArray[np.float64]:
    """Return the ε of each environment of a client."""
    epsilon = grant.epsilon or 0.0
    if grant.ladder is None:
        return np.full(num_envs, epsilon)
    return ladder(epsilon, grant.ladder.first, num_envs, grant.ladder.count, grant.ladder.exponent)


def run_inference_server(address: Address, name: str) -> int:
    """Serve until the process is asked to stop; call it in the main thread."""
    stop = stop_on_signals()
    setup_logging()
    lines = ServerLogHandler(address.password)
    logging.getLogger().addHandler(lines)
    server = InferenceServer(address, name, stop, lines)
    try:
        server.run()
    except Stopped:
        logger.info("stopped while the server was away")
    except SoulsGuiError as error:
        server.client_link.progress.error = error.message
        raise
    finally:
        logging.getLogger().removeHandler(lines)
    return 0
