"""Liveness and progress of a client: the `beat:<client>` key, written every second."""

from typing import Literal

from pydantic import Field

from soulsgui.wire.messages.base import Instance, Message

PERIOD_S = 1.0
EXPIRY_S = 7 * 24 * 3600
MAX_BYTES = 8192

Phase = Literal["joining", "waiting", "sampling", "paused", "finishing", "stopping"]


class Answer(Message):
    """What became of the newest wish."""

    command_id: str
    ok: bool
    error: str = ""


class Heartbeat(Message):
    """One beat.

    Attributes:
        client: The client's id.
        instance: The process that beats.
        counter: Grows by one with each beat; a reader tells life by its change, not by clocks.
        session: Entry id of the hello of the present session, empty before it.
        run_id: The run it plays for, empty before the first configuration.
        env_steps: Environment steps since the process started.
        env_steps_per_s: Recent rate.
        mean_return: Mean over its last 20 finished episodes.
        model_id: Weights in use, -1 before the first.
        buffered_bytes: Samples not yet stored on the server.
        dropped: Environment steps given up because the buffer was full.
        sent_chunks: Chunks stored since the hello.
        versions: Version of each package that matters.
        error: Last error in words, empty when there was none.
        leaving: Set in the last beat of a clean stop.
    """

    client: str
    instance: Instance
    counter: int
    phase: Phase = "joining"
    session: str = ""
    run_id: str = ""
    env_id: str = ""
    num_envs: int = 0
    env_steps: int = 0
    episodes: int = 0
    env_steps_per_s: float = 0.0
    last_return: float | None = None
    mean_return: float | None = None
    model_id: int = -1
    buffered_bytes: int = 0
    dropped: int = 0
    sent_chunks: int = 0
    versions: dict[str, str] = Field(default_factory=dict)
    error: str = ""
    answered: Answer | None = None
    leaving: bool = False
