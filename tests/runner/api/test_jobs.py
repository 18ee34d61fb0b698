import asyncio
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from soulsgui.runner.api import jobs as jobs_module
from soulsgui.runner.api.jobs import Files, Jobs, RunningJob
from soulsgui.runner.refusal import Refused
from soulsgui.wire.control import ClientCount, ErrorCode, Job
from tests.faults.waiting import LIMIT_S
from tests.runner.children import until

Work = Callable[[str], Callable[[RunningJob], Awaitable[ClientCount]]]


class Shown(list[Job]):
    """What every window is shown of jobs."""

    def last(self, command: str) -> Job:
        return next(job for job in reversed(self) if job.command == command)


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
async def jobs(tmp_path: Path, shown: Shown) -> AsyncIterator[Jobs]:
    made = Jobs(shown.append, Files(tmp_path / "files"))
    yield made
    await made.close()


async def test_a_command_that_is_waited_for_is_shown_as_a_job_and_old_ones_are_forgotten(
    jobs: Jobs, shown: Shown
) -> None:

    async def work() -> ClientCount:
        assert shown[-1].state == "running"
        return ClientCount(count=1)

    async def fail() -> None:
        raise Refused(ErrorCode.NOT_NOW, "not now")

    assert await jobs.run("run.stop", work(), "saving") == ClientCount(count=1)
    told = [(job.state, job.progress, job.result) for job in shown]
    assert told == [("running", "saving", {}), ("done", "saving", {"count": 1})]
    assert jobs.get(shown[0].id) == shown[-1]
    for _ in range(101):
        with pytest.raises(Refused):
            await jobs.run("run.stop", fail())
    assert (shown[-1].state, shown[-1].error.message) == ("failed", "not now")
    assert jobs.get(shown[0].id) is None
    assert jobs.get(shown[-1].id) == shown[-1]


async def test_a_job_tells_its_progress_and_offers_what_it_made(jobs: Jobs, shown: Shown) -> None:
    async def work(job: RunningJob) -> ClientCount:
        job.tell("half of it", 0.5)
        await until(lambda: shown[-1].progress == "half of it")
        for number in range(1000):
            job.tell(f"step {number}")
        job.new_file("made.txt").write_text("whole")
        return ClientCount(count=2)

    begun = jobs.start("runs.export", work, "beginning")
    assert (begun.state, begun.progress, begun.cancellable) == ("running", "beginning", True)
    await until(lambda: shown[-1].state == "done")
    ended = jobs.get(begun.id)
    assert ended == shown[-1] == jobs.all()[0]
    assert (ended.result, ended.part, ended.cancellable) == ({"count": 2}, 1.0, False)
    (file,) = ended.files
    assert (file.name, file.size_bytes) == ("made.txt", 5)
    assert jobs.files.get(file.id).read_text() == "whole"
    assert len(shown) < 10
    assert await jobs.cancel(begun.id) == ended
    for number in range(jobs_module._KEPT_FILES):
        file_id, path = jobs.files.new(f"{number}")
        path.touch()
        jobs.files.add(file_id)
    with pytest.raises(Refused, match="no such file"):
        jobs.files.get(file.id)


async def test_files_are_kept_as_long_as_they_are_no_more_than_so_many_bytes(
    jobs: Jobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs_module, "_KEPT_BYTES", 10)
    ids = []
    for size in (4, 5, 6, 100):
        file_id, path = jobs.files.new("made")
        path.write_bytes(bytes(size))
        jobs.files.add(file_id)
        ids.append(file_id)
        there = sum(one.stat().st_size for one in jobs.files._folder.glob("*/made"))
        assert there == {4: 4, 5: 9, 6: 6, 100: 100}[size], "the newest is there, however large"
    with pytest.raises(Refused, match="no such file"):
        jobs.files.get(ids[0])


@pytest.mark.parametrize("fails", [False, True])
async def test_files_of_others_take_nothing_from_a_job_that_goes_on(
    jobs: Jobs, shown: Shown, fails: bool
) -> None:
    gate = asyncio.Event()

    async def work(job: RunningJob) -> ClientCount:
        path = job.new_file("made.txt")
        await gate.wait()
        path.write_text("whole")
        if fails:
            raise Refused(ErrorCode.FAILED, "no luck")
        return ClientCount(count=2)

    async def sent() -> AsyncIterator[bytes]:
        yield b"of another"

    begun = jobs.start("runs.export", work)
    await asyncio.sleep(0)
    brought = [await jobs.files.bring(sent()) for _ in range(30)]
    gate.set()
    await until(lambda: jobs.get(begun.id).state != "running")
    ended = jobs.get(begun.id)
    assert (ended.state, [one.name for one in ended.files]) == (
        ("failed", []) if fails else ("done", ["made.txt"])
    )
    with pytest.raises(Refused, match="no such file"):
        jobs.files.get(brought[0].id)
    assert jobs.files.get(brought[-1].id).read_bytes() == b"of another"
    jobs.files.remove(brought[-1].id)
    jobs.files.remove(brought[-1].id)  # two who import the same file


async def test_a_failed_job_says_why(jobs: Jobs, shown: Shown) -> None:
    async def work(job: RunningJob) -> None:
        job.new_file("half.txt").write_text("ha")
        raise Refused(ErrorCode.NOT_FOUND, "There is no such run.", "Look.")

    begun = jobs.start("runs.export", work)
    await until(lambda: shown[-1].state == "failed")
    assert (shown[-1].error.message, shown[-1].error.remedy) == ("There is no such run.", "Look.")
    assert shown[-1].files == []
    assert not list(jobs.files._folder.iterdir())
    with pytest.raises(Refused, match="no such job"):
        await jobs.cancel(begun.id[1:])


async def test_cancelled_work_in_a_thread_ends_before_the_job_does(jobs: Jobs, shown: Shown) -> None:
    begun, ended = threading.Event(), threading.Event()

    def count(job: RunningJob) -> None:
        try:
            while True:
                job.tell("counting")
                begun.set()
        finally:
            ended.set()

    async def work(job: RunningJob) -> None:
        job.new_file("half.txt").touch()
        await job.in_thread(count, job)

    job = jobs.start("checkpoint.verify", work)
    await asyncio.to_thread(begun.wait, LIMIT_S)
    assert (await jobs.cancel(job.id)).state == "cancelled"
    assert ended.is_set()
    assert not list(jobs.files._folder.iterdir())


async def test_what_has_not_begun_is_cancelled_what_is_waited_for_is_not(jobs: Jobs, shown: Shown) -> None:
    async def work(_job: RunningJob) -> None:
        await asyncio.Event().wait()

    begun = [jobs.start("runs.export", work) for _ in range(jobs_module._MOST_RUNNING)]
    with pytest.raises(Refused, match="jobs are running already"):
        jobs.start("runs.export", work)
    assert (await jobs.cancel(begun[0].id)).state == "cancelled"
    gate = asyncio.Event()

    async def save() -> None:
        await gate.wait()

    saving = asyncio.create_task(jobs.run("run.stop", save()))
    await until(lambda: shown[-1].command == "run.stop")
    with pytest.raises(Refused, match="can't be cancelled"):
        await jobs.cancel(shown[-1].id)
    gate.set()
    await saving
    await jobs.close()
    assert {jobs.get(one.id).state for one in begun} == {"cancelled"}


_ASKED = """
import sys, time
from soulsgui.process import asked

with asked() as (request, send):
    print("the library says hello")
    send({"doing": "at it", "part": 0.5})
    if request["do"] == "fail":
        send({"error": {"message": "It is wrong.", "remedy": "Mend it."}})
    elif request["do"] == "die":
        sys.exit("out of luck")
    elif request["do"] == "hang":
        time.sleep(600)
    send({"report": request})
"""


@pytest.fixture
def process(tmp_path: Path) -> Work:
    """Makes work that a process does."""
    program = tmp_path / "asked.py"
    program.write_text(_ASKED)

    def of(do: str) -> Callable[[RunningJob], Awaitable[ClientCount]]:
        async def work(job: RunningJob) -> ClientCount:
            report = await job.in_process([sys.executable, str(program)], {"do": do, "count": 3})
            return ClientCount(count=report["count"])

        return work

    return of


@pytest.mark.processes
@pytest.mark.parametrize(
    ("do", "state", "message", "remedy"),
    [
        ("work", "done", "", ""),
        ("fail", "failed", "It is wrong.", "Mend it."),
        ("die", "failed", "Its process ended with exit code 1.", "out of luck"),
    ],
)
async def test_a_process_does_the_work(
    jobs: Jobs, shown: Shown, process: Work, do: str, state: str, message: str, remedy: str
) -> None:
    jobs.start("runs.export", process(do))
    await until(lambda: shown[-1].state != "running")
    ended = shown[-1]
    assert (ended.state, ended.result) == (state, {"count": 3} if state == "done" else {})
    if ended.error is not None:
        assert ended.error.message == message
        assert remedy in ended.error.remedy


@pytest.mark.processes
async def test_a_process_ends_with_its_job(jobs: Jobs, shown: Shown, process: Work) -> None:
    others = psutil.Process().children()
    job = jobs.start("runs.export", process("hang"))
    await until(lambda: shown[-1].progress == "at it")
    assert shown[-1].part == 0.5
    (child,) = (one for one in psutil.Process().children() if one not in others)
    await jobs.cancel(job.id)
    assert not child.is_running()
