"""Playing without a policy: an inference server chooses actions, and makes segments of what follows."""

import logging
import math
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import redis
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.environments.step import StepResult
from soulsgui.errors import ClientRegistrationError, printable
from soulsgui.experience.segments import Segments
from soulsgui.sampling.downloader import ServerView
from soulsgui.sampling.greedy import GreedyEvaluation
from soulsgui.sampling.inference_messages import ActionOutcome, ActionReply, Request, checksum
from soulsgui.sampling.link import ClientLink
from soulsgui.sampling.sampling_modes import RolloutPlan
from soulsgui.wire.codec import CodecError
from soulsgui.wire.connection import AWAY, Address, Link
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.session import Grant

logger = logging.getLogger(__name__)

_AGAIN_AFTER_S = 1.0
_LOOK_EVERY_S = 0.25


class Interrupted(Exception):
    """Something else is wanted while an answer is waited for; the same request is waited for afterwards."""


class RemotePolicy:
    """Asks the inference server of this client, and tells it what followed: policy and recorder at once.

    It is the `recorder` and the `act` of a `Rollout`. A request without an answer is repeated each second:
    the server knows it by its number.
    """

    length, capacity = 0, 2**62  # nothing is collected here

    def __init__(self, address: Address, link: ClientLink, stop: threading.Event) -> None:
        keys, client = Keys(address.prefix), link.progress.client
        self._requests, self._replies = keys.requests(client), keys.replies(client)
        self._client, self._stop = link, stop
        self._link = Link(address, stop, "inference")
        self.may_wait: Callable[[], bool] = lambda: not stop.is_set()
        self.generation: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._unroll = secrets.token_hex(8)
        self._number = 0
        self._pending: bytes | None = None
        self._outcome: ActionOutcome | None = None
        self._took_ms = 0.0
        self._follows: int | None = None

    def act(
        self, obs: NDArray[Any], _rng: np.random.Generator, mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return what the environments take at observations, as `rollout.Act`; `Interrupted` as it says."""
        if self._pending is None:
            told = self._outcome, self._took_ms, self._follows
            self._pending = Request(self._unroll, self._number, obs, mask, *told).pack()
        began = time.perf_counter()
        reply = self._answer(len(obs))
        self._took_ms = 1000 * (time.perf_counter() - began)
        self._pending, self._outcome = None, None
        self._number += 1
        self._note(reply)
        return reply.action, np.zeros(len(obs), np.float32)

    def _answer(self, count: int) -> ActionReply:
        """Ask, and wait for the answer."""
        asked_at = -math.inf
        while self.may_wait():
            commands: list[tuple[Any, ...]] = [("BLPOP", self._replies, _LOOK_EVERY_S)]
            if time.monotonic() - asked_at >= _AGAIN_AFTER_S:
                if math.isfinite(asked_at):
                    self._client.set_phase("waiting")
                commands.insert(0, ("RPUSH", self._requests, self._pending))
                asked_at = time.monotonic()
            try:
                *_, found = self._link.exchange(*commands)
                self._link.back()
            except AWAY as error:
                self._link.lost(error)
                asked_at = -math.inf
                continue
            except redis.exceptions.NoPermissionError:
                raise
            except redis.ResponseError as error:
                self._link.refused(error)
                self._stop.wait(_LOOK_EVERY_S)
                continue
            reply = None if found is None else self._read(found[1])
            if reply is not None and reply.refused:
                raise ClientRegistrationError(
                    f"The inference server refused this client: {printable(reply.refused)}.",
                    "Start it with a smaller --num-envs, or later, or ask the server's owner to raise "
                    "central.inference_servers.",
                )
            if reply is not None and len(reply.action) == count:
                self._follows = checksum(found[1])
                return reply
        raise Interrupted

    def _read(self, data: bytes) -> ActionReply | None:
        """Return an answer to the present request; None for every other one."""
        try:
            reply = ActionReply.read(data)
        except CodecError as error:
            logger.warning("an answer of the inference server is passed over: %s", error)
            return None
        return reply if (reply.unroll, reply.number) == (self._unroll, self._number) else None

    def _note(self, reply: ActionReply) -> None:
        progress = self._client.progress
        progress.model_id, progress.update = reply.model_id, reply.update
        if self.generation not in (None, reply.generation):
            logger.info("the inference server restarted (generation %d)", reply.generation)
        self.generation = reply.generation
        if progress.phase == "waiting":
            self._client.set_phase("sampling")

    def add(
        self,
        _obs: NDArray[Any],
        _action: NDArray[Any],
        _log_prob: NDArray[np.float32],
        result: StepResult,
        keep: NDArray[np.bool_],
        *_: Any,
    ) -> None:
        """Keep what a step led to for the next request."""
        self._outcome = ActionOutcome(result, keep)
        self._client.progress.stepped(int(np.count_nonzero(keep)))

    def cut(self, _model_id: int, _digest: int) -> Segments | None:
        """Return nothing: the inference server makes the segments."""
        return None

    def break_off(self) -> None:
        """Begin another unroll: what comes next belongs to new episodes."""
        self._begin()

    def close(self) -> None:
        """Close the connection."""
        self._link.close()


class RemoteSampling:
    """Plays freely, as long as this client is let in and the run goes on; a sampling mode."""

    def __init__(self, link: ClientLink, remote: RemotePolicy, greedy: GreedyEvaluation | None) -> None:
        self._remote = remote
        self._greedy = greedy
        self._link = link
        self._heard: ServerView | None = None
        self._grant: Grant | None = None

    def act(
        self, obs: NDArray[Any], rng: np.random.Generator, mask: Mask | None
    ) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Choose actions, as `rollout.Act`."""
        action, log_prob = self._remote.act(obs, rng, mask)
        if self._greedy is not None and self._greedy.active:
            action = self._greedy.instead(obs, mask, action, converted=True)
        return action, log_prob

    def next_rollout(self, view: ServerView) -> RolloutPlan | None:
        """Return that anything may be played, once this client is let in; asking begins nothing."""
        self._heard = view
        grant = self._link.answer_of_trainer(view)
        if grant is not None:
            self._grant = grant
            if self._greedy is not None:
                self._greedy.hear(grant.greedy, self._link.asked)
        return RolloutPlan(None, {}, self._go_on) if self._may_step else None

    def played(self, plan: RolloutPlan, steps: int) -> None:
        """Nothing is to be noted."""

    @property
    def _may_step(self) -> bool:
        return self._grant is not None and self._grant.status == "accepted" and not self._grant.resting

    def _go_on(self) -> bool:
        if self._link.view is not self._heard:
            self.next_rollout(self._link.view)
        return self._may_step
