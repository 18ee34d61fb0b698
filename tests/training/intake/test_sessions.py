"""Sessions of clients: who is let in and who is cut off, credits, exploration, what was refused."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.config.sections.run import MAX_NUM_ENVS
from soulsgui.training.intake.sessions import (
    ENTRIES_AHEAD,
    ChunkNumbers,
    ClientExploration,
    Exploration,
    Session,
    Sessions,
    Shares,
)
from soulsgui.wire.keys import PROTOCOL, EntryId
from soulsgui.wire.messages.base import Instance
from soulsgui.wire.messages.heartbeat import Heartbeat
from soulsgui.wire.messages.session import Grant, Ladder, RoundShare, SessionHello

AHEAD = 1_000_000
LATER = EntryId(10**15, 0)  # behind every hello of these tests


def _hello(**changed: Any) -> SessionHello:
    said = {"client": "c", "instance": Instance(), "run_id": "run-1", "contract": "contract-1", "num_envs": 3}
    return SessionHello(**(said | changed))


def _grant(**changed: Any) -> Grant:
    told = {"session": "1-0", "status": "accepted", "credit_entries": 50, "credit_bytes": 700}
    return Grant(**(told | changed))


def _beat(**changed: Any) -> Heartbeat:
    said = {"client": "c", "instance": Instance(), "counter": 1, "session": "1-0", "run_id": "run-1"}
    return Heartbeat(**(said | {"num_envs": 3, "sent_chunks": 40, "sent_bytes": 600} | changed))


@pytest.fixture
def sessions() -> Sessions:
    return Sessions("run-1", "contract-1", AHEAD)


@pytest.fixture
def session(sessions: Sessions) -> Session:
    return _admitted(sessions)


def _admitted(sessions: Sessions, client: str = "c", ms: int = 1) -> Session:
    return sessions.hello(client, EntryId(ms, 0), _hello(client=client), now=5.0)


def test_nobody_but_an_inference_server_speaks_for_others(sessions: Sessions) -> None:
    served = {"b": 4, "a": 0}
    for client, expected in (("c", {}), ("inference-1", served)):
        session = sessions.hello(client, LATER, _hello(client=client, serves=True, served=served), now=5.0)
        assert session.served == expected
    assert list(session.served) == ["a", "b"]


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (None, "can't be read"),
        (_hello(client="d"), "calls itself “d”"),
        (_hello(client="x\n" * 1000), "calls itself"),
        (_hello(protocol=PROTOCOL + 1), f"speaks protocol {PROTOCOL + 1}"),
        (_hello(contract="other"), "spaces differ"),
        (_hello(num_envs=5), "4 at most (start it with a smaller --num-envs or a smaller ppo.n_steps)"),
    ],
)
@pytest.mark.allow_warnings
def test_bad_hellos_are_refused_in_words(sessions: Sessions, hello: SessionHello | None, reason: str) -> None:
    sessions.most_envs = 4
    session = sessions.hello("c", EntryId(1, 0), hello, 0.0)
    grant = session.grant(AHEAD)
    assert (grant.status, session.status, session.plays) == ("refused", "refused", False)
    assert reason in grant.reason
    assert len(grant.reason) < 200
    assert "\n" not in grant.reason


@pytest.mark.allow_warnings
def test_a_client_has_as_many_environments_as_the_setting_allows_and_an_inference_server_those_of_all(
    sessions: Sessions,
) -> None:
    many, all_of_them = _hello(num_envs=MAX_NUM_ENVS + 1), MAX_NUM_ENVS + 1
    refused = sessions.hello("c", EntryId(1, 0), many, 0.0)
    assert (refused.status, "4,096 at most (start it with a smaller --num-envs)" in refused.reason) == (
        "refused",
        True,
    )
    assert sessions.hello("c", EntryId(2, 0), _hello(num_envs=MAX_NUM_ENVS), 0.0).status == "accepted"
    server = _hello(client="inference-1", num_envs=all_of_them, serves=True)
    assert sessions.hello("inference-1", EntryId(3, 0), server, 0.0).status == "accepted"
    assert sessions.readmit("d", _grant(), _beat(num_envs=all_of_them), EntryId(1, 40), 0.0) is None


@pytest.mark.allow_warnings
def test_who_is_too_old_is_told_what_to_update() -> None:
    sessions = Sessions("run-1", "contract-1", AHEAD, {"soulsgui": "0.3", "soulsgym": "1.2"})
    old = {"soulsgui": "0.2.9", "numpy": "2.0"}
    refused = sessions.hello("c", EntryId(1, 0), _hello(versions=old), 0.0)
    assert refused.status == "refused"
    assert refused.reason == (
        "update needed: soulsgui 0.2.9 is older than 0.3; soulsgym is missing, 1.2 or newer is needed"
    )
    new = {"soulsgui": "0.10", "soulsgym": "1.2.0"}
    assert sessions.hello("c", EntryId(2, 0), _hello(versions=new), 0.0).status == "accepted"
    # A greeting to another run is told from what is refused.
    others = [_hello(run_id="old"), _hello(run_id="old", contract="other")]
    ours = [None, _hello(), _hello(contract="other"), _hello(run_id="old", protocol=PROTOCOL + 1)]
    assert [sessions.is_of_another_run(hello) for hello in others + ours] == [True] * 2 + [False] * 4


def test_a_new_hello_fences_the_older_session(sessions: Sessions, session: Session) -> None:
    assert (session.status, session.id, session.num_envs, session.began_at) == ("accepted", "1-0", 3, 5.0)
    assert sessions.by_client == {"c": session}
    session.refuse({"shape": 2}, 0)
    assert [session.received(10, number) for number in (5, 5, None, None)] == [True, False, True, True]
    newer = _admitted(sessions, ms=2)
    assert (sessions.by_client, newer.entries) == ({"c": newer}, 0)
    refusals = sessions.refusals()
    assert (refusals.by_client, refusals.missing) == ({"c": {"shape": 2}}, 5)


def test_a_session_goes_on_after_a_restart_of_the_trainer(sessions: Sessions) -> None:
    beat = _beat(sent_steps=450)
    session = sessions.readmit("c", _grant(credit_steps=500), beat, EntryId(1, 40), now=3.0)
    assert (session.id, session.num_envs, sessions.by_client) == ("1-0", 3, {"c": session})
    for last in (EntryId(1, 39), EntryId(1, 40)):  # counted before
        session.received(10, None, last)
        session.received_steps(7, last)
    assert (session.entries, session.size, session.steps) == (40, 600, 450)
    grant = session.grant(AHEAD, 100)
    # As far ahead of what the client has sent as anybody may be: a restart does not widen its credit.
    assert (grant.credit_entries, grant.credit_bytes) == (40 + ENTRIES_AHEAD, 600 + AHEAD)
    assert grant.credit_steps == 550
    assert session.received(10, 17, EntryId(1, 41))
    session.received_steps(7, EntryId(1, 41))
    assert (session.entries, session.size, session.steps) == (41, 610, 457)
    assert session.numbers.missing == 0
    # Nobody gets more than was granted by telling of more.
    beat = _beat(sent_steps=2**50, sent_chunks=2**50, sent_bytes=2**50)
    session = sessions.readmit("c", _grant(credit_steps=500), beat, EntryId(1, 40), now=3.0)
    assert (session.entries, session.size, session.steps) == (50, 700, 500)
    session = _admitted(sessions, ms=2)
    session.grant(AHEAD, 100)
    for _ in range(2):
        session.look_for_losses(beat)
    assert (session.entries, session.size, session.steps) == (ENTRIES_AHEAD, AHEAD, 100)


@pytest.mark.parametrize(
    ("grant", "beat"),
    [
        ({"status": "refused"}, {}),
        ({"session": "2-0"}, {}),
        ({}, {"session": ""}),
        ({}, {"run_id": "other"}),
        ({}, {"leaving": True}),
        ({}, {"num_envs": 0}),
    ],
)
def test_what_is_over_stays_so(sessions: Sessions, grant: dict[str, Any], beat: dict[str, Any]) -> None:
    assert sessions.readmit("c", _grant(**grant), _beat(**beat), EntryId(1, 40), 0.0) is None
    assert sessions.by_client == {}


@pytest.mark.parametrize("beat", [{}, {"leaving": True}])
@pytest.mark.parametrize("reason", ["NaN", ""])
def test_a_quarantine_outlives_the_trainer(sessions: Sessions, beat: dict[str, Any], reason: str) -> None:
    grant = _grant(status="quarantined", reason=reason)
    session = sessions.readmit("c", grant, _beat(**beat), EntryId(1, 40), 0.0)
    if session is None:  # its process has ended: the next one
        session = _admitted(sessions, ms=2)
    assert (session.status, session.reason) == ("quarantined", reason)


def test_credits_are_totals_since_the_hello_and_renewed_when_half_is_used_up(session: Session) -> None:
    first = session.grant(AHEAD)
    assert (first.credit_bytes, first.session, first.credit_steps) == (AHEAD, "1-0", None)
    assert not session.needs_credit(AHEAD)
    session.received(AHEAD // 2 + 1, 0)
    assert session.needs_credit(AHEAD)
    second = session.grant(AHEAD)
    assert second.credit_bytes == AHEAD + AHEAD // 2 + 1
    assert second.credit_entries == first.credit_entries + 1
    assert session.grant(AHEAD) == second  # repeats are harmless
    assert session.grant(AHEAD, 100, ClientExploration(0.5)).credit_steps == 100
    session.received_steps(50, LATER)
    assert not session.needs_credit(AHEAD, 100)
    session.received_steps(1, LATER)
    assert (session.needs_credit(AHEAD, 100), session.needs_credit(AHEAD)) == (True, False)
    second = session.grant(AHEAD, 100, ClientExploration(0.25))
    assert (second.credit_steps, second.epsilon) == (151, 0.25)
    assert session.grant(AHEAD, 10).credit_steps == 151  # less is granted from now on, none is taken back


def test_those_who_play_share_steps_and_bytes_and_can_make_a_step_each(sessions: Sessions) -> None:
    sessions.steps_ahead, sessions.exploration = 100, Exploration(0.1)
    assert sessions.bytes_ahead == AHEAD
    for client in ("a", "b", "c", "d"):
        _admitted(sessions, client)
    assert (sessions.playing, sessions.bytes_ahead) == (4, AHEAD // 4)
    assert {grant.credit_steps for grant in sessions.grants().values()} == {25}
    assert sessions.steps_outstanding == 100
    sessions.set_playing({"a", "b"})
    grants = sessions.grants()
    assert (grants["a"].credit_steps, grants["a"].epsilon) == (50, 0.1)
    assert sessions.steps_outstanding == 100
    sessions.steps_ahead = 1
    assert sessions.grant(_admitted(sessions, "e", ms=2)).credit_steps == 3  # a step of each environment


def test_a_publish_tells_those_whose_grant_has_to_change(sessions: Sessions) -> None:
    sessions.steps_ahead, sessions.exploration = 100, Exploration(0.5)
    used, unused = _admitted(sessions, "used"), _admitted(sessions, "unused")
    assert set(sessions.grants_due()) == {"used", "unused"}
    assert sessions.grants_due() == {}
    used.received_steps(30, LATER)
    assert set(sessions.grants_due()) == {"used"}
    sessions.exploration = Exploration(0.499)
    assert sessions.grants_due() == {}
    sessions.exploration = Exploration(0.49)
    due = {client: grant.epsilon for client, grant in sessions.grants_due().items()}
    assert due == {"used": 0.49, "unused": 0.49}
    sessions.held = True
    unused.received_steps(50, LATER)
    assert sessions.grants_due() == {}


def test_who_delivers_more_may_have_more_on_its_way_and_each_is_told_its_share(sessions: Sessions) -> None:
    fast, slow = _admitted(sessions, "fast"), _admitted(sessions, "slow")
    assert sessions.grant(slow).share is None
    sessions.measure(0.0)
    fast.received_steps(300, LATER)
    slow.received_steps(100, LATER)
    sessions.measure(1.0)
    shares = {client: grant.share for client, grant in sessions.grants_due().items()}
    assert shares == {"fast": 0.75, "slow": 0.25}
    assert sessions.grants_due() == {}
    sessions.steps_ahead = 100
    assert sessions.grant(fast).credit_steps == 300 + 62
    assert sessions.grant(slow).credit_steps == 100 + 37
    sessions.steps_ahead = None
    sessions.end("fast")
    sessions.measure(2.0)
    assert sessions.grants_due()["slow"].share == 1.0, "also who needs no credit is told"


def test_what_the_server_lost_uses_up_no_credit(session: Session) -> None:
    session.grant(AHEAD, 100)
    session.received(10, 0, EntryId(1, 1))
    session.received_steps(40, EntryId(1, 1))
    told = _beat(sent_chunks=3, sent_bytes=30, sent_steps=90)
    session.look_for_losses(told)  # they may still be on their way
    assert (session.entries, session.steps) == (1, 40)
    session.look_for_losses(told)  # the stream was read to its end since
    assert (session.entries, session.size, session.steps) == (3, 30, 90)
    # What it had stored is given back, and no more: 10 of the first 100 were never used.
    assert session.grant(AHEAD, 100).credit_steps == 190


def test_what_was_refused_whole_uses_up_no_credit(sessions: Sessions, session: Session) -> None:
    sessions.steps_ahead = 1000
    sessions.grant(session)
    for number in range(4):  # of 250 transitions each, but nobody here can tell
        session.received(10, number, EntryId(1, number + 1))
        session.refuse({"shape": 1}, 0)
    told = _beat(sent_chunks=4, sent_bytes=40, sent_steps=1000)
    session.look_for_losses(told)
    assert not sessions.needs_credit(session), "the beat may tell of more than was here when it was looked at"
    session.look_for_losses(told)
    assert sessions.needs_credit(session)
    assert sessions.grant(session).credit_steps == 2000


def test_while_credits_are_held_nobody_gets_more(sessions: Sessions, session: Session) -> None:
    sessions.steps_ahead = 100
    first = sessions.grant(session)
    session.received(AHEAD, 0, EntryId(1, 1))
    session.received_steps(100, EntryId(1, 1))
    sessions.held = True
    assert not sessions.needs_credit(session)
    assert sessions.grant(session) == first
    newcomer = sessions.grant(_admitted(sessions, "d", ms=2))
    assert (newcomer.status, newcomer.credit_bytes, newcomer.credit_steps) == ("accepted", 0, 0)
    sessions.held = False
    assert sessions.needs_credit(session)
    assert sessions.needs_credit(sessions.by_client["d"])
    assert (sessions.grant(session).credit_steps or 0) > (first.credit_steps or 0)


def test_more_than_was_ever_granted_is_told_and_one_entry_too_large_is_no_fault(session: Session) -> None:
    session.received(AHEAD, 0)
    assert not session.overdrew(AHEAD)  # nothing was granted yet, nothing was promised
    session.size = session.entries = 0
    session.grant(AHEAD)
    session.received(AHEAD - 1, 0)
    session.received(500, 1)
    assert not session.overdrew(500)  # a byte was left when it was sent
    session.received(1, 2)
    assert session.overdrew(1)
    session.grant(AHEAD)
    session.grant(10)  # what was granted once was promised
    session.received(AHEAD // 2, 3)
    assert not session.overdrew(AHEAD // 2)
    session.entries = session.most_entries + 1
    assert session.overdrew(AHEAD // 2)


def test_who_keeps_failing_without_a_good_one_is_cut_off_whatever_its_session(sessions: Sessions) -> None:
    session = _admitted(sessions)
    session.round = RoundShare(round_id=1, steps=1)
    assert not any(session.refuse({"late": 100}, 0) for _ in range(100)), "that is no fault"
    for _ in range(10):
        assert not session.refuse({"shape": 40}, 0)
        assert not session.refuse({"shape": 40}, 1), "a good one forgives"
    assert not any(session.refuse({"shape": 1}, 0) for _ in range(49))
    assert session.refuse({"not_finite": 1}, 0)
    assert (session.status, session.round) == ("quarantined", None)
    assert "50 refused segments" in session.reason
    assert not session.refuse({"shape": 100}, 0), "once"
    assert not sessions.needs_credit(session)
    assert sessions.grant(session).reason == session.reason
    cut_off = [_admitted(sessions, "d", ms).refuse({"shape": 20}, 0) for ms in range(2, 5)]
    assert cut_off == [False, False, True]
    again = _admitted(sessions, "d", ms=5)  # a new process under the same name
    assert (again.status, again.reason) == ("quarantined", "60 refused segments in a row, most of them shape")
    sessions.end("d")
    assert [sessions.release("d"), sessions.release("d")] == [True, False]
    released = _admitted(sessions, "d", ms=6)
    assert (released.status, released.in_a_row) == ("accepted", 0)
    assert not sessions.release("nobody")
    sessions.cut_off("e", "it floods")
    sessions.forget_all_but(["c"])
    assert _admitted(sessions, "e").status == "accepted", "nobody is held back who is off the list"


def test_who_is_released_has_a_clean_row_and_all_of_its_credit(sessions: Sessions, session: Session) -> None:
    assert not sessions.release("c"), "it was not cut off"
    session.grant(AHEAD, 100)
    session.refuse({"shape": 50}, 0)
    session.passed_over(700, [0, 1, None])
    assert sessions.release("c")
    assert (session.status, session.reason, session.in_a_row) == ("accepted", "", 0)
    assert session.rejected == {"shape": 50}
    grant = session.grant(AHEAD, 100)
    assert (grant.credit_entries, grant.credit_bytes) == (3 + ENTRIES_AHEAD, 700 + AHEAD)
    assert (grant.credit_steps, session.numbers.missing) == (200, 0)
    assert not session.refuse({"shape": 49}, 0)
    assert session.refuse({"shape": 1}, 0)


@pytest.mark.allow_warnings
def test_who_was_refused_is_let_in_neither_by_being_cut_off_nor_by_being_released(sessions: Sessions) -> None:
    stranger = sessions.hello("c", EntryId(1, 0), _hello(contract="other"), 0.0)
    sessions.cut_off("c", "it floods the server")
    assert sessions.release("c")
    assert not sessions.release("c")
    assert (stranger.status, "spaces differ" in stranger.reason) == ("refused", True)
    sessions.cut_off("c", "it floods the server")
    assert _admitted(sessions, ms=2).reason == "it floods the server"
    assert sessions.release("c")
    assert sessions.by_client["c"].status == "accepted"


def test_counts_of_clients_that_are_gone_are_kept_as_a_sum_only_and_once(sessions: Sessions) -> None:
    for number in range(1000):
        client = f"client-{number}"
        _admitted(sessions, client).refuse({"shape": 1, "late": 2}, 0)
        sessions.count_unadmitted(client, "not_admitted")
        sessions.forget_all_but(["client-999"])
    for _ in range(2):
        refusals = sessions.refusals()
        assert refusals.total == {"shape": 1000, "late": 2000, "not_admitted": 1000}
        assert refusals.by_client == {"client-999": {"shape": 1, "late": 2, "not_admitted": 1}}
        sessions.end("client-999")
    assert sessions.by_client == {}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), max_size=80))
def test_each_number_is_taken_once_and_gaps_are_counted(numbers: list[int]) -> None:
    known, seen = ChunkNumbers(), set()
    for number in numbers:
        assert known.take(number) == (number not in seen)
        seen.add(number)
        assert known.missing == max(seen) + 1 - len(seen)


def test_a_gap_is_given_up_after_a_while_stays_counted_and_does_not_fill_the_memory() -> None:
    known = ChunkNumbers()
    assert all(known.take(number) for number in range(10, 2000))
    assert (known.missing, known.below) == (10, 2000)
    assert not known.take(3)
    known = ChunkNumbers()
    assert all(known.take(n * 10**12) for n in range(3000))
    assert len(known._beyond) <= 1024
    assert known.missing == 2999 * 10**12 + 1 - 3000
    known = ChunkNumbers(below=None)  # after a restart the first number is the beginning
    assert known.missing == 0
    # What came before the restart was taken or lost: never trained twice.
    assert [known.take(number) for number in (500, 499, 502)] == [True, False, True]
    assert known.missing == 1


LADDER, WIDER = (Ladder(first=0, count=count, exponent=7) for count in (4, 6))


@pytest.mark.parametrize(
    ("new", "told", "worth"),
    [
        (ClientExploration(0.5), None, True),
        (ClientExploration(0.5), ClientExploration(0.504), False),
        (ClientExploration(0.5), ClientExploration(0.505), True),
        (ClientExploration(0.0), ClientExploration(None), True),
        (ClientExploration(temperature=1.0), ClientExploration(0.5), True),
        (ClientExploration(temperature=0.101), ClientExploration(temperature=0.1), False),
        (ClientExploration(temperature=0.097), ClientExploration(temperature=0.1), True),
        (ClientExploration(0.5, ladder=LADDER), ClientExploration(0.5), True),
        (ClientExploration(0.5, ladder=LADDER), ClientExploration(0.5, ladder=WIDER), True),
    ],
)
def test_big_changes_are_told(new: ClientExploration, told: ClientExploration | None, worth: bool) -> None:
    assert new.worth_telling(told) is worth


def test_a_client_with_a_rate_of_its_own_explores_by_it(sessions: Sessions) -> None:
    sessions.steps_ahead, sessions.exploration = 100, Exploration(0.4, own={"b": 0.05, "elsewhere": 1.0})
    for client in ("a", "b"):
        _admitted(sessions, client)
    assert {client: grant.epsilon for client, grant in sessions.grants_due().items()} == {"a": 0.4, "b": 0.05}
    sessions.exploration = Exploration(0.3, own={"b": 0.05})
    assert {client: grant.epsilon for client, grant in sessions.grants_due().items()} == {"a": 0.3}


def test_on_a_ladder_every_environment_that_plays_has_a_rung_of_its_own(sessions: Sessions) -> None:
    sessions.steps_ahead, sessions.exploration = 100, Exploration(0.4, ladder=7.0)
    for client in ("a", "b", "c"):
        _admitted(sessions, client)
    rungs = {client: grant.ladder for client, grant in sessions.grants_due().items()}
    assert rungs == {client: Ladder(first=3 * n, count=9, exponent=7) for n, client in enumerate("abc")}
    assert sessions.grants_due() == {}
    sessions.set_playing({"a", "c"})
    moved = {client: grant.ladder for client, grant in sessions.grants_due().items()}
    assert moved["c"] == Ladder(first=3, count=6, exponent=7)
    assert moved["a"] == Ladder(first=0, count=6, exponent=7)
    # The environments of an inference server are those of its clients.
    sessions.hello("i", EntryId(1, 0), _hello(client="i", serves=True), now=5.0)
    assert sessions.grants()["c"].ladder == moved["c"], (
        "the environments of an inference server are its clients'"
    )
    sessions.exploration = Exploration(temperature=0.3)
    grant = sessions.grants()["c"]
    assert (grant.temperature, grant.epsilon, grant.ladder) == (0.3, None, None)
    assert Grant.read(grant.to_json()) == grant
    assert sessions.exploration.figures() == {"temperature": 0.3}
    assert Exploration(0.0).figures() == {"epsilon": 0.0}


def measured(paces: dict[str, float], seconds: int = 60) -> Shares:
    """Shares after clients have delivered at steady paces, transitions per second."""
    shares = Shares()
    for second in range(seconds + 1):
        shares.measure({name: round(pace * second) for name, pace in paces.items()}, float(second))
    return shares


MANY = {"fast": 5000.0} | {f"c{n}": 1.0 for n in range(1000)}


@pytest.mark.parametrize(
    ("paces", "client", "players", "part"),
    [
        ({}, "a", 0, 1.0),
        ({}, "a", 4, 0.25),
        ({"a": 1000.0}, "a", 4, 0.125 + 0.5),
        ({"a": 1000.0}, "b", 4, 0.125),
        ({"fast": 300.0, "slow": 100.0}, "fast", 4, 0.125 + 0.375),
        ({"fast": 300.0, "slow": 100.0}, "slow", 4, 0.125 + 0.125),
        (MANY, "fast", 1001, 0.5 / 1001 + 0.5 * 5000 / 6000),
    ],
    ids=["alone", "nothing came", "one", "another", "fast", "slow", "a thousand slow ones"],
)
def test_half_is_divided_evenly_and_half_by_what_each_delivers(
    paces: dict[str, float], client: str, players: int, part: float
) -> None:
    assert measured(paces).part(client, players) == pytest.approx(part, abs=1e-6)


def test_a_newcomer_that_is_as_fast_ends_with_the_same_part() -> None:
    shares, steps = measured({"old": 1000.0}), {"old": 60_000.0, "new": 0.0}
    for second in range(61, 200):  # both deliver as much as they may
        parts = {name: shares.part(name, 2) for name in steps}
        steps = {name: steps[name] + 1000 * parts[name] for name in steps}
        shares.measure({name: int(count) for name, count in steps.items()}, float(second))
    assert shares.part("new", 2) == pytest.approx(0.5, abs=0.01)


def test_only_what_is_delivered_while_one_looks_counts_and_a_new_session_begins_at_nothing() -> None:
    shares = measured({"a": 100.0})
    shares.measure({"a": 10**9}, 60.0)  # the same moment as the last one
    assert shares.part("a", 1) == pytest.approx(1.0)
    assert shares.part("b", 2) == pytest.approx(0.25)
    shares.measure({"a": 6100, "back": 10**9}, 61.0)  # known before, but not here
    assert shares.part("back", 2) == pytest.approx(0.25)
    shares = measured({"a": 100.0, "b": 100.0})
    shares.measure({"a": 6100, "b": 0}, 61.0)
    assert 0.25 < shares.part("b", 2) < 0.5 < shares.part("a", 2) < 0.75
    for second in range(62, 82):
        shares.measure({"a": 100 * second, "b": 0}, float(second))
    assert shares.part("b", 2) == pytest.approx(0.25, abs=0.001), "it has delivered nothing for a while"
