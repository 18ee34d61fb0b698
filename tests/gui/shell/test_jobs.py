"""Commands that go on as jobs: what becomes of them, whatever comes first, and the line that shows them."""

from typing import Any

import pytest
from pytestqt.qtbot import QtBot

from soulsgui.gui.feed import DOWNLOAD, UPLOAD, Call, Feed
from soulsgui.gui.widgets.job_strip import JobStrip
from soulsgui.wire.control import (
    Exported,
    Job,
    JobChange,
    QueuedRun,
    RunStatus,
    RunSummary,
    ServerStatus,
    Snapshot,
    Status,
    StatusChange,
    StoredFile,
)
from tests.gui.fake_feed import HELLO, LIVE, FakeFeed, refusal

EXPORTED = Exported(name="a", checked="well")
FILE = StoredFile(id="f1", name="first.soulsrun", size_bytes=10)


def job(state: str = "running", **fields: Any) -> Job:
    told = {"id": "j1", "command": "runs.export", "state": state, "cancellable": state == "running"}
    return Job.model_validate(told | fields)


class Told:
    """What a call of a job has said."""

    def __init__(self, fake: FakeFeed, save_to: str = "") -> None:
        self.call = fake.job("runs.export", {"run": "r1"}, save_to)
        self.said: list[object] = []
        self.call.progressed.connect(self.said.append)
        self.call.done.connect(self.said.append)
        self.call.failed.connect(lambda error: self.said.append(error.message))
        self.call.dropped.connect(lambda: self.said.append("dropped"))

    def begun(self) -> "Told":
        self.call.answer(job(progress="begins").model_dump(mode="json"))
        return self


def test_it_is_done_when_its_job_is(fake: FakeFeed) -> None:
    told = Told(fake).begun()
    fake.change_job(job(progress="half"))
    fake.change_job(job(id="j2", progress="another of the same command"))
    fake.change_job(job("done", result=EXPORTED.model_dump()))
    assert told.said == ["begins", "half", EXPORTED]


def test_a_job_that_ended_before_its_command_was_answered_is_not_waited_for(fake: FakeFeed) -> None:
    told = Told(fake)
    fake.change_job(job("done", result=EXPORTED.model_dump()))
    told.begun()
    assert told.said == [EXPORTED]


@pytest.mark.parametrize(
    ("end", "said"),
    [(job("cancelled"), "dropped"), (job("failed", error=refusal("The disk is full.")), "The disk is full.")],
)
def test_one_that_fails_or_is_cancelled_says_so(fake: FakeFeed, end: Job, said: str) -> None:
    told = Told(fake).begun()
    fake.change_job(end)
    assert told.said[-1] == said


def test_its_file_is_fetched_before_it_counts_as_done(fake: FakeFeed) -> None:
    told = Told(fake, "/home/me/first.soulsrun").begun()
    fake.change_job(job("done", files=[FILE.model_dump()], result=EXPORTED.model_dump()))
    (fetch,) = fake.sent_of(DOWNLOAD)
    assert fetch.params == {"file": FILE, "path": "/home/me/first.soulsrun"}
    fetch.call.progressed.emit("half of it")
    assert told.said[-1] == "half of it"
    fetch.call.answer({})
    assert told.said[-1] == EXPORTED


def test_one_that_made_no_file_has_failed(fake: FakeFeed) -> None:
    told = Told(fake, "/home/me/first.soulsrun").begun()
    fake.change_job(job("done", result=EXPORTED.model_dump()))
    assert str(told.said[-1]).endswith("has made no file.")
    assert told.call.over


@pytest.mark.parametrize(
    ("begins", "ends"), [({"id": 7}, {}), (job().model_dump(mode="json"), {"checked": "well"})]
)
def test_neither_a_job_nor_its_result_is_taken_in_another_shape(
    fake: FakeFeed, begins: dict[str, Any], ends: dict[str, Any]
) -> None:
    told = Told(fake)
    told.call.answer(begins)
    fake.change_job(job("done", result=ends))
    assert "was not understood" in str(told.said)
    assert told.call.over


def test_a_file_is_brought_before_the_command_that_is_about_it(fake: FakeFeed) -> None:
    call = fake.job_with_file("runs.import", "/home/me/first.soulsrun")
    done: list[object] = []
    call.done.connect(done.append)
    (upload,) = fake.sent
    assert (upload.command, upload.params) == (UPLOAD, {"path": "/home/me/first.soulsrun"})
    upload.call.answer(FILE.model_dump())
    assert fake.sent_of("runs.import")[-1].params == {"file": "f1"}
    call.answer(job("done", command="runs.import", result={"id": "r9"}).model_dump(mode="json"))
    assert done == [RunSummary(id="r9")]


def test_of_many_snapshots_one_question_for_the_jobs_comes_at_a_time(qtbot: QtBot) -> None:
    feed = Feed()
    carried: list[Call] = []
    feed.greet(HELLO)
    feed.carry_with(lambda call, params: carried.append(call))
    for _ in range(300):
        feed.take(Snapshot(cursor=1, status=Status(server=ServerStatus(reachable=True))), "s")
    qtbot.waitUntil(lambda: bool(carried))
    assert [call.command for call in carried] == ["job.list"]
    feed.take(Snapshot(cursor=1, status=Status(server=ServerStatus(reachable=True))), "s")
    carried[0].answer({"jobs": []})
    qtbot.waitUntil(lambda: len(carried) == 2)


def test_after_a_gap_jobs_are_listed_anew_and_one_that_is_gone_has_failed(qtbot: QtBot) -> None:
    feed = Feed()
    carried: list[tuple[Any, dict[str, Any]]] = []
    feed.greet(HELLO)
    feed.take(Snapshot(cursor=1, status=Status(server=ServerStatus(reachable=True))), "s")
    feed.carry_with(lambda call, params: carried.append((call, params)))
    call = feed.job("runs.export", {"run": "r1"})
    said: list[str] = []
    call.failed.connect(lambda error: said.append(error.message))
    carried[-1][0].answer(job().model_dump(mode="json"))
    for jobs in ([job(progress="still")], []):
        feed.cursor = None
        feed.take(Snapshot(cursor=5, status=Status(server=ServerStatus(reachable=True))), "s")
        qtbot.waitUntil(lambda: carried[-1][0].command == "job.list" and not carried[-1][0].over)
        carried[-1][0].answer({"jobs": [one.model_dump(mode="json") for one in jobs]})
    assert said == ["s was restarted before it was done."]
    feed.take(JobChange(cursor=6, job=job("done")))
    feed.take(JobChange(cursor=7, job=job(progress="late")))
    assert feed.jobs["j1"].state == "done", "what has ended does not begin again"
    queued: list[object] = []
    feed.queue_changed.connect(queued.append)
    waits = [QueuedRun(number=4)]
    server = ServerStatus(reachable=True)
    feed.take(StatusChange(cursor=8, run=RunStatus(), services=[], server=server, queue=waits))
    assert queued == [waits] == [feed.status.queue]


def test_the_status_line_shows_what_goes_on_and_cancels_it(qtbot: QtBot, fake: FakeFeed) -> None:
    fake.connection = LIVE
    strip = JobStrip(fake)
    qtbot.addWidget(strip)
    assert strip.isHidden()
    fake.change_job(job(progress="writing curves", part=0.25))
    assert strip.words.text() == "Export: writing curves"
    assert strip.bar.value() == strip.bar.maximum() / 4
    played = "10 of 10 episodes filmed, 5,000 steps"
    fake.change_job(job(command="checkpoint.evaluate", progress=played))
    assert strip.words.text() == f"Playing: {played}"
    assert strip.words.toolTip() == "", "it is not cut"
    loading = {"command": "checkpoint.evaluate", "progress": "loading weights and environment"}
    beside = [job(id=name, **loading) for name in ("j2", "j3")]
    for one in beside:
        fake.change_job(one)
    assert strip.words.text() == "Playing: loading weights and environment (and 2 other jobs)"
    fake.change_job(beside[1].model_copy(update={"progress": played}))
    assert strip.words.text() == f"Playing: {played} (and 2 other jobs)"
    assert strip.words.toolTip() == "", "it is not cut"
    for one in beside:
        fake.change_job(one.model_copy(update={"state": "done"}))
    fake.change_job(job(progress="writing curves", part=1e308))
    assert strip.bar.value() == strip.bar.maximum()
    strip.cancel.click()
    assert fake.sent_of("job.cancel")[-1].params == {"job": "j1"}
    fake.change_job(job("cancelled"))
    assert strip.isHidden()
    fetch = fake.download(FILE, "/tmp/x")
    fetch.progressed.emit("1 MB of 2 MB are here")
    assert strip.words.text() == "Download: 1 MB of 2 MB are here"
    fake.sent_of("job.cancel")[-1].call.answer({})
    strip.cancel.click()
    assert fetch.over
    assert strip.isHidden()
