"""Chunks of a whole read have the very same outcome as chunks that come alone, whatever is mixed.

What is expected is told by a plain model that looks at one chunk after the other, and knows of each segment
only what was done to it when it was made.
"""

import itertools
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.experience.segments import Ints
from soulsgui.training.intake import chunks as ingest
from soulsgui.training.intake.checks import Codes
from soulsgui.training.intake.chunks import KEPT, KEPT_OF_A_KIND, Accepted, Owned, RejectRing, Steps
from soulsgui.training.intake.reader import Intake
from soulsgui.training.intake.sessions import REFUSED
from soulsgui.training.learners.membership import Round, Speeds
from soulsgui.training.learners.replay import ReplayLearner
from soulsgui.training.learners.rounds import RoundLearner
from soulsgui.wire.group_reader import Fields, StreamPart
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.node import HEAD_BYTES, Reject, Rejects
from soulsgui.wire.messages.session import SessionHello
from tests.training.taking import CONFIG, SPACES
from tests.wire.chunks import CONTRACT, RUN, chunk, segments

CLIENTS = ("a", "b", "c")
NEWEST = 5
LIMIT = 50  # refused segments in a row, after which a client is cut off

SPOILT: dict[str, dict[str, Any]] = {
    "": {},
    "late": {"model_id_first": 1, "model_id_last": 1},
    "lineage": {"digest": 8},
    "not_finite": {"reward": np.nan},
    "out_of_bounds": {"env_index": 9},
}
WHOLE = {
    "unreadable": lambda data: b"garbage",
    "other_run": lambda data: data[:8] + bytes(8) + data[16:],
    "protocol": lambda data: data[:4] + b"\x63" + data[5:],
    "shape": lambda data: data[:-1],
}

_marks = itertools.count()


@dataclass(frozen=True)
class Sent:
    """An entry, and what the model knows of it: `kind` is hello, odd, gone, chunk."""

    kind: str
    fields: Fields
    number: int | None = None
    whole: str = ""
    lengths: tuple[int, ...] = ()
    marks: tuple[int, ...] = ()
    spoilt: tuple[str, ...] = ()


def _chunk(number: int | None, whole: str, parts: list[tuple[int, str]]) -> Sent:
    lengths = tuple(length for length, _ in parts)
    marks = tuple(next(_marks) for _ in parts)
    made = segments(
        lengths, model_id=NEWEST, episode=np.array(marks), env_index=np.zeros(len(parts), np.int32)
    )
    starts = np.cumsum([0, *lengths])
    for n, (_, spoilt) in enumerate(parts):
        for name, value in SPOILT[spoilt].items():
            getattr(made, name)[int(starts[n]) if name == "reward" else n] = value
    data = WHOLE[whole](chunk(made)) if whole else chunk(made)
    fields = [b"c", data] + ([] if number is None else [b"n", b"%d" % number])
    return Sent("chunk", fields, number, whole, lengths, marks, tuple(spoilt for _, spoilt in parts))


def _hello(client: str) -> Sent:
    hello = SessionHello(client=client, instance=Instance(), run_id=RUN, contract=CONTRACT, num_envs=2)
    return Sent("hello", [b"hello", hello.to_json().encode()])


GOOD_PART = st.tuples(st.integers(1, 3), st.just(""))
PART = st.tuples(st.integers(1, 3), st.sampled_from(list(SPOILT)))
PARTS = st.one_of(
    st.lists(GOOD_PART, min_size=1, max_size=3),
    st.lists(PART, min_size=1, max_size=4),
    st.just([(1, "not_finite")] * 20),
)
WHAT = st.one_of(
    st.tuples(st.just("chunk"), st.sampled_from(["next", "next", "again", "skip", "none"]), PARTS),
    st.tuples(st.just("chunk"), st.just("next"), st.lists(GOOD_PART, min_size=1, max_size=3)),
    st.tuples(st.sampled_from([*WHOLE, "hello", "odd", "gone"])),
)


@st.composite
def _traffic(draw: st.DrawFn) -> dict[str, list[Sent]]:
    found = {}
    for client in CLIENTS:
        sent: list[Sent] = []
        number = 0
        for what in draw(st.lists(WHAT, max_size=12)):
            if what[0] == "hello":
                sent.append(_hello(client))
                number = 0
            elif what[0] in ("odd", "gone"):
                sent.append(Sent(what[0], [b"x", b"y"] if what[0] == "odd" else None))
            elif what[0] == "chunk":
                at = {"next": number, "again": max(number - 1, 0), "skip": number + 2, "none": None}[what[1]]
                number = number if at is None else max(at + 1, number)
                sent.append(_chunk(at, "", what[2]))
            else:
                sent.append(_chunk(number, what[0], [(2, "")]))
                number += 1
        found[client] = sent
    return found


AT_ONCE = st.one_of(st.none(), st.integers(1, 600))

Reads = list[dict[str, list[tuple[bytes, Sent]]]]


@st.composite
def _reads(draw: st.DrawFn) -> Reads:
    """Draw traffic, cut into reads: each brings some entries of some clients."""
    left = {
        client: [(b"1-%d" % n, one) for n, one in enumerate(sent)]
        for client, sent in draw(_traffic()).items()
    }
    # Who says hello before the round begins is a member of it.
    reads: Reads = [
        {client: [(b"0-1", _hello(client))] for client in draw(st.sets(st.sampled_from(CLIENTS)))}
    ]
    while any(left.values()):
        read = {}
        for client in CLIENTS:
            count = draw(st.integers(0, 8))
            if left[client][:count]:
                read[client] = left[client][:count]
                left[client] = left[client][count:]
        reads.append(read)
    return reads


@dataclass
class _Row:
    """What the model knows of one session."""

    status: str = "accepted"
    numbers: set[int] = field(default_factory=set)
    in_a_row: int = 0
    entries: int = 0


class Model:
    """Says what is to become of every entry: in rounds by the members' quotas, otherwise until the goal."""

    def __init__(self, quota: dict[str, int] | None, goal: int | None) -> None:
        self.goal, self.steps = goal, 0
        self.quota: dict[str, int] | None = None if quota is None else {}
        self._quota_of_round = quota
        self.rows: dict[str, _Row] = {}
        self.rejected: defaultdict[str, Counter[str]] = defaultdict(Counter)
        self.accepted: list[tuple[str, int]] = []
        self.dropped: defaultdict[str, list[str]] = defaultdict(list)

    def begin_round(self) -> None:
        self.quota = self._quota_of_round

    def take(self, client: str, sent: Sent) -> None:
        row = self.rows.get(client)
        if sent.kind == "gone":
            return
        if sent.kind == "hello":
            self.dropped[client].append("began a new session")
            self._leave(client)
            cut_off = row is not None and row.status == "quarantined"
            self.rows[client] = _Row(
                "quarantined" if cut_off else "accepted", in_a_row=row.in_a_row if row is not None else 0
            )
            return
        if row is None:
            self.rejected[client]["not_admitted"] += 1
            return
        row.entries += 1
        repeated = sent.number in row.numbers
        if sent.number is not None:
            row.numbers.add(sent.number)
        if row.status != "accepted":
            self.rejected[client]["not_admitted"] += 1
        elif repeated:
            self.rejected[client]["repeated"] += 1
        else:
            self._book(client, row, sent)

    def _book(self, client: str, row: _Row, sent: Sent) -> None:
        if sent.kind == "odd" or sent.whole:
            refused, good = Counter({sent.whole or "unreadable": 1}), []
        else:
            if self.goal is not None and self.steps >= self.goal:
                return
            refused, good = self._segments(client, sent)
        self.rejected[client].update(refused)
        if (sent.kind == "odd" or sent.whole) and row.in_a_row + 1 < LIMIT:
            self.dropped[client].append(REFUSED)
        self.accepted += [(client, mark) for mark in good]
        harmful = sum(refused.values()) - refused["late"]
        row.in_a_row = 0 if good else row.in_a_row + harmful
        if row.in_a_row >= LIMIT:
            row.status = "quarantined"
            self.dropped[client].append("quarantined")
            self._leave(client)

    def _segments(self, client: str, sent: Sent) -> tuple[Counter[str], list[int]]:
        refused: Counter[str] = Counter()
        good = []
        if self.quota is not None and client not in self.quota:
            return Counter({"late": len(sent.marks)}), []
        left, of_round, fitting = (self.quota or {}).get(client, 10**9), 0, 0
        for length, mark, spoilt in zip(sent.lengths, sent.marks, sent.spoilt, strict=True):
            of_round += 0 if spoilt == "late" else length
            if spoilt:
                refused[spoilt] += 1
                continue
            fitting += length
            if fitting > left:
                refused["not_admitted"] += 1
            else:
                good.append(mark)
                self.steps += length
        if self.quota is not None:
            self.quota[client] = left - of_round
        return refused, good

    def _leave(self, client: str) -> None:
        if self.quota is not None and self.quota.get(client, 0) > 0:
            del self.quota[client]


class _Recording:
    """What both learners share here: they write down what they are given."""

    def insert(self, accepted: Accepted) -> None:
        self._let_in = 0
        made = accepted.segments
        self.run.env_steps += made.steps
        self.given += [
            (accepted.names[number], int(mark))
            for number, mark in zip(accepted.clients, made.episode, strict=True)
        ]
        assert np.isfinite(made.reward).all()
        assert len(made.obs) == made.steps + made.count
        assert made.length.sum() == made.steps

    def refused_late(self, model_ids: Ints, lengths: Steps) -> None:
        assert len(model_ids) == len(lengths) > 0

    def lost(self, client: str, reason: str) -> None:
        self.dropped[client].append(reason)
        super().lost(client, reason)  # type: ignore[misc]

    def begin_round(self) -> None:
        """Without rounds there are none."""

    def _begin(self, goal: int | None = None) -> None:
        self.run: Any = SimpleNamespace(
            model_id=NEWEST,
            env_steps=0,
            spaces=SPACES,
            settings=SimpleNamespace(stop=SimpleNamespace(env_steps=goal)),
        )
        self.status: Any = SimpleNamespace(stop_reason="")
        self._let_in = 0
        self.given: list[tuple[str, int]] = []
        self.dropped: defaultdict[str, list[str]] = defaultdict(list)
        self.attempt: Any = SimpleNamespace(
            publisher=SimpleNamespace(digests={3: 7, 4: 7, NEWEST: 7}, tell_all=lambda *_: None),
            intake=SimpleNamespace(sessions=SimpleNamespace(by_client={}), eligible=dict),
        )


class Synchronous(_Recording, RoundLearner):
    def __init__(self, quota: dict[str, int]) -> None:
        self._begin()
        self.speeds = Speeds()
        self._untold: set[str] = set()
        self.round = None
        self._quota = quota

    def begin_round(self) -> None:
        self.round = Round.begin(NEWEST, 1, 10.0, self._quota)


class Asynchronous(_Recording, ReplayLearner):
    def __init__(self, goal: int | None) -> None:
        self._begin(goal)
        self.delays: Any = SimpleNamespace(max_model_delay=2)
        self._lockstep = None


class _Streams:
    """Hands out what a test has made, in the place of a reader of streams."""

    def __init__(self, reads: Iterator[list[StreamPart]]) -> None:
        self._reads = reads
        self.over = self.up_to_date = False

    def read_parts(self, connection: object, block_ms: int) -> list[StreamPart]:
        found = next(self._reads, None)
        self.over = found is None
        return found or []

    def take_unusable(self) -> list[str]:
        return []

    def take_begun_anew(self) -> list[str]:
        return []

    def acknowledge_parts(self, connection: object, parts: list[StreamPart]) -> None:
        pass


def _taken(reads: Reads, sink: Any, at_once: int | None = None) -> Intake:
    """Let an intake take what was read; `at_once` bytes are opened at once, as if they were compressed."""
    parts = (
        [
            StreamPart(client, [entry for entry, _ in found], [sent.fields for _, sent in found])
            for client, found in read.items()
        ]
        for read in reads
    )
    intake = Intake(Keys(), CONFIG, SPACES, sink.attempt.publisher, 10**6, sink)
    if at_once is not None:
        opens: Any = SimpleNamespace(is_compressed=True, opened_size=len, open=intake.ingest._form.open)
        intake.ingest._form = opens
    streams: Any = _Streams(iter(parts))
    intake.reader = streams
    connection: Any = None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ingest, "_OPENED_AT_ONCE", at_once)
        intake.take(connection, 0)
        sink.begin_round()
        while not streams.over:
            intake.take(connection, 0)
    return intake


def _read(*sent: Sent) -> dict[str, list[tuple[bytes, Sent]]]:
    return {"a": [(b"1-%d" % n, one) for n, one in enumerate(sent)]}


def _compare(reads: Reads, sink: Any, model: Model, at_once: int | None) -> None:
    intake = _taken(reads, sink, at_once)
    for number, read in enumerate(reads):
        for client, found in read.items():
            for _, sent in found:
                model.take(client, sent)
        if number == 0:
            model.begin_round()
    rejected = {client: dict(counts) for client, counts in model.rejected.items() if counts}
    assert intake.sessions.refusals().by_client == rejected
    assert sink.given == model.accepted
    assert sink.dropped == model.dropped
    for client, row in model.rows.items():
        session = intake.sessions.by_client[client]
        assert (session.status, session.in_a_row, session.entries) == (row.status, row.in_a_row, row.entries)
        assert session.numbers.missing == max(row.numbers, default=-1) + 1 - len(row.numbers)


@pytest.mark.allow_warnings
@settings(max_examples=60)
@given(_reads(), st.fixed_dictionaries({client: st.integers(1, 40) for client in CLIENTS}), AT_ONCE)
def test_reads_in_rounds_are_chunks_alone(reads: Reads, quota: dict[str, int], at_once: int | None) -> None:
    _compare(reads, Synchronous(quota), Model(dict(quota), None), at_once)


@pytest.mark.allow_warnings
@settings(max_examples=60)
@given(_reads(), st.one_of(st.none(), st.integers(1, 60)), AT_ONCE)
def test_reads_without_rounds_are_chunks_alone(reads: Reads, goal: int | None, at_once: int | None) -> None:
    _compare(reads, Asynchronous(goal), Model(None, goal), at_once)


@pytest.mark.allow_warnings
@pytest.mark.parametrize("at_once", [None, 1])
def test_who_is_cut_off_within_a_read_delivers_no_more_and_late_segments_use_up_no_quota(
    at_once: int | None,
) -> None:
    bad = [_chunk(n, "", [(1, "not_finite")] * 20) for n in range(3)]
    cut_off = _read(_hello("a"), *bad, _chunk(3, "", [(2, "")]))
    _compare([cut_off], Asynchronous(None), Model(None, None), at_once)
    late = _read(_chunk(0, "", [(2, "late"), (2, "")]), _chunk(1, "", [(2, "")]))
    _compare([{"a": [(b"0-1", _hello("a"))]}, late], Synchronous({"a": 4}), Model({"a": 4}, None), at_once)


def test_no_more_is_opened_at_once_than_fits() -> None:
    sent = [_chunk(n, "", [(2, "")]) for n in range(7)]
    sink, opened = Asynchronous(None), []
    judge = sink.judge

    def listen(owned: Owned) -> Codes:
        opened.append(owned.segments.count)
        return judge(owned)

    sink.judge = listen  # type: ignore[method-assign]
    _taken([_read(_hello("a"), *sent)], sink, 3 * len(sent[0].fields[1]))
    assert opened == [3, 3, 1]
    assert sink.run.env_steps == 14


def test_what_comes_again_after_a_lost_acknowledgement_is_taken_once_and_no_fault() -> None:
    sent = [_hello("a"), _chunk(0, "", [(2, "")]), _chunk(None, "", [(3, "")])]
    more = {"a": [*_read(*sent)["a"][1:], (b"1-3", _chunk(1, "", [(1, "")]))]}
    sink = Asynchronous(None)
    intake = _taken([_read(*sent), _read(*sent), more], sink)
    assert sink.run.env_steps == 2 + 3 + 1
    assert intake.sessions.refusals().total == {}
    assert intake.sessions.by_client["a"].entries == 3


def _ring(keys: Keys, run: str = "run-1") -> RejectRing:
    return RejectRing(keys, run, clock=lambda: 12.5)


def _written(connection: redis.Redis, keys: Keys) -> list[Reject]:
    found = Rejects.read(connection.get(keys.rejects))
    return [] if found is None else found.rejects


def test_beginnings_of_what_was_refused_are_written_and_read(redis_client: redis.Redis, keys: Keys) -> None:
    sent = [
        _hello("a"),
        _chunk(0, "unreadable", [(2, "")]),
        _chunk(1, "", [(2, ""), (1, "late"), (2, "late"), (1, "lineage")]),
        _chunk(1, "", [(2, "")]),
    ]
    kept = list(_taken([_read(*sent)], Asynchronous(None)).rejects._ring)
    told = [(one.entry, one.reason, one.segments) for one in kept]
    assert told == [("1-1", "unreadable", 1), ("1-2", "late", 3), ("1-3", "repeated", 1)]
    assert (kept[0].client, bytes.fromhex(kept[0].head), kept[0].size) == ("a", b"garbage", 7)
    assert len(kept[1].head) == 2 * 64
    ring = _ring(keys)
    ring.flush(redis_client, 0.0)
    assert _written(redis_client, keys) == []
    ring.add("c", b"1-5", b"\x80pickle" + bytes(10_000), "unreadable", detail="not a\nchunk")
    ring.flush(redis_client, 1.0)
    (one,) = _written(redis_client, keys)
    assert (one.client, one.entry, one.time, one.size) == ("c", "1-5", 12.5, 10_007)
    assert bytes.fromhex(one.head) == (b"\x80pickle" + bytes(100))[:HEAD_BYTES]
    assert one.detail == "not a chunk"
    ring.add("c", b"1-6", b"x", "shape")
    for now, count in ((1.1, 1), (2.0, 2)):
        ring.flush(redis_client, now)
        assert len(_written(redis_client, keys)) == count
    following, other = _ring(keys), _ring(keys, "run-2")
    following.load(redis_client)
    other.load(redis_client)
    assert (len(following), len(other)) == (2, 0), "the next trainer of the run goes on with it"
    redis_client.delete(keys.rejects)
    ring.flush(redis_client, 9.0)  # nothing has changed
    assert not redis_client.exists(keys.rejects)
    redis_client.lpush(keys.rejects, "something else")
    following.load(redis_client)
    assert len(following) == 2


def test_the_ring_is_bounded_and_who_always_fails_hides_nobody(redis_client: redis.Redis, keys: Keys) -> None:
    loud, many = _ring(keys), _ring(keys)
    loud.add("quiet", b"1-0", b"x", "late")
    for number in range(1000):
        loud.add("loud", b"2-%d" % number, b"x", "shape")
        many.add(f"c{number}", b"1-%d" % number, bytes(1000), "shape", detail="x" * 10_000)
    loud.flush(redis_client, 1.0)
    kept = [(one.client, one.entry) for one in _written(redis_client, keys)]
    assert kept == [
        ("quiet", "1-0"), *(("loud", f"2-{number}") for number in range(1000 - KEPT_OF_A_KIND, 1000)),
    ]  # fmt: skip
    many.flush(redis_client, 1.0)
    entries = [one.entry for one in _written(redis_client, keys)]
    assert entries == [f"1-{number}" for number in range(1000 - KEPT, 1000)]
    assert redis_client.strlen(keys.rejects) < 1000 * KEPT
