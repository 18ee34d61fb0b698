"""R13, R14: many clients come at once, and come back at once after the server has gone."""

import statistics
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.end_to_end.live_table import TICKS_PER_S, LiveTable
from tests.end_to_end.server import RunningServer, wait_for
from tests.faults.report import Report

KEYS = Keys("souls:")
CONNECTED_WITHIN_S = 5.0
BACK_WITHIN_S = 15.0
TABLE_LIMIT_S = 5.0
"""Who was not told of for so long is shown as late."""
MANY = 1000
COUNTS = [40, pytest.param(MANY, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RunningServer]:
    server = RunningServer(
        tmp_path,
        (
            "--preset", "cartpole_dqn", "--local-clients", "1", "--set", "stop.mean_return=null",
            "--set", "dqn.replay_ratio=1", "--set", "client.step_seconds=0.01",
            "--set", "dqn.learning_starts=100",
        ),
    )  # fmt: skip
    server.wait_updates(1)
    yield server
    server.close()


def beats(server: RunningServer, count: int) -> list[Heartbeat]:
    """What each simulated client says of itself; fewer while the server is away or some are not there."""
    names = [KEYS.beat(f"sim-{number}") for number in range(1, count + 1)]
    texts: list[Any] = []
    with closing(server.redis()) as connection, suppress(OSError, redis.RedisError):
        texts = connection.mget(names)
    return [beat for beat in map(Heartbeat.read, texts) if beat is not None]


def sent(server: RunningServer, count: int) -> dict[str, tuple[str, int]]:
    """Session and chunks sent of each client that has sent any in it."""
    return {
        beat.client: (beat.session, beat.sent_chunks) for beat in beats(server, count) if beat.sent_chunks
    }


@pytest.mark.parametrize("count", COUNTS)
def test_many_clients_come_at_once_are_seen_and_trained_with_and_are_back_after_a_restart_of_the_server(
    server: RunningServer, report: Report, count: int
) -> None:
    server.spawn("client", "--name", "sim", "--simulate", str(count), "--rate", "1")
    wait_for(lambda: beats(server, count), "the first of them")
    began = time.perf_counter()
    wait_for(
        lambda: sum(bool(beat.session) for beat in beats(server, count)) == count, "all are in a session"
    )
    connected_s = time.perf_counter() - began
    wait_for(lambda: len(sent(server, count)) == count, "chunks of all clients")
    wait_for(lambda: [one.state for one in server.status().clients] == ["online"] * (count + 1), "all shown")
    table = LiveTable(ControlFile.load(server.data / "server" / CONTROL_FILE))
    try:
        wait_for(lambda: table.watch(0.5).rows == count + 1, "the snapshot")
        seen = table.watch(4.0 if count == MANY else 1.0)
    finally:
        table.close()
    report.injected(
        f"{count} clients at once; a window draws their table {seen.ticks_per_s:.1f} times a second, in "
        f"{statistics.median(seen.ticks_s) * 1000:.0f} ms each, with news of all of the last "
        f"{max(seen.news_s):.1f} s"
    )
    report.recovered(connected_s)
    assert seen.rows == count + 1
    if count == MANY:  # run by itself: beside other tests the clock says nothing
        assert connected_s <= CONNECTED_WITHIN_S
        assert seen.ticks_per_s >= 0.9 * TICKS_PER_S
        assert max(seen.news_s) < TABLE_LIMIT_S
    server.wait_updates(10)
    run = server.status().run
    report.lost(run.lost_chunks, "chunks by their numbers")
    assert not run.rejected

    before = sent(server, count)
    report.injected(f"Redis killed under {count} clients")
    began = time.perf_counter()
    server.kill("redis")

    def all_went_on() -> bool:
        now = sent(server, count)
        return len(now) == count and all(found != before[name] for name, found in now.items())

    wait_for(all_went_on, "all clients send again")
    back_s = time.perf_counter() - began
    report.recovered(back_s)
    server.wait_updates(10)
    report.lost(server.status().run.lost_chunks, "chunks by their numbers")
    assert back_s <= BACK_WITHIN_S or count < MANY
