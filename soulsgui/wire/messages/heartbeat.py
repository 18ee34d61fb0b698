"""Liveness and progress of a client: the `beat:<client>` key, written every second."""

from bisect import bisect_left
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from soulsgui.wire.messages.base import Details, Instance, Listed, Message, Words

PERIOD_S = 1.0
EXPIRY_S = 7 * 24 * 3600
MAX_BYTES = 8192
MAX_ENVS = 65_536  # most environments of one session: an inference server has those of all its clients

Phase = Literal["joining", "waiting", "sampling", "restarting", "paused", "finishing", "stopping"]


class Answer(Message):
    """What became of the newest wish."""

    command_id: str
    ok: bool
    error: Words = ""


_LARGEST = 2**53  # exact in JSON, on every machine

Count = Annotated[int, Field(ge=0, le=_LARGEST)]


class GreedyPlay(Message):
    """How far a client is with the evaluations that its grants ask for (`session.GreedyOrder`).

    Attributes:
        model_id: Weights of the newest order that it began, -1 before the first.
        played: Episodes of it that it has played.
        steps: Environment steps that the process has made for evaluations of its run; they are not sent.
    """

    model_id: int = Field(-1, ge=-1, le=_LARGEST)
    played: Count = 0
    steps: Count = 0


ROWS_BOUNDS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Most environments in each bucket of batches but the last, which has no bound."""

ROUND_TRIP_BOUNDS_MS = (0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
"""The same of round trips, in milliseconds."""


class InferenceFigures(Message):
    """What an inference server has done. It counts in it, and each beat tells what was counted by then.

    Attributes:
        generation: Which process of its name it is: unrolls and memories start again with each.
        turns: Times it has looked for something to do, several a second: it hangs when they stand still.
        clients: Clients that ask it at present.
        actions: Actions that it has chosen.
        repeated: Requests that were answered once more as before.
        expired: Clients whose requests it threw away, since they were silent or not let in.
        unreadable: Requests that could not be used.
        begun_anew: Unrolls that began in the middle of an episode: this or its client's process is a new one.
        swaps: How often it took newer weights.
        rows: Batches by the environments in them (`ROWS_BOUNDS`).
        round_trips: Requests by the time until their client had the answer (`ROUND_TRIP_BOUNDS_MS`).
    """

    model_config = ConfigDict(frozen=False)

    generation: Count = 0
    turns: Count = 0
    clients: Count = 0
    actions: Count = 0
    repeated: Count = 0
    expired: Count = 0
    unreadable: Count = 0
    begun_anew: Count = 0
    swaps: Count = 0
    rows: Listed[Count] = Field(default_factory=lambda: [0] * (len(ROWS_BOUNDS) + 1))
    round_trips: Listed[Count] = Field(default_factory=lambda: [0] * (len(ROUND_TRIP_BOUNDS_MS) + 1))

    def chose(self, actions: int) -> None:
        """Count a batch."""
        self.actions += actions
        self.rows[bisect_left(ROWS_BOUNDS, actions)] += 1

    def took(self, round_trip_ms: float) -> None:
        """Count how long a client waited for an answer."""
        self.round_trips[bisect_left(ROUND_TRIP_BOUNDS_MS, round_trip_ms)] += 1

    def words(self) -> str:
        """Return in words what half of the batches and half of the clients' waits keep to."""
        served = f"{self.clients} client{'' if self.clients == 1 else 's'}"
        if not self.actions:
            return served
        rows, wait = _middle(self.rows, ROWS_BOUNDS), _middle(self.round_trips, ROUND_TRIP_BOUNDS_MS)
        return f"{served}, batches of {rows}, answers within {wait} ms"


def _middle(counts: Sequence[int], bounds: Sequence[float]) -> str:
    """Return the least bound that half of what was counted keeps."""
    half, counted = sum(counts) / 2, 0
    for bound, count in zip(bounds, counts, strict=False):
        counted += count
        if counted >= half:
            return f"{bound:g}"
    return f"over {bounds[-1]:g}"


class ClientProgress(Message):
    """How a client gets on: what its beat and its status share. What is counted begins at 0 with each run.

    Attributes:
        env_steps: Environment steps that the process has made for its run.
        env_steps_per_s: Recent rate.
        mean_return: Mean over its last 20 finished episodes.
        model_id: Weights in use, -1 before the first.
        dropped: Environment steps dropped because the buffer was full.
        waits: How often it had to wait for the server: for credits, or for the next round.
        waited_s: Seconds it has waited so.
        waiting: Part of the last seconds in which it waited so, 0 to 1.
        error_details: Where the last error happened: the end of a traceback; stays when the error is over.
        step_ms: Recent mean time the environments take for a step of all of them, milliseconds.
        late_steps: Steps that began after their time on a fixed clock (`client.step_seconds`).
        human_steps: Steps that a person played; they are not sent.
        env_restarts: How often the environment was created again after a failure.
        inference: What it has done as an inference server; None: it is none.
        shown: Whether its game may be looked at, and can be.
    """

    env_id: Words = ""
    num_envs: int = Field(default=0, ge=0, le=MAX_ENVS)
    env_steps: Count = 0
    episodes: Count = 0
    env_steps_per_s: float = Field(default=0.0, ge=0, le=1e12)
    last_return: float | None = None
    mean_return: float | None = None
    model_id: int = Field(default=-1, ge=-1, le=_LARGEST)
    dropped: Count = 0
    waits: Count = 0
    waited_s: float = Field(default=0.0, ge=0)
    waiting: float = Field(default=0.0, ge=0, le=1)
    error_details: Details = ""
    step_ms: float | None = None
    late_steps: Count = 0
    human_steps: Count = 0
    env_restarts: Count = 0
    inference: InferenceFigures | None = None
    shown: bool = False


class Heartbeat(ClientProgress):
    """One beat. Numbers are finite and within bounds: others than their sender count on them.

    Attributes:
        counter: Grows by one with each beat; a reader tells life by its change, not by clocks.
        session: Entry id of the hello of the present session, empty before it.
        run_id: The run it plays for, empty before the first configuration.
        buffered_bytes: Samples not yet stored on the server.
        sent_chunks, sent_bytes, sent_steps: Chunks stored since the hello, their bytes, their transitions.
        update: Updates of the agent up to the weights in use; with the trainer's count it tells the lag.
        versions: Version of each package that matters.
        error: Last error in words, empty when there was none or it is over.
        greedy: How far it is with evaluations; None: it knows of none, and is not to be asked for any.
        simulated: Whether it steps no environment (`client --simulate`).
        leaving: Set in the last beat of a clean stop.
    """

    model_config = ConfigDict(allow_inf_nan=False)
    most_bytes = MAX_BYTES

    client: str
    instance: Instance
    counter: Count
    phase: Phase = "joining"
    session: str = ""
    run_id: str = ""
    buffered_bytes: Count = 0
    sent_chunks: Count = 0
    sent_bytes: Count = 0
    sent_steps: Count = 0
    update: Count = 0
    versions: dict[str, Words] = Field(default_factory=dict)
    error: Words = ""
    answered: Answer | None = None
    greedy: GreedyPlay | None = None
    simulated: bool = False
    leaving: bool = False
