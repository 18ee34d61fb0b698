"""What nodes of the server say: their state (`node:<name>`), and the chunks that were refused (`rejects`)."""

from typing import Literal, NamedTuple, Self

from pydantic import Field

from soulsgui.wire.messages.base import Instance, Keyed, Listed, Message, Moment, Whole, Words

NodePhase = Literal[
    "loading", "waiting", "collecting", "updating", "evaluating", "compiling", "saving", "paused", "frozen",
    "stopping",
]  # fmt: skip


class Verdict(Message):
    """What telemetry found out about the run.

    Attributes:
        best_model_id: Best model so far, None before there is one.
        best_score: What it is ranked by (`best_by`): mean return of its evaluation, or of training episodes.
        best_by: Which of both that is now: as `evaluation.best_by` says; training where nobody can evaluate.
        to_confirm: Number of the training episode whose window reached `stop.mean_return`, while greedy
            episodes are yet to confirm it; None otherwise.
        reached: Whether `stop.mean_return` was reached, by what `stop.judged_by` says.
        reached_with: The mean return that reached it; what is played until the end may lower the mean again.
    """

    best_model_id: int | None = None
    best_score: float | None = None
    best_by: Literal["training", "evaluation"] = "training"
    to_confirm: int | None = None
    reached: bool = False
    reached_with: float | None = None


STALENESS_BOUNDS = (0, 1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 256, 512)
"""Largest lag in each bucket of `Staleness` but the last, which has no bound; in updates."""


class Staleness(Message):
    """How many updates old samples were when they were taken in, in this attempt.

    Attributes:
        bounds: Largest lag in each bucket but the last.
        accepted: Transitions that were accepted in each bucket, one more of them than bounds.
        late: Transitions that were refused as late, likewise.
    """

    bounds: Listed[Whole] = Field(default_factory=lambda: list(STALENESS_BOUNDS), min_length=1)
    accepted: Listed[Whole] = Field(default_factory=list)
    late: Listed[Whole] = Field(default_factory=list)

    def words(self) -> str:
        """Return how old most samples were, in words; empty when there were none, or they all were new."""
        half, most = self._within(0.5), self._within(0.95)
        if not any(self.accepted) or most == "0":
            return ""
        return f"half of the samples {half} updates old, 95 % {most}"

    def _within(self, part: float) -> str:
        """Return the least bound that so large a part of the accepted samples keeps."""
        counted, total = 0, sum(self.accepted)
        for bound, count in zip(self.bounds, self.accepted, strict=False):
            counted += count
            if counted >= part * total:
                return f"at most {bound}" if bound else "0"
        return f"more than {self.bounds[-1]}"


class Arrived(NamedTuple):
    """Episodes whose ends came as samples of one client.

    Attributes:
        episodes: How many, in this attempt.
        length: Steps for each of the newest of them, on average.
        total_return: Sum of the rewards for each, likewise.
        size: Sum of the absolute rewards for each, likewise.
    """

    episodes: int
    length: float
    total_return: float
    size: float


class TrainingProgress(Message):
    """How a run gets on: what the state of a node and the status of the run share.

    Attributes:
        detail: What it waits for or does, in words, such as "1 of 2 clients are ready".
        evaluation_return: Mean return of the newest evaluation, whoever played it; None before the first.
        lost_chunks: Chunks missing by their numbers in this attempt.
        rejected: Segments refused in this attempt, by reason.
        learner_waits: Part of the last seconds in which the trainer waited for samples, 0 to 1; None where
            nobody waits for anybody, or that is not known.
        clients_wait: Part of the last seconds in which samples waited for the trainer, 0 to 1; likewise.
        learns_on: What the trainer computes on, in words, such as "4 GPUs"; empty while that is not known.
    """

    detail: str = ""
    attempt: Whole = 0
    model_id: Whole = -1
    env_steps: Whole = 0
    updates: Whole = 0
    episodes: Whole = 0
    env_steps_per_s: float = 0.0
    updates_per_s: float = 0.0
    mean_return: float | None = None
    best_mean_return: float | None = None
    evaluation_return: float | None = None
    policy_lag: float = 0.0
    checkpoint_env_steps: Whole | None = None
    lost_chunks: Whole = 0
    rejected: Keyed[Whole] = Field(default_factory=dict)
    staleness: Staleness | None = None
    learner_waits: float | None = Field(default=None, ge=0, le=1)
    clients_wait: float | None = Field(default=None, ge=0, le=1)
    learns_on: Words = ""
    error: str = ""


class NodeState(TrainingProgress):
    """One node's state, written at least every second.

    Attributes:
        tick: Moves whenever the main loop turns, also while it waits: the sign of life.
        stop_reached: Set by the trainer when `stop.env_steps` is reached.
        verdict: Set by telemetry.
        asks_clients: Set by the trainer: whether there is a client that can play the evaluations where the
            evaluator can't; None while that is not known.
        judged_by: Set by telemetry: whose mean return has to reach `stop.mean_return` now: that of an
            evaluation, that of training alone (where nobody can evaluate), or both: greedy episodes confirm
            what training reached.
        arrived: Set by the trainer: what came of each invited client; telemetry judges what it tells by it.
        evaluated: Set by telemetry: weights of the newest whole evaluation by a client, -1 before the first.
        played: Set by telemetry: clients of which all of the newest evaluation has come, with its weights.
        rejected_by_client: The same for each client, this attempt.
        trouble: What holds the run up until somebody does something, in words; empty while nothing does.
        diverged: That the training has diverged, and from where it goes on, in words; empty again when a
            checkpoint was saved behind that place.
        stop_reason: Why the trainer wants the run to be ended, in words; empty while it does not.
        floods: Set by the gateway: clients that have sent small commands without end for seconds.
        unsaved: Since when and why the trainer can't save its regular checkpoint; empty while it can.
        farewell: Set in the last state before a clean end, in words.
    """

    name: str
    instance: Instance
    tick: int
    phase: NodePhase = "loading"
    run_id: str = ""
    checkpoint_time: float | None = None
    rejected_by_client: dict[str, dict[str, int]] = Field(default_factory=dict)
    timings_s: dict[str, float] = Field(default_factory=dict)
    trouble: Words = ""
    diverged: Words = ""
    stop_reason: Words = ""
    stop_reached: bool = False
    verdict: Verdict | None = None
    asks_clients: bool | None = False
    judged_by: Literal["", "training", "evaluation", "both"] = ""
    arrived: dict[str, Arrived] = Field(default_factory=dict)
    evaluated: int = -1
    played: dict[str, int] = Field(default_factory=dict)
    floods: list[str] = Field(default_factory=list)
    unsaved: str = ""
    farewell: str = ""

    @classmethod
    def of_run(cls, data: bytes | str | None, run_id: str) -> Self | None:
        """Return the state in `data` when it is one of this run, None otherwise."""
        state = cls.read(data)
        return state if state is not None and state.run_id == run_id else None


HEAD_BYTES = 64  # so much of the beginning of a refused chunk is kept


class Reject(Message):
    """A chunk that was refused, whole or in part. Nothing in it is ever executed or unpacked.

    Attributes:
        client: Who sent it.
        entry: Id of its entry in the client's stream.
        reason: Why (`messages.chunk.Reason`); where its segments were refused for several, the most frequent.
        segments: How many of its segments were refused; 1 for a completely refused chunk.
        time: When, seconds since the epoch.
        size: Its bytes.
        head: Its first bytes, hexadecimal.
        detail: More about it in words, where there is more.
    """

    client: str
    entry: str
    reason: str
    segments: Whole = 1
    time: Moment
    size: Whole
    head: str = ""
    detail: str = ""


class Rejects(Message):
    """The last of them, oldest first."""

    run_id: str
    rejects: list[Reject] = Field(default_factory=list)
