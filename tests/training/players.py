"""A client for tests, moved by hand: it says and sends exactly what a test wants."""

from typing import Any

import numpy as np
import redis

from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import TERMINATED, TRUNCATED, Segments
from soulsgui.policies.policy import make_policy
from soulsgui.wire.codec import WeightsHeader, unpack_weights
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.chunk import digest_number, pack_chunk
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.server_config import ServerConfig
from soulsgui.wire.messages.session import Grant, RoundShare, SessionHello


def played_with(header: WeightsHeader, segments: int = 2) -> dict[str, Any]:
    """Return the columns of segments that were played with these weights."""
    return {
        "model_id_first": np.full(segments, header.model_id),
        "model_id_last": np.full(segments, header.model_id),
        "digest": np.full(segments, digest_number(header.digest), np.uint64),
    }


class Player:
    """One client of a run, put on the roster as the runner would; what it sees are small numbers around 0."""

    def __init__(
        self, connection: redis.Redis, keys: Keys, name: str = "c", num_envs: int = 2, seed: int = 1
    ) -> None:
        self.connection = connection
        self.keys = keys
        self.name = name
        self.num_envs = num_envs
        self.session = ""
        self.number = 0
        self._counter = 0
        self._episode = 0
        self._rng = np.random.default_rng(seed)
        connection.hset(keys.clients, name, "{}")

    def config(self) -> ServerConfig | None:
        return ServerConfig.read(self.connection.get(self.keys.config))

    def grant(self) -> Grant | None:
        grant = Grant.read(self.connection.get(self.keys.grant(self.name)))
        return grant if grant is not None and grant.session == self.session else None

    def granted(self) -> Grant:
        grant = self.grant()
        assert grant is not None
        return grant

    def granted_before(self, **told: Any) -> None:
        """Let an earlier trainer have granted something to the present session."""
        grant = Grant(**({"session": self.session, "status": "accepted"} | told))
        self.connection.set(self.keys.grant(self.name), grant.to_json())

    def share(self) -> RoundShare | None:
        """Its part of the present round, once the weights are there too."""
        grant, weights = self.grant(), self.connection.get(self.keys.weights)
        if grant is None or grant.round is None or weights is None:
            return None
        return grant.round if unpack_weights(weights)[0].model_id == grant.round.round_id else None

    def weights(self) -> tuple[WeightsHeader, dict[str, Any]]:
        return unpack_weights(self.connection.get(self.keys.weights))

    def hello(self, **changed: Any) -> None:
        config = self.config()
        said = self._said() | {"contract": config.contract if config else ""} | changed
        entry = self.connection.xadd(self.keys.chunks(self.name), {"hello": SessionHello(**said).to_json()})
        self.session, self.number = entry.decode(), 0

    def beat(self, **changed: Any) -> None:
        self._counter += 1
        said = {"counter": self._counter, "phase": "sampling", "session": self.session} | changed
        beat = Heartbeat(**(self._said() | said))
        self.connection.set(self.keys.beat(self.name), beat.to_json(), ex=EXPIRY_S)

    def _said(self) -> dict[str, Any]:
        config = self.config()
        run_id = config.run_id if config else ""
        return {"client": self.name, "instance": Instance(), "run_id": run_id, "num_envs": self.num_envs}

    def deliver(self, steps_per_env: int, **changed: Any) -> None:
        self.send(self.packed(self.play(steps_per_env, **changed)))

    def packed(self, made: Segments) -> bytes:
        config = self.config()
        return pack_chunk(config.run_id, config.contract, made)

    def send(self, payload: bytes, number: int | None = None) -> None:
        """Send a chunk, under the next number or a given one."""
        if number is None:
            number, self.number = self.number, self.number + 1
        self.connection.xadd(self.keys.chunks(self.name), {"c": payload, "n": number})

    def play(self, steps_per_env: int, **changed: Any) -> Segments:
        """Return one segment per environment, acted on with the newest weights; with columns changed."""
        config = self.config()
        header, tensors = self.weights()
        policy = make_policy(config.policy)
        shape = SpacesSpec.from_json(config.spaces).observation.shape
        policy.load(tensors)
        count, steps = self.num_envs, self.num_envs * steps_per_env
        obs = self._rng.normal(0, 0.05, (steps + count, *shape)).astype(np.float32)
        acted_on = np.delete(obs, [(n + 1) * (steps_per_env + 1) - 1 for n in range(count)], axis=0)
        action, log_prob = policy.act(acted_on, self._rng)
        self._episode += 1
        columns: dict[str, Any] = {
            "env_index": np.arange(count, dtype=np.int32),
            "episode": np.full(count, self._episode, np.int64),
            "first_step": np.zeros(count, np.int64),
            "length": np.full(count, steps_per_env, np.int32),
            **played_with(header, count),
            "flags": np.array([(TERMINATED, TRUNCATED, 0)[n % 3] for n in range(count)], np.uint8),
            "obs": obs,
            "action": action,
            "reward": np.ones(steps, np.float32),
            "log_prob": log_prob,
        }
        return Segments(**(columns | changed))
