"""One client of the real system, greedy in LunarLander, against a bare loop of the same shape.

Ours steps the environments, checks, cuts, packs and uploads, beside server, trainer, telemetry and runner on
the same cores. The bare loop is the same policy and the same environments in a process of their own, alone.
"""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from benchmarks.report import Measured, beside, run
from soulsgui.environments.make import make_vector
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.wire.codec import unpack_weights
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.server_config import ServerConfig
from tests.end_to_end.server import RunningServer

ENV = "LunarLander-v3"
SHAPES = (1, 8, 64)
_SETTINGS = {
    "env.id": ENV,
    "stop.mean_return": "null",
    "dqn.epsilon": 0,
    "dqn.replay_ratio": 0.1,  # the learner is not to be what limits it
    "network.hidden_sizes": "[64, 64]",
}
KEYS = Keys("souls:")


@contextmanager
def training(num_envs: int) -> Iterator[RunningServer]:
    """A server with one client of so many environments, after its first updates."""
    words = ["--preset", "cartpole_dqn", "--local-clients", "1"]
    for key, value in {**_SETTINGS, "env.num_envs": num_envs}.items():
        words += ["--set", f"{key}={value}"]
    with tempfile.TemporaryDirectory() as folder:
        server = RunningServer(Path(folder), words, draws=True)
        try:
            server.wait_updates(20)
            yield server
        finally:
            server.close()


class Played:
    """Both sides, once.

    Args:
        num_envs: Environments side by side.
        seconds: How long to measure each.
    """

    def __init__(self, num_envs: int, seconds: float) -> None:
        self._num_envs, self._seconds = num_envs, seconds
        self._policy: NumpyMLPPolicy | None = None

    def through_the_system(self) -> float:
        """Return the client's environment steps per second."""
        with training(self._num_envs) as server:
            redis = server.redis()
            name = server.status().clients[0].id
            config = ServerConfig.read(redis.get(KEYS.config))
            assert config is not None
            self._policy = NumpyMLPPolicy(config.policy)
            blob = redis.get(KEYS.weights)
            assert isinstance(blob, bytes)
            self._policy.load(unpack_weights(blob)[1])

            def steps() -> int:
                beat = Heartbeat.read(redis.get(KEYS.beat(name)))
                assert beat is not None
                return beat.env_steps

            before, began = steps(), time.perf_counter()
            time.sleep(self._seconds)
            return (steps() - before) / (time.perf_counter() - began)

    def bare(self) -> float:
        """Return the environment steps per second of policy and environments alone."""
        assert self._policy is not None
        vector = make_vector(ENV, {}, [], self._num_envs)
        obs, _ = vector.reset(seed=0)
        count, began = 0, time.perf_counter()
        while time.perf_counter() - began < self._seconds:
            obs, _, _, _, _ = vector.step(self._policy.greedy(np.asarray(obs)))
            count += self._num_envs
        vector.close()
        return count / self._seconds


def measure(quick: bool) -> list[Measured]:
    """Measure one, 8 and 64 environments."""
    found = []
    for num_envs in SHAPES:
        played = Played(num_envs, 3.0 if quick else 8.0)
        name = f"one client, {ENV} × {num_envs}, greedy"
        repeats = 1 if quick else 5
        found.append(beside(name, "steps/s", played.through_the_system, "bare loop", played.bare, repeats))
    return found


if __name__ == "__main__":
    run(measure)
