"""Work that takes longer than a moment, seen by every window."""

import uuid
from collections.abc import Awaitable, Callable

from soulsgui.runner.refusal import Result, as_api_error
from soulsgui.wire.control import Job
from soulsgui.wire.messages.base import Message

_KEPT = 100


class Jobs:
    """The jobs of a runner; the last ones are remembered.

    Args:
        on_change: Told whenever a job moves on.
    """

    def __init__(self, on_change: Callable[[Job], None]) -> None:
        self._on_change = on_change
        self._jobs: dict[str, Job] = {}

    def get(self, job_id: str) -> Job | None:
        """Return a job, None when it is not known (any more)."""
        return self._jobs.get(job_id)

    async def run(self, command: str, work: Awaitable[Result], progress: str = "") -> Result:
        """Do the work of a command as a job and return its result.

        Args:
            command: Name of the command.
            work: Its work.
            progress: What it does, in words.
        """
        job = Job(id=uuid.uuid4().hex, command=command, state="running", progress=progress)
        self._note(job)
        try:
            result = await work
        except Exception as error:
            self._note(job.model_copy(update={"state": "failed", "error": as_api_error(error, command)}))
            raise
        plain = result.model_dump(mode="json") if isinstance(result, Message) else result
        self._note(job.model_copy(update={"state": "done", "result": plain}))
        return result

    def _note(self, job: Job) -> None:
        self._jobs[job.id] = job
        while len(self._jobs) > _KEPT:
            del self._jobs[next(iter(self._jobs))]
        self._on_change(job)
