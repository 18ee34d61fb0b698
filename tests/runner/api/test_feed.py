"""The feed: gapless for those who keep up, a snapshot for those who don't, bounded for all."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from soulsgui.runner.api.feed import FeedBuffer, FeedPublisher, Watcher
from soulsgui.wire.control import (
    FEED_MESSAGE,
    ClientStatus,
    Event,
    EventChange,
    FeedMessage,
    Picture,
    RunStatus,
    ServerStatus,
    ServiceStatus,
    Snapshot,
    Status,
)
from tests.faults.waiting import LIMIT_S


def feed(**limits: int) -> FeedBuffer:
    return FeedBuffer(lambda cursor: Snapshot(cursor=cursor, status=Status()), first_cursor=100, **limits)


def push(target: FeedBuffer, count: int = 1) -> None:
    for _ in range(count):
        target.push(EventChange, event=Event(number=1, time=0.0, level="info", what="x"))


async def take(messages: AsyncIterator[str], count: int) -> list[FeedMessage]:
    async with asyncio.timeout(LIMIT_S):
        return [FEED_MESSAGE.validate_json(await anext(messages)) for _ in range(count)]


async def test_new_window_begins_with_a_snapshot_and_one_that_comes_back_gets_what_it_missed() -> None:
    source = feed()
    push(source, 3)
    messages = source.follow(None)
    (snapshot,) = await take(messages, 1)
    assert (snapshot.type, snapshot.cursor) == ("snapshot", 103)
    push(source, 2)
    assert [message.cursor for message in await take(messages, 2)] == [104, 105]
    push(source, 145)
    assert [message.cursor for message in await take(source.follow(120), 130)] == list(range(121, 251))
    for of_an_earlier_runner_or_the_future in (5, 99, 500):
        (first,) = await take(source.follow(of_an_earlier_runner_or_the_future), 1)
        assert first.type == "snapshot"
    assert (await take(source.follow(100), 1))[0].type == "event"


async def test_cursors_of_two_runners_never_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1000.0)
    first = FeedBuffer(lambda cursor: Snapshot(cursor=cursor, status=Status()))
    push(first, 100)
    monkeypatch.setattr(time, "time", lambda: 1000.001)
    second = FeedBuffer(lambda cursor: Snapshot(cursor=cursor, status=Status()))
    assert not second.holds_after(first.cursor)


async def test_window_that_falls_behind_gets_a_snapshot_and_memory_stays_bounded() -> None:
    source = feed(max_messages=10)
    messages = source.follow(None)
    await take(messages, 1)
    push(source, 1000)
    assert len(source._ring) == 10
    (snapshot,) = await take(messages, 1)
    assert (snapshot.type, snapshot.cursor) == ("snapshot", 1100)


class Collected(FeedBuffer):
    """Remembers what was pushed."""

    def __init__(self) -> None:
        super().__init__(lambda cursor: Snapshot(cursor=cursor, status=Status()))
        self.pushed: list[dict[str, Any]] = []

    def push(self, kind: Any, **fields: Any) -> None:
        self.pushed.append(fields)


def status(**fields: Any) -> Status:
    service = ServiceStatus(name="redis", kind="redis", state="running", uptime_s=fields.pop("uptime_s", 1.0))
    return Status(run=RunStatus(**fields), services=[service], server=ServerStatus())


async def test_state_is_published_when_it_changed_and_what_time_alone_moves_once_a_second() -> None:
    target = Collected()
    publisher = FeedPublisher(target)
    publisher.status(status(state="running"), 0.0)
    publisher.status(status(state="running"), 0.2)
    publisher.status(status(state="paused"), 0.4)
    assert [fields["run"].state for fields in target.pushed] == ["running", "paused"]
    target = Collected()
    publisher = FeedPublisher(target)
    for tick in range(21):
        publisher.status(status(seconds=tick / 5, uptime_s=tick / 5), tick / 5)
    assert len(target.pushed) == 5


async def test_what_moves_with_the_training_is_published_twice_a_second_and_how_it_stands_at_once() -> None:
    target = Collected()
    publisher = FeedPublisher(target)
    for tick in range(20):
        publisher.status(status(state="running", updates=tick, env_steps=100 * tick), tick / 10)
    assert [fields["run"].updates for fields in target.pushed] == [0, 5, 10, 15]
    publisher.status(status(state="running", updates=20, wished_pause=True), 2.0)
    publisher.status(status(state="paused", updates=20, wished_pause=True), 2.1)
    publisher.status(status(state="paused", updates=21, wished_pause=True), 2.2)
    assert [fields["run"].updates for fields in target.pushed[4:]] == [20, 20, 21]


def told(target: Collected) -> list[tuple[list[str], list[str]]]:
    """Return the names of the clients that each message tells as changed and as removed."""
    return [
        ([client.id for client in fields["changed"]], fields.get("removed", [])) for fields in target.pushed
    ]


async def test_clients_are_published_as_changes() -> None:
    target = Collected()
    publisher = FeedPublisher(target)
    one = ClientStatus(id="a", name="a", age_s=0.1)
    two = ClientStatus(id="b", name="b", age_s=0.1)
    publisher.clients([one, two])
    publisher.clients([one.model_copy(update={"age_s": 0.6}), two])
    publisher.clients([one.model_copy(update={"age_s": 6.0, "state": "late"}), two])
    publisher.clients([two])
    assert told(target) == [(["a", "b"], []), (["a"], []), ([], ["a"])]
    # The age of a lost one is renewed ever more rarely.
    for second in range(1000):
        publisher.clients([ClientStatus(id="a", name="a", state="lost", age_s=float(second))])
    assert len(target.pushed) < 63


def picture(step: int) -> Picture:
    return Picture(episode=0, step=step, return_so_far=1.0, jpeg="AAAA")


async def test_pictures_go_to_who_watches_and_the_newest_alone_to_who_is_slow() -> None:
    source, watcher = feed(), Watcher()
    watching, other = source.follow(None, watcher), source.follow(None)
    await take(watching, 1)
    await take(other, 1)
    source.show("j", picture(0))
    assert source.pace("j") is None  # dropped: nobody looks
    watcher.jobs = {"j": 0.5, "k": 1.0}
    assert source.pace("j") == 0.5
    for step in range(1, 100):
        source.show("j", picture(step))
    source.show("k", picture(7))
    push(source)
    event, shown, beside = await take(watching, 3)
    assert (event.cursor, shown.cursor, shown.job, shown.picture.step) == (101, 101, "j", 99)
    assert (beside.cursor, beside.job, beside.picture.step) == (101, "k", 7)
    # They are in nobody's way, and never sent again.
    assert source.holds_after(100)
    assert (await take(other, 1))[0] == event
    push(source)
    assert (await take(watching, 1))[0].cursor == 102
    source.show("j", picture(100))
    source.show("j", None)
    push(source)
    assert (await take(watching, 1))[0].cursor == 103
    await watching.aclose()
    assert source.pace("j") is None
    await other.aclose()
    assert source.followers == 0


async def test_many_clients_are_told_a_part_at_a_time() -> None:
    target = Collected()
    names = [f"client-{number:04}" for number in range(1100)]
    FeedPublisher(target).clients([ClientStatus(id=name, name=name) for name in names])
    parts = [changed for changed, _ in told(target)]
    assert [len(part) for part in parts] == [500, 500, 100]
    assert [name for part in parts for name in part] == names
