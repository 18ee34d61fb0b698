"""Central inference: actions a second, and how long a client waits for its answer.

Clients are processes that speak the protocol and step nothing; the inference server is the real one. Beside
it, in the same run, a bare sketch over Redis lists (no checks, no segments, no weights), and one plain round
trip. Then real actors step CartPole for a trainer that never learns, without a policy and with one.

python -m benchmarks.inference [--json] [--quick]
"""

import multiprocessing
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete

from benchmarks.report import Measured, beside, run
from soulsgui.config.layers import as_settings, combine
from soulsgui.config.parsing import Layer
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import client_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import StepResult
from soulsgui.modes.local import local_server
from soulsgui.modes.seed.inference_server import run_inference_server
from soulsgui.policies.numpy_mlp import MLPPolicySpec, NumpyMLPPolicy
from soulsgui.sampling.client import ClientOptions, run_client
from soulsgui.sampling.inference_messages import ActionOutcome, Request
from soulsgui.training.nodes import DQNTrainingNode
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address, Link, connect
from soulsgui.wire.keys import EntryId, Keys
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import HELLO_FIELD, Grant
from tests.servers import running_server

SHAPES = ((1, 1, 1), (4, 1, 1), (4, 1, 2), (4, 1, 4), (4, 8, 8), (4, 8, 32), (2, 16, 32))
SERVER = "inference-1"
SPACES = SpacesSpec.from_env(Box(-1.0, 1.0, (8,)), Discrete(4))
POLICY = MLPPolicySpec((8,), 4, 0, (64, 64), "relu", normalise=False)
SKETCH = "sketch"
_ENOUGH = 2**40

Times = list[float]
Shape = tuple[int, int, int]
"""Clients, environments of each, and the observations that fill a batch."""


def weights() -> dict[str, Any]:
    """Return weights at random."""
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in POLICY.tensor_shapes().items()}


def ask(address: Address, client: str, num_envs: int, seconds: float) -> Times:
    """Be a client for so long; return the seconds that each answer took."""
    link, keys = Link(address, threading.Event(), client), Keys(address.prefix)
    obs = np.zeros((num_envs, 8), np.float32)
    nothing, valid = np.zeros(num_envs, np.bool_), np.ones(num_envs, np.bool_)
    result = StepResult(obs, np.zeros(num_envs, np.float32), nothing, nothing, valid, obs, nothing)
    sketched = address.prefix.startswith(SKETCH)
    took: Times = []
    until = float("inf")
    number = 0
    while time.monotonic() < until:
        began = time.perf_counter()
        outcome = ActionOutcome(result, valid) if number else None
        request = obs.tobytes() if sketched else Request("u", number, obs, None, outcome, 0.0).pack()
        if sketched:
            pipeline = link.redis.pipeline(transaction=False)
            pipeline.rpush(keys.requests(client), request)
            pipeline.blpop([keys.replies(client)], 4.0)
            answer = pipeline.execute()[1]
        else:
            commands = ("RPUSH", keys.requests(client), request), ("BLPOP", keys.replies(client), 4.0)
            answer = link.exchange(*commands)[1]
        took.append(time.perf_counter() - began)
        if answer is None:
            continue
        number += 1
        if until == float("inf"):  # the first answer waits for the server
            until, took = time.monotonic() + seconds, []
    link.close()
    return took


def sketch(address: Address, clients: Sequence[str], batch: int) -> None:
    """Answer requests as plainly as it can be done, until nobody asks and the key of the run is there."""
    connection, keys = connect(address), Keys(address.prefix)
    policy, rng = NumpyMLPPolicy(POLICY.to_json()), np.random.default_rng(0)
    policy.load(weights())
    names = {keys.requests(client): keys.replies(client) for client in clients}
    while True:
        first = connection.blpop(list(names), 0.5)
        if first is None and connection.exists(keys.config):
            break
        if first is None:
            continue
        asked = [(first[0].decode(), first[1])]
        others = [name for name in names if name != asked[0][0]][: batch - 1]
        pipeline = connection.pipeline(transaction=False)
        for name in others:
            pipeline.lpop(name)
        asked += [(name, data) for name, data in zip(others, pipeline.execute(), strict=True) if data]
        obs = [np.frombuffer(data, np.float32).reshape(-1, 8) for _, data in asked]
        action, _ = policy.act(np.concatenate(obs), rng)
        begin = 0
        for (name, _), rows in zip(asked, obs, strict=True):
            pipeline.rpush(names[name], action[begin : begin + len(rows)].tobytes())
            begin += len(rows)
        pipeline.execute()
    connection.close()


class Trainer:
    """Lets clients and the inference server in, and throws away what comes."""

    def __init__(
        self, address: Address, clients: Sequence[str], num_envs: int, central: Mapping[str, Any]
    ) -> None:
        self.connection, self.keys = connect(address), Keys(address.prefix)
        settings = {"algorithm": "dqn", "inference": "server", "central": dict(central)}
        told = client_settings(combine([Layer("bench", settings)]))
        config = ServerConfig(
            run_id="bench",
            attempt=1,
            contract="c",
            spaces=SPACES.to_json(),
            policy=POLICY.to_json(),
            settings=told,
        )
        publisher = Publisher(self.keys, config)
        publisher.prepare(TrainingPosition(1, 0, 0, 0), weights())
        publisher.publish(self.connection, {})
        self._clients, self._num_envs, self._counter = clients, num_envs, 0
        for client in clients:
            self.connection.hset(self.keys.clients, client, "{}")
            self._grant(client, "1-1")
        self.turn()

    def turn(self) -> None:
        """Beat for the clients; let the newest session of the inference server in."""
        self._counter += 1
        for client in self._clients:
            told = {"num_envs": self._num_envs, "session": "1-1"}
            beat = Heartbeat(client=client, instance=own_instance(), counter=self._counter, **told)
            self.connection.set(self.keys.beat(client), beat.to_json(), ex=EXPIRY_S)
        entries = self.connection.xrange(self.keys.chunks(SERVER))
        for entry, fields in entries:
            if HELLO_FIELD in fields:
                self._grant(SERVER, str(EntryId.parse(entry)))
        if len(entries) > 1:  # those that were looked at: a hello may have come meanwhile
            self.connection.xdel(self.keys.chunks(SERVER), *(entry for entry, _ in entries))

    def _grant(self, client: str, session: str) -> None:
        grant = Grant(
            session=session, status="accepted", credit_bytes=_ENOUGH, credit_entries=_ENOUGH, epsilon=0.1
        )
        self.connection.set(self.keys.grant(client), grant.to_json())
        self.connection.publish(self.keys.wake_up(client), "")


def _play(
    pool: ProcessPoolExecutor,
    address: Address,
    shape: Shape,
    seconds: float,
    turn: Callable[[], None],
) -> tuple[float, Times]:
    """Return the actions a second of all clients, and what the answers took."""
    count, num_envs, _ = shape
    waiting = [pool.submit(ask, address, f"c{number}", num_envs, seconds) for number in range(count)]
    while not all(one.done() for one in waiting):
        turn()
        time.sleep(0.1)
    took = [time_s for one in waiting for time_s in one.result()]
    return num_envs * len(took) / seconds, took


def _ours(
    pool: ProcessPoolExecutor, address: Address, shape: Shape, seconds: float, **central: Any
) -> tuple[float, Times]:
    count, num_envs, batch = shape
    with tempfile.TemporaryDirectory() as folder:
        address.write(Path(folder) / "redis.json")
        words = ["inference", "--name", SERVER, "--server-file", str(Path(folder) / "redis.json")]
        clients = [f"c{number}" for number in range(count)]
        trainer = Trainer(address, clients, num_envs, {"inference_batchsize": batch, **central})
        server = subprocess.Popen(
            [sys.executable, "-m", "soulsgui", *words], stderr=(Path(folder) / "log").open("wb")
        )
        try:
            return _play(pool, address, shape, seconds, trainer.turn)
        finally:
            server.terminate()
            server.wait()
            trainer.connection.close()


def _sketched(
    pool: ProcessPoolExecutor, address: Address, shape: Shape, seconds: float
) -> tuple[float, Times]:
    count, num_envs, batch = shape
    clients = [f"c{number}" for number in range(count)]
    serving = pool.submit(sketch, address, clients, batch // num_envs)
    found = _play(pool, address, shape, seconds, lambda: None)
    connection = connect(address)
    connection.set(Keys(address.prefix).config, "")
    connection.close()
    serving.result()
    return found


def _round_trip(address: Address) -> float:
    connection, took = connect(address), []
    for _ in range(2000):
        began = time.perf_counter()
        connection.ping()
        took.append(time.perf_counter() - began)
    connection.close()
    return statistics.median(took)


def measure(quick: bool) -> Iterator[Measured]:
    """Measure every shape beside the sketch, in turn."""
    seconds, repeats = (1.0, 1) if quick else (2.0, 5)
    with (
        tempfile.TemporaryDirectory() as folder,
        running_server(Path(folder)) as server,
        ProcessPoolExecutor(6, multiprocessing.get_context("spawn")) as pool,
    ):
        for shape in SHAPES:
            ours, full, limits, half_ms, most_ms, plain = [], [], [], [], [], []
            for turn in range(repeats):
                name = f"{'x'.join(map(str, shape))}.{turn}:"
                # As the sketch, which waits for nobody; then as shipped.
                ours_at = _with_prefix(server, f"ours.{name}")
                rate, took = _ours(pool, ours_at, shape, seconds, inference_delay=0.0)
                full.append(_ours(pool, _with_prefix(server, f"full.{name}"), shape, seconds)[0])
                limit, _ = _sketched(pool, _with_prefix(server, f"{SKETCH}.{name}"), shape, seconds)
                ours.append(rate)
                limits.append(limit)
                half_ms.append(1000 * float(np.percentile(took, 50)))
                most_ms.append(1000 * float(np.percentile(took, 99)))
                plain.append(1000 * _round_trip(server))
            words = f"{shape[0]} clients × {shape[1]}, batches of {shape[2]}"
            yield _figure(f"{words}: actions", "1/s", ours, "bare sketch", limits)
            yield _figure(f"{words}: actions in full batches", "1/s", full, "bare sketch", limits)
            yield _figure(f"{words}: p50 of an answer", "ms", half_ms, "round trip (PING)", plain)
            yield _figure(f"{words}: p99 of an answer", "ms", most_ms, "round trip (PING)", plain)
    for actors in (1, 2, 4):
        central = partial(environment_steps, actors, "server", seconds)
        local = partial(environment_steps, actors, "local", seconds)
        name = f"{actors} actors × 4: environment steps"
        yield beside(name, "1/s", central, "with policies of their own", local, repeats)


def environment_steps(actors: int, inference: str, seconds: float) -> float:
    """Return the environment steps a second that a trainer takes in."""
    settings = as_settings(
        {
            "algorithm": "dqn",
            "inference": inference,
            "central.inference_batchsize": 4 * actors,
            "dqn": {"buffer_size": 1_000_000, "learning_starts": 1_000_000},
        }
    )
    stop = threading.Event()
    with local_server(stop) as (folder, processes, address):
        node = DQNTrainingNode(settings, RunFolder(folder / "run"), address, stop)
        if inference == "server":
            processes.start(SERVER, run_inference_server, address, SERVER)
        for number in range(actors):
            processes.start(f"c{number}", run_client, address, f"c{number}", ClientOptions(num_envs=4))
        training = threading.Thread(target=node.run)
        training.start()
        try:
            while node.training.env_steps < 200 * actors:
                time.sleep(0.01)
            before, began = node.training.env_steps, time.monotonic()
            time.sleep(seconds)
            return (node.training.env_steps - before) / (time.monotonic() - began)
        finally:
            stop.set()
            training.join()


def _with_prefix(address: Address, prefix: str) -> Address:
    return Address(address.host, address.port, address.password, prefix)


def _figure(name: str, unit: str, ours: Times, reference_name: str, reference: Times) -> Measured:
    value, limit = statistics.median(ours), statistics.median(reference)
    return Measured(name, value, unit, limit, reference_name, value / limit, len(ours))


if __name__ == "__main__":
    run(measure)
