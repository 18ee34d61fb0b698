"""Jobs: what goes on after the answer to a command, with progress, an end, and the files that it made."""

import asyncio
import logging
import shutil
import threading
import time
import uuid
from collections.abc import AsyncIterable, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from soulsgui.errors import ServiceError, SoulsGuiError
from soulsgui.runner.refusal import Refused, Result, as_api_error
from soulsgui.runner.services.asked import asked_process
from soulsgui.system import free_disk_bytes, kept_free_bytes
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode

logger = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")

_KEPT = 100
_MOST_RUNNING = 8
_SHOW_EVERY_S = 0.1
_KEPT_FILES = 20
_KEPT_BYTES = 8 * 2**30


class Files:
    """The files of jobs: what they made, and what was brought for them; the newest are kept."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._paths: dict[str, Path] = {}
        self._whole: dict[str, int] = {}  # bytes of those that nobody writes any more by id, oldest first

    def clear(self) -> None:
        """Remove what an earlier runner left."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def new(self, name: str) -> tuple[str, Path]:
        """Return id and path of a file that is to be written."""
        file_id = uuid.uuid4().hex
        self._paths[file_id] = path = self._folder / file_id / name
        path.parent.mkdir(parents=True)
        return file_id, path

    async def bring(self, chunks: AsyncIterable[bytes]) -> control.StoredFile:
        """Store what somebody sends, as far as the disk has room for it."""
        file_id, path = self.new("brought")
        try:
            with path.open("wb") as file:
                async for chunk in chunks:
                    if free_disk_bytes(path) < kept_free_bytes(path) + len(chunk):
                        what = "There is not enough space on the server's disk for that file."
                        raise Refused(ErrorCode.FAILED, what, "Free some space there, then try again.")
                    await asyncio.to_thread(file.write, chunk)
        except BaseException:
            self.remove(file_id)
            raise
        return self.add(file_id)

    def get(self, file_id: str) -> Path:
        """Return where a file is; one that is not there (any more) is `Refused`."""
        path = self._paths.get(file_id)
        if path is None or not path.is_file():
            raise Refused(ErrorCode.NOT_FOUND, "There is no such file (any more).", "Create it again.")
        return path

    def add(self, file_id: str) -> control.StoredFile:
        """Keep a file that is written, and return what is told of it; the oldest give way to it."""
        path = self.get(file_id)
        size_bytes = self._whole[file_id] = path.stat().st_size
        while len(self._whole) > _KEPT_FILES or sum(self._whole.values()) > max(_KEPT_BYTES, size_bytes):
            self.remove(next(iter(self._whole)))
        return control.StoredFile(id=file_id, name=path.name, size_bytes=size_bytes)

    def remove(self, file_id: str) -> None:
        """Remove a file, if it is still there."""
        if (path := self._paths.pop(file_id, None)) is not None:
            shutil.rmtree(path.parent, ignore_errors=True)
        self._whole.pop(file_id, None)


class RunningJob:
    """A job, as the work sees that it does: `work(job)`."""

    def __init__(self, job_id: str, tell: Callable[..., None], files: Files) -> None:
        self.id = job_id
        self.files = files
        self.made: list[str] = []  # ids of the files it has made
        self._tell = tell
        self._loop = asyncio.get_running_loop()
        self._cancelled = threading.Event()

    def tell(self, progress: str, part: float | None = None) -> None:
        """Tell, from any thread, what is done and which part of all was, 0 to 1; a cancelled thread ends."""
        if self._cancelled.is_set():
            raise SoulsGuiError("The job was cancelled.")
        self._loop.call_soon_threadsafe(self._tell, self.id, progress, part)

    def new_file(self, name: str) -> Path:
        """Return where a file is to be written that whoever asked may fetch once the job is done."""
        file_id, path = self.files.new(name)
        self.made.append(file_id)
        return path

    async def in_thread(self, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        """Do blocking work in a thread; it is cancelled when it `tell`s the next time."""
        doing = asyncio.ensure_future(asyncio.to_thread(work, *args, **kwargs))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            self._cancelled.set()
            await asyncio.gather(doing, return_exceptions=True)
            raise

    async def in_process(
        self,
        argv: Sequence[str],
        request: dict[str, Any],
        reply: Callable[[dict[str, Any]], dict[str, Any]] | None = None,
    ) -> dict[str, Any]:
        """Do work in a process (`process.asked` is its half); it ends with the job, and with the runner.

        It reads the request as a line of JSON, then writes lines: `{"doing", "part"}` any number of times,
        at last `{"report": ...}` or `{"error": {"message", "remedy"}}`. With `reply` its other messages may
        be anything; what that returns of each is written to it.
        """
        async with asked_process(argv, request) as process:
            while message := await process.message():
                if "report" in message:
                    return dict(message["report"])
                if "error" in message:
                    raise SoulsGuiError(**message["error"])
                if reply is not None:
                    process.send(reply(message))
                if reply is None or "doing" in message:
                    self.tell(str(message["doing"]), message.get("part"))
            last = await process.last_words()
            raise ServiceError(f"Its process ended with exit code {process.code}.", last)


class Jobs:
    """The jobs of a runner; the last ones are remembered."""

    def __init__(self, on_change: Callable[[control.Job], None], files: Files) -> None:
        self.files = files
        self._on_change = on_change
        self._jobs: dict[str, control.Job] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._unshown: set[str] = set()  # jobs whose progress is told in a moment

    def get(self, job_id: str) -> control.Job | None:
        """Return a job, None when it is not known (any more)."""
        return self._jobs.get(job_id)

    def all(self) -> list[control.Job]:
        """Return every job that is remembered, the newest first."""
        return list(reversed(self._jobs.values()))

    async def run(self, command: str, work: Awaitable[Result], progress: str = "") -> Result:
        """Do the work of a command that is answered when it is done, shown as a job; return its result."""
        job = self._new(command, progress, cancellable=False)
        try:
            result = await work
        except Exception as error:
            self._end(job.id, state="failed", error=as_api_error(error, command))
            raise
        self._end(job.id, state="done", result=_plain(result))
        return result

    def start(
        self, command: str, work: Callable[[RunningJob], Awaitable[Result]], progress: str = ""
    ) -> control.Job:
        """Begin the work of a command that is answered at once, and return its job."""
        if len(self._tasks) >= _MOST_RUNNING:
            what = f"{_MOST_RUNNING} jobs are running already."
            raise Refused(ErrorCode.NOT_NOW, what, "Wait for one to end, or cancel one: soulsgui jobs list")
        job = self._new(command, progress, cancellable=True)
        self._tasks[job.id] = asyncio.create_task(self._do(job, work), name=f"{command} {job.id}")
        return job

    async def _do(self, job: control.Job, work: Callable[[RunningJob], Awaitable[Result]]) -> None:
        running = RunningJob(job.id, self._tell, self.files)
        try:
            result = await work(running)
            made = [self.files.add(one) for one in running.made]
            self._end(job.id, state="done", result=_plain(result), files=made, part=1.0)
        except (Exception, asyncio.CancelledError) as error:
            for one in running.made:
                self.files.remove(one)
            if isinstance(error, asyncio.CancelledError):
                self._end(job.id, state="cancelled")
            else:
                self._end(job.id, state="failed", error=as_api_error(error, job.command))
        finally:
            del self._tasks[job.id]

    def when_ended(self, job_id: str, told: Callable[[control.Job], object]) -> None:
        """Let somebody be told of a job that goes on once it has ended."""
        self._tasks[job_id].add_done_callback(lambda _: told(self._jobs[job_id]))

    async def cancel(self, job_id: str) -> control.Job:
        """Cancel a job and return it once it has ended, which it may have done before."""
        job = self._jobs.get(job_id)
        if job is None:
            raise Refused(ErrorCode.NOT_FOUND, "There is no such job.", "See them: soulsgui jobs list")
        await asyncio.sleep(0)  # work that has not begun would not tell of its end
        if (task := self._tasks.get(job_id)) is not None:
            task.cancel()
            await asyncio.wait({task})
        elif job.state == "running":
            what = f"{job.command} can't be cancelled once it has begun."
            raise Refused(ErrorCode.NOT_NOW, what, "It ends soon.")
        return self._jobs[job_id]

    async def close(self) -> None:
        """Cancel what goes on, and remove every file."""
        await asyncio.sleep(0)
        for task in (tasks := set(self._tasks.values())):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self.files.clear()

    def _new(self, command: str, progress: str, cancellable: bool) -> control.Job:
        job = control.Job(
            id=uuid.uuid4().hex,
            command=command,
            state="running",
            started=time.time(),
            progress=progress,
            cancellable=cancellable,
        )
        self._jobs[job.id] = job
        over = [one for one, older in self._jobs.items() if older.state != "running"][:-_KEPT]
        for forgotten in over:
            del self._jobs[forgotten]
        self._on_change(job)
        return job

    def _tell(self, job_id: str, progress: str, part: float | None) -> None:
        """Note the progress of a job, and show it in a moment, so that many steps are shown as few."""
        job = self._jobs[job_id]
        if job.state == "running":
            self._jobs[job_id] = job.model_copy(update={"progress": progress, "part": part})
            if job_id not in self._unshown:
                self._unshown.add(job_id)
                asyncio.get_running_loop().call_later(_SHOW_EVERY_S, self._show, job_id)

    def _show(self, job_id: str) -> None:
        if job_id in self._unshown:
            self._unshown.discard(job_id)
            self._on_change(self._jobs[job_id])

    def _end(self, job_id: str, **changes: Any) -> None:
        job = self._jobs[job_id].model_copy(update={**changes, "cancellable": False})
        self._jobs[job_id] = job
        self._unshown.discard(job_id)
        self._on_change(job)


def _plain(result: Result) -> dict[str, Any]:
    return result.model_dump(mode="json") if result is not None else {}
