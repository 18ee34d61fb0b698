"""Ids of entries (R31): whatever restarts or is refused, all arrives once, at a real intake."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.sampling.uploader import Credit, StreamEntry, StreamSession
from soulsgui.wire.connection import connect
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.chunk import NUMBER_FIELD
from soulsgui.wire.messages.session import CHUNK_FIELD, SessionHello
from tests.faults.report import Report
from tests.faults.server import FaultyServer, faulty_server
from tests.training.taking import IntakeOfTest
from tests.wire.chunks import CONTRACT, RUN, chunk, segments

STEPS = segments().steps
ALL = Credit(1000, 2**40, 2**40)


@pytest.fixture(params=[True, False], ids=["keeps its data", "loses its data"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FaultyServer]:
    with faulty_server(tmp_path, request.param) as made:
        yield made


class Pair:
    """A trainer's intake and a client's stream on one server."""

    def __init__(self, server: FaultyServer) -> None:
        self.server = server
        self.keys = Keys(server.address.prefix)
        self.connection = connect(server.address)
        self.connection.hset(self.keys.clients, "c", "{}")
        self.trainer = IntakeOfTest(self.connection, self.keys)
        self.client = self.new_client()
        self.sent = 0

    def new_client(self) -> StreamSession:
        hello = SessionHello(client="c", instance=Instance(), run_id=RUN, contract=CONTRACT, num_envs=2)
        client = StreamSession(self.keys.chunks("c"), hello.to_json, CHUNK_FIELD, NUMBER_FIELD)
        client.begin(self.connection)
        return client

    def push(self, count: int) -> None:
        for _ in range(count):
            self.client.waiting.add(StreamEntry(chunk(), STEPS))
        self.sent += count
        self.client.flush(self.connection, ALL)

    def restart(self, kept_bytes: int | None = None) -> float:
        """Kill the server and start it again, and let both sides find out; return how long that took.

        Args:
            kept_bytes: How much of what it had written a power cut left; None for all.
        """
        began = time.monotonic()
        if kept_bytes is None:
            self.server.restart()
        else:
            self.server.restart_with(kept_bytes)
        self.connection.close()
        self.connection.hset(self.keys.clients, "c", "{}")
        self.trainer.intake.start_over(self.connection)
        self.client.unsure = True
        self.client.settle(self.connection)
        if self.client.session is None:
            self.client.begin(self.connection)
        return time.monotonic() - began

    def arrived(self) -> int:
        """Let the trainer take what came; return how many chunks it has taken in all."""
        self.trainer.turn()
        return self.trainer.used["c"] // STEPS


@pytest.fixture
def pair(server: FaultyServer) -> Iterator[Pair]:
    made = Pair(server)
    yield made
    made.connection.close()


@pytest.mark.allow_warnings
def test_whoever_restarts_and_whatever_was_trimmed_all_arrives_once(pair: Pair, report: Report) -> None:
    for _ in range(3):
        pair.push(3)
        pair.trainer.turn()
        pair.client = pair.new_client()  # its numbers begin anew
        pair.push(2)
        report.injected("a restart of a client")
        pair.trainer.turn()
        assert pair.connection.xlen(pair.keys.chunks("c")) == 0
        pair.client.unsure = True  # and then a reply may have been lost
        pair.client.settle(pair.connection)
        report.injected("a trim of all that was sent, with a lost connection")
        pair.push(4)
        if not pair.server.keeps_data:
            pair.trainer.turn()  # what was not read is gone with it
        report.recovered(pair.restart())
        report.injected("a kill of the server")
        pair.push(2)
        pair.trainer.turn()
    assert pair.arrived() == pair.sent
    report.lost(0, f"of {pair.sent} chunks")
    assert pair.trainer.rejected() == {}
    assert pair.trainer.intake.sessions.refusals().missing == 0


@pytest.mark.allow_warnings
@pytest.mark.parametrize("server", [True], indirect=True, ids=["keeps its data"])
@pytest.mark.parametrize("torn", [0, 5], ids=["between two entries", "within an entry"])
def test_what_a_power_cut_took_is_a_gap_that_is_counted(pair: Pair, report: Report, torn: int) -> None:
    """The disk had not got the last second yet (R4): the server comes back without it."""
    pair.push(4)
    pair.trainer.turn()
    kept = pair.server.written_bytes
    pair.push(3)
    report.injected("a power cut that takes the last 3 chunks")
    report.recovered(pair.restart(kept + torn))
    pair.push(2)
    assert pair.arrived() == 6
    missing = pair.trainer.intake.sessions.refusals().missing
    report.lost(missing, "chunks, counted by their numbers")
    assert missing == 3
    assert pair.trainer.rejected() == {}
