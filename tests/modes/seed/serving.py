"""An inference server in a thread of the test, and what speaks to it by hand."""

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

import numpy as np

from soulsgui.environments.step import StepResult
from soulsgui.modes.seed.inference_server import InferenceServer
from soulsgui.sampling.heartbeat import ServerLogHandler
from soulsgui.sampling.inference_messages import ActionOutcome, ActionReply, Request
from soulsgui.wire.beats import own_instance
from soulsgui.wire.connection import Address, Stopped
from soulsgui.wire.messages.heartbeat import EXPIRY_S, Heartbeat
from soulsgui.wire.messages.session import Grant, GreedyOrder
from tests.faults.waiting import LIMIT_S, until
from tests.sampling.free_trainer import ENOUGH, FreeTrainer, PlayingClient

NAME = "inference-1"


def grant_for(session: str) -> Grant:
    return Grant(session=session, status="accepted", credit_bytes=ENOUGH, credit_entries=ENOUGH, epsilon=0.0)


class HandTrainer(FreeTrainer):
    """The trainer of a run with one inference server: what is received came from that one."""

    def __init__(self, address: Address, **changed: Any) -> None:
        super().__init__(address, **({"inference": "server", "central__broadcast_period": 0.0} | changed))
        self.client = NAME
        self._granted = ""
        self.hand_clients: list[HandClient] = []

    def let_in(self) -> bool:
        """Let the newest session of the server send, and clients beat; return whether there is one."""
        for client in self.hand_clients:
            if not client.silent:
                client.beat()
        sessions = self.sessions()
        if sessions and sessions[-1] != self._granted:
            self.grant(None)
            self._granted = sessions[-1]
        return bool(sessions)

    def until(self, look: Callable[[], Any], what: str) -> None:
        """As `until`; the inference server is let in meanwhile."""
        until(lambda: self.let_in() and look(), what)


def let_play(trainer: HandTrainer, playing: PlayingClient, order: GreedyOrder | None = None) -> None:
    """Let a client of a process play, once it has begun a session; perhaps with an evaluation to play."""
    trainer.connection.hset(trainer.keys.clients, "c", "{}")
    until(lambda: playing.progress.session or playing.failure, "its hello")
    if playing.failure is not None:
        raise playing.failure
    grant = grant_for(playing.progress.session).model_copy(update={"greedy": order})
    trainer.connection.set(trainer.keys.grant("c"), grant.to_json())


class ServingThread:
    """An inference server; it is ended with the block."""

    def __init__(self, address: Address) -> None:
        self._stop = threading.Event()
        self.server = InferenceServer(address, NAME, self._stop, ServerLogHandler(""))
        self._thread = threading.Thread(target=self._run, name=NAME)
        self._failure: BaseException | None = None

    def _run(self) -> None:
        try:
            self.server.run()
        except Stopped:
            pass
        except BaseException as error:
            logging.getLogger(__name__).exception("the inference server failed")
            self._failure = error

    def __enter__(self) -> "ServingThread":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join(LIMIT_S)
        assert not self._thread.is_alive()
        if self._failure is not None:
            raise self._failure


class HandClient:
    """A client whose beat, grant and requests are written by hand."""

    def __init__(self, trainer: HandTrainer, name: str, num_envs: int = 2, unroll: str = "u") -> None:
        self.trainer, self.name, self.num_envs, self.unroll = trainer, name, num_envs, unroll
        self._counter = 0
        self.silent = False
        trainer.hand_clients.append(self)
        keys, connection = trainer.keys, trainer.connection
        self.requests, self.replies = keys.requests(name), keys.replies(name)
        connection.set(keys.grant(name), grant_for("1-1").to_json())
        self.beat()
        connection.hset(keys.clients, name, "{}")  # who is listed and does not beat is silent

    def beat(self, **fields: Any) -> None:
        self._counter += 1
        told = {"num_envs": self.num_envs, "session": "1-1"} | fields
        beat = Heartbeat(client=self.name, instance=own_instance(), counter=self._counter, **told)
        self.trainer.connection.set(self.trainer.keys.beat(self.name), beat.to_json(), ex=EXPIRY_S)

    def request(self, number: int, begins: bool = False, follows: int | None = None, **outcome: Any) -> bytes:
        """Return a request; observations are numbered as requests are."""
        count = self.num_envs
        obs = np.full((count, 2), number, np.float32)
        told = {name: np.zeros(count, np.bool_) for name in ("terminated", "truncated", "by_human")}
        told |= {"valid": np.ones(count, np.bool_), "reward": np.full(count, number, np.float32)} | outcome
        result = StepResult(next_obs=obs, reset_obs=obs, **told)
        ended = None if begins or not number else ActionOutcome(result, told["valid"])
        return Request(self.unroll, number, obs, None, ended, 1.0, follows).pack()

    def send(self, request: bytes) -> None:
        self.trainer.connection.rpush(self.requests, request)

    def answer(self) -> bytes:
        """Wait for the next answer; the inference server is let in meanwhile."""
        found: list[bytes] = []

        def came() -> bool:
            answer = self.trainer.connection.lpop(self.replies)
            found.extend([answer] if isinstance(answer, bytes) else [])
            return bool(found)

        self.trainer.until(came, "an answer")
        return found[0]

    def ask(self, number: int, begins: bool = False, **outcome: Any) -> ActionReply:
        self.send(self.request(number, begins, **outcome))
        return ActionReply.read(self.answer())
