"""The trainer of an asynchronous run, moved by hand, and a client in a thread that plays for it."""

import json
import os
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import redis

from soulsgui.config.layers import combine
from soulsgui.config.parsing import Layer
from soulsgui.config.schema import client_settings
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.errors import ProcessFault
from soulsgui.experience.segments import Segments
from soulsgui.policies.numpy_mlp import MLPPolicySpec
from soulsgui.sampling.client import Client, ClientOptions
from soulsgui.sampling.link import ClientLink
from soulsgui.system import process_identity
from soulsgui.training.publisher import Publisher, TrainingPosition
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.connection import Address, connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.chunk import digest_number
from soulsgui.wire.messages.chunk_decoder import ChunkForm
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.owner import ClientFolder, OwnerState, OwnerWish
from soulsgui.wire.messages.server_config import ServerConfig, contract_hash, family_of, state_of
from soulsgui.wire.messages.session import Episode, Grant, SessionHello, Wish
from tests.environments.toys import Counter
from tests.faults.waiting import LIMIT_S, until
from tests.wire.chunks import opened_chunk

ENOUGH = 2**40
"""Credit that no test uses up."""

LENGTH = 900
"""Steps of an episode, where a test does not say otherwise."""

ENV_ID = "tests.environments.toys:ToysCounter-v0"
SPACES = SpacesSpec.from_env(Counter.observation_space, Counter.action_space)
POLICY = MLPPolicySpec((2,), 2, 0, (3,), "relu", normalise=False)


def weights_of(model_id: int) -> dict[str, Any]:
    """Return weights whose best action is 0 where the id is even, and 1 where it is odd."""
    tensors = {name: np.zeros(shape, np.float32) for name, shape in POLICY.tensor_shapes().items()}
    tensors["policy.1.bias"][model_id % 2] = 1.0
    tensors["policy.0.bias"][:] = model_id  # so that each has a digest of its own
    return tensors


def beat_of(connection: redis.Redis, keys: Keys, client: str = "c") -> Heartbeat | None:
    return Heartbeat.read(connection.get(keys.beat(client)))


def wish_for(connection: redis.Redis, keys: Keys, state: str, client: str = "c") -> Wish:
    """Want something of a client, as the runner does."""
    wish = Wish.model_validate({"command_id": uuid.uuid4().hex, "state": state})
    connection.set(keys.wish(client), wish.to_json())
    connection.publish(keys.wake_up(client), wish.command_id)
    return wish


def wish_answered(connection: redis.Redis, keys: Keys, state: str) -> None:
    """Want something of the client, and wait for its answer."""
    wish = wish_for(connection, keys, state)

    def answered() -> bool:
        beat = beat_of(connection, keys)
        return beat is not None and beat.answered is not None and beat.answered.command_id == wish.command_id

    until(answered, f"the answer to {state}")


class OwnersFolder(ClientFolder):
    """The owner's side of the folder of client mode; this process is its runner."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        root.mkdir(exist_ok=True)
        self.runner.write_text(json.dumps(process_identity(os.getpid())))

    def want(self, state: OwnerState) -> None:
        aside = self.root / "aside"
        aside.write_text(OwnerWish(state=state).to_json())
        aside.replace(self.wish)


class Received(NamedTuple):
    """A chunk as it stands on the stream."""

    session: str
    number: int
    segments: Segments


class FreeTrainer:
    """What the server says to one client, and what it got of it; settings by dotted key, `__` for the dot.

    Other `spaces`, `policy` and `weights` (of a model id) are those of the next run that is begun.
    """

    def __init__(self, address: Address, **changed: Any) -> None:
        self.keys = Keys(address.prefix)
        self.client = "c"
        self.spaces, self.policy, self.weights = SPACES, POLICY.to_json(), weights_of
        # It waits for an answer however short a test makes the patience of clients.
        self.connection = connect(address, "test-trainer", LIMIT_S)
        self._entries = self.connection.xrange
        self.wish = partial(wish_answered, self.connection, self.keys)
        settings = {"algorithm": "dqn", "env.id": ENV_ID, "env.kwargs": {"length": LENGTH}, "env.num_envs": 3}
        self.settings = settings | {key.replace("__", "."): value for key, value in changed.items()}
        self.headers: dict[int, WeightsHeader] = {}
        self._opened: dict[bytes, Segments] = {}
        self.begin_run("run-1")

    def begin_run(self, run_id: str, attempt: int = 1) -> None:
        """Tell of another run, or of another attempt of one, from the next publish on."""
        told = client_settings(combine([Layer("test", self.settings)]))
        played = told["env.id"], told["env.kwargs"], told["env.wrappers"], self.spaces.to_json()
        self.config = ServerConfig(
            run_id=run_id,
            attempt=attempt,
            contract=contract_hash(*played, family_of(told["algorithm"]), state_of(self.policy)),
            spaces=self.spaces.to_json(),
            policy=self.policy,
            settings=told,
        )
        self.publisher = Publisher(self.keys, self.config)

    def publish(self, model_id: int) -> None:
        """Publish weights, with what the run is."""
        header = self.publisher.prepare(TrainingPosition(model_id, model_id, 0, 0), self.weights(model_id))
        self.headers[model_id] = header
        self.publisher.publish(self.connection, {})

    def hello(self) -> str:
        """Return the newest session that the client began, once it has."""
        until(self.sessions, "a hello")
        return self.sessions()[-1]

    def sessions(self) -> list[str]:
        return [
            entry.decode()
            for entry, fields in self._entries(self.keys.chunks(self.client))
            if b"hello" in fields
        ]

    def hellos(self) -> list[SessionHello]:
        said = [fields.get(b"hello") for _, fields in self._entries(self.keys.chunks(self.client))]
        return [hello for text in said if (hello := SessionHello.read(text)) is not None]

    def grant(self, steps: int | None, session: str = "", **changed: Any) -> None:
        """Let the newest session send so many steps in all."""
        fields: dict[str, Any] = {
            "session": session or self.hello(),
            "status": "accepted",
            "credit_entries": ENOUGH,
            "credit_bytes": ENOUGH,
            "credit_steps": steps,
            "epsilon": 0.0,
        }
        self.publisher.tell_all(self.connection, {self.client: Grant(**(fields | changed))})

    def received(self) -> list[Received]:
        box, action = self.spaces.observation, self.spaces.action
        form = ChunkForm(
            self.config.run_id,
            self.config.contract,
            box.shape,
            box.dtype,
            self.spaces.masked_actions,
            state_of(self.config.policy),
            action.shape,
            action.dtype,
        )
        found, session = [], ""
        for entry, fields in self._entries(self.keys.chunks(self.client)):
            if b"hello" in fields:
                session = entry.decode()
                continue
            payload = fields[b"c"]
            if payload not in self._opened:  # this is asked again and again while a test waits
                self._opened[payload] = opened_chunk(payload, form)
            found.append(Received(session, int(fields[b"n"]), self._opened[payload]))
        return found

    def steps(self) -> int:
        return sum(one.segments.steps for one in self.received())

    def episodes(self) -> list[Episode]:
        told = [fields.get(b"e") for _, fields in self._entries(self.keys.episodes("c"))]
        return [episode for text in told if (episode := Episode.read(text)) is not None]

    def beat(self) -> Heartbeat | None:
        return beat_of(self.connection, self.keys)

    def close(self) -> None:
        self.connection.close()


class PlayingClient:
    def __init__(
        self,
        address: Address,
        owner: ClientFolder | None = None,
        name: str = "c",
        options: ClientOptions = ClientOptions(),
    ) -> None:
        self._options = options
        self.stop = threading.Event()
        self.link = ClientLink(address, name, 1, self.stop, owner)
        self.progress = self.link.progress
        self.failure: BaseException | None = None
        self.hangs: list[ProcessFault] = []
        self._thread = threading.Thread(target=self._run, name="client")
        self._thread.start()

    def _run(self) -> None:
        try:
            self.link.open()
            Client(self.link, self.stop, self._options, self.hangs.append).run()
        except BaseException as error:
            self.failure = error
        finally:
            self.link.close()

    def until_phase(self, phase: str) -> None:
        until(lambda: self.progress.phase == phase or self.failure, f"{phase}, not {self.progress.phase}")
        if self.failure is not None:
            raise self.failure

    def until_dropped(self, steps: int) -> None:
        until(lambda: self.progress.dropped >= steps, f"{steps} steps are dropped")

    def join(self) -> None:
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()

    def end(self) -> None:
        self.stop.set()
        self.join()


@contextmanager
def playing_client(
    address: Address, owner: ClientFolder | None = None, name: str = "c"
) -> Iterator[PlayingClient]:
    """Play until the block ends; what the client raised is raised here."""
    client = PlayingClient(address, owner, name)
    try:
        yield client
    finally:
        client.end()
    if client.failure is not None:
        raise client.failure


def places(segments: Segments) -> list[tuple[int, int, int]]:
    """Return (environment, episode, step) of every step, in order."""
    names = "env_index", "episode", "first_step", "length"
    rows = zip(*(getattr(segments, name).tolist() for name in names), strict=True)
    return [(env, episode, first + step) for env, episode, first, length in rows for step in range(length)]


def stored_steps(received: list[Received]) -> set[tuple[int, int, int]]:
    """Return (environment, episode, step) of all that came, after checking that nothing came twice."""
    found = [place for one in received for place in places(one.segments)]
    assert len(found) == len(set(found))
    return set(found)


def check_whole(received: list[Received]) -> None:
    """Check that of each episode every step up to the last one came, and that an end begins the next one."""
    steps = stored_steps(received)
    last = {(env, episode): step for env, episode, step in sorted(steps)}
    assert sum(step + 1 for step in last.values()) == len(steps)
    for env, episode in last:
        assert episode == 0 or (env, episode - 1) in last


def check_weights(trainer: FreeTrainer, received: list[Received]) -> None:
    """Check that each segment was played with the weights that it names, greedily."""
    for one in received:
        segments = one.segments
        np.testing.assert_array_equal(segments.model_id_first, segments.model_id_last)
        digests = [digest_number(trainer.headers[int(id_)].digest) for id_ in segments.model_id_first]
        assert segments.digest.tolist() == digests
        actions = np.repeat(segments.model_id_first % 2, segments.length)
        np.testing.assert_array_equal(segments.action, actions)


def settings(**changed: Any) -> pytest.MarkDecorator:
    """Change settings of the trainer of a test."""
    return pytest.mark.parametrize("trainer", [changed], indirect=True, ids=[""])
