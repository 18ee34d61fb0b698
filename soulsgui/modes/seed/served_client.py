"""One client of an inference server: its unroll, its memory, and the answer it was given last. Pure."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from soulsgui.environments.choices import Mask
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.experience.segments import Segments
from soulsgui.policies.numpy_recurrent import Remembered
from soulsgui.sampling.inference_messages import ActionOutcome, Request, checksum
from soulsgui.sampling.segments import SegmentRecorder
from soulsgui.wire.codec import WeightsHeader
from soulsgui.wire.messages.chunk import digest_number


class ChosenActions(NamedTuple):
    """Actions that were chosen, and from what; what they led to comes with the next request."""

    header: WeightsHeader
    obs: NDArray[Any]
    mask: Mask | None
    action: NDArray[Any]
    log_prob: NDArray[np.float32]
    state: dict[str, NDArray[np.float32]]


_Taken = tuple[ChosenActions, ActionOutcome] | bool
"""Actions with what they led to; or whether an unroll begins within an episode."""


class ServedClient:
    """Makes segments of the requests of one client.

    Its environments are numbered from `first_env` on among all in a session of the inference server. A step
    belongs to the weights that chose its action, whichever are in use when its outcome comes.
    """

    def __init__(self, num_envs: int, spaces: SpacesSpec, longest: int, memory: Mapping[str, Any]) -> None:
        self.num_envs, self.first_env = num_envs, 0
        self.unroll, self.number, self.answer = "", -1, b""
        self.due = 0.0
        self.asked_at = self.answered_at = -math.inf  # its last request, whatever it was; its last answer
        self.pause_s = math.inf  # from an answer to that request
        self.spent_s = 0.0  # that its last request has cost the inference server
        self.memory = Remembered(memory)
        self.memory.begin(num_envs)
        self._recorder = SegmentRecorder(num_envs, spaces, longest, self.memory.shapes)
        self._chosen: ChosenActions | None = None
        self._taken: _Taken | None = None
        self._header: WeightsHeader | None = None  # of the steps that were recorded since the last cut

    @property
    def open_steps(self) -> int:
        """Steps that were recorded since the last cut."""
        return self._recorder.length * self.num_envs

    def asks(self, now: float) -> None:
        """Take note that a request came, whatever it is."""
        self.asked_at, self.pause_s = now, now - self.answered_at

    def repeats(self, unroll: str, number: int) -> bool:
        """Whether a request was taken before."""
        return unroll == self.unroll and number <= self.number

    def take(self, request: Request) -> None:
        """Go on to a request; what the last answer led to is recorded by `record`, when there is time.

        One that does not follow the last, or tells what another answer led to, begins another unroll.
        """
        follows = (request.unroll, request.number) == (self.unroll, self.number + 1)
        follows = follows and request.follows in (None, checksum(self.answer))
        outcome, chosen = request.outcome, self._chosen
        if follows and chosen is not None and outcome is not None:
            result = outcome.result
            self.memory.forget(result.terminated | result.truncated | ~result.valid)
            self._taken = chosen, outcome
        else:
            self.memory.begin(self.num_envs)
            self._taken = request.number > 0
        self.unroll, self.number, self._chosen, self.answer = request.unroll, request.number, None, b""

    def answered(self, chosen: ChosenActions, answer: bytes) -> None:
        """Take note of the answer to the request that was taken last."""
        self._chosen, self.answer = chosen, answer

    def record(self) -> Iterator[Segments]:
        """Record what the request taken last told; yield segments that end before or with it."""
        taken, self._taken = self._taken, None
        if isinstance(taken, bool):
            yield from self._cut()
            self._recorder.break_off(under_way=taken)
        elif taken is not None:
            chosen, outcome = taken
            if self._header != chosen.header:
                yield from self._cut()
            self._header = chosen.header
            columns = chosen.obs, chosen.action, chosen.log_prob, outcome.result
            self._recorder.add(*columns, outcome.keep, chosen.mask, chosen.state)
            if self._recorder.length == self._recorder.capacity:
                yield from self._cut()

    def cut(self) -> Iterator[Segments]:
        """Yield all that was told and not yielded yet."""
        yield from self.record()
        yield from self._cut()

    def _cut(self) -> Iterator[Segments]:
        if self._header is None or not self._recorder.length:
            return
        segments = self._recorder.cut(self._header.model_id, digest_number(self._header.digest))
        if segments is not None:
            yield replace(segments, env_index=segments.env_index + np.int32(self.first_env))
