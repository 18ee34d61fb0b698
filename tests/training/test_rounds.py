"""Rounds: complete when all have delivered, closed without those who don't."""

import pytest

from soulsgui.training.rounds import BY_A_PERSON, Policy, Round


def _round(timeout_s: float = 30.0, policy: Policy = "shrink", **num_envs: int) -> Round:
    return Round.begin(7, 16, timeout_s, num_envs or {"a": 4, "b": 2}, policy)


def test_quota_is_steps_times_environments() -> None:
    made = _round()
    assert {client: member.quota for client, member in made.members.items()} == {"a": 64, "b": 32}
    assert made.round_id == 7


def test_a_round_is_complete_when_every_member_has_delivered() -> None:
    made = _round()
    made.deliver("a", 64)
    assert not made.complete
    made.deliver("b", 31)
    assert not made.complete
    made.deliver("b", 1)
    assert made.complete


def test_deliveries_of_strangers_do_not_count() -> None:
    made = _round()
    made.deliver("c", 1000)
    assert not made.complete
    assert set(made.members) == {"a", "b"}


def test_a_member_that_leaves_is_not_waited_for() -> None:
    made = _round()
    made.deliver("a", 64)
    made.deliver("b", 5)
    assert made.lose({"b": "left"}) == []
    assert made.complete
    assert made.left_out == {"b": "left"}


def test_a_member_that_has_delivered_stays_when_it_leaves() -> None:
    made = _round()
    made.deliver("a", 64)
    made.lose({"a": "left", "nobody": "left"})
    assert set(made.members) == {"a", "b"}
    assert made.left_out == {}


def test_the_deadline_leaves_out_whoever_is_late() -> None:
    made = _round()
    made.deliver("a", 64)
    assert made.pass_time(29.9) == {}
    late = made.pass_time(0.1)
    assert late == {"b": "did not deliver within 30 s"}
    made.lose(late)
    assert made.complete
    assert made.left_out == late
    assert made.pass_time(100) == {}


def test_time_that_does_not_pass_harms_nobody() -> None:
    made = _round()
    for _ in range(1000):
        assert made.pass_time(0) == {}
    assert made.elapsed_s == 0


def test_a_round_of_silent_members_ends_empty() -> None:
    made = _round()
    made.lose(made.pass_time(30))
    assert sorted(made.left_out) == ["a", "b"]
    assert made.complete
    assert not made.members


@pytest.mark.parametrize("steps", [64, 65, 10**9])
def test_more_than_the_quota_completes_too(steps: int) -> None:
    made = _round(a=4)
    made.deliver("a", steps)
    assert made.complete


def test_it_says_whom_the_others_wait_for() -> None:
    made = _round(a=4, b=2)
    made.pass_time(10)
    assert made.waits_for == "", "nobody is held up while nobody has delivered"
    made.deliver("a", 64)
    made.pass_time(2)
    assert made.waits_for == ""
    made.pass_time(0.1)
    assert made.waits_for == "waiting for b"
    made.deliver("b", 32)
    assert made.waits_for == ""


def test_it_names_three_at_most() -> None:
    made = _round(a=1, b=1, c=1, d=1, e=1, f=1)
    made.deliver("a", 16)
    made.pass_time(3)
    assert made.waits_for == "waiting for b, c, d and 2 more"


# --- when a member is lost --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason", ["paused", "quarantined", "began a new session", "did not deliver within 30 s"]
)
def test_a_waiting_round_waits_at_once_says_so_and_ends_when_all_is_there(reason: str) -> None:
    made = _round(policy="wait", a=4, b=2)
    made.lose({"b": reason})
    assert made.waits_for == f"waiting for b ({reason})", "said before anybody is held up"
    assert not made.at_rest, "the others still play"
    made.deliver("a", 64)
    assert made.at_rest
    for _ in range(100):
        assert made.pass_time(1000) == {}
    assert not made.complete
    made.deliver("b", 32)
    assert made.complete
    assert (made.waits_for, made.left_out) == ("", {})


@pytest.mark.parametrize("reason", sorted(BY_A_PERSON))
def test_nobody_waits_for_whom_a_person_sent_away(reason: str) -> None:
    made = _round(policy="wait", a=4, b=2)
    made.lose({"b": "paused"})
    made.deliver("a", 64)
    made.lose({"b": reason})
    assert made.complete
    assert made.left_out == {"b": reason}
    assert made.waits_for == ""


def test_a_waiting_round_names_the_late_once_and_goes_on_counting() -> None:
    made = _round(policy="wait", a=4, b=2)
    made.deliver("a", 64)
    late = made.pass_time(30)
    assert made.lose(late) == []
    assert made.absent == {"b": "did not deliver within 30 s"}
    assert made.pass_time(1) == {}
    made.returned("b")
    assert made.absent == late, "it is late as before"
    assert made.pass_time(1) == {}


def test_a_member_that_is_back_in_time_is_not_waited_for_any_more() -> None:
    made = _round(policy="wait", a=4, b=2)
    made.lose({"b": "paused"})
    made.pass_time(29)
    made.returned("b")
    assert made.absent == {}
    made.lose({"b": "paused"})
    made.pass_time(2)
    made.returned("b")
    assert made.absent == {"b": "did not deliver within 30 s"}, "its time was up meanwhile"


def test_a_member_that_begins_anew_owes_a_waiting_round_the_rest() -> None:
    made = _round(policy="wait", a=4, b=2)
    made.deliver("b", 20)
    member = made.begin_session("b", 3)
    assert member is not None
    assert (member.share, member.missing, member.unit) == (12, 12, 3)
    made.deliver("b", 12)
    made.deliver("a", 64)
    assert made.complete


@pytest.mark.parametrize("policy", ["shrink", "redistribute", "stop"])
def test_no_other_round_takes_a_new_session_in(policy: Policy) -> None:
    made = _round(policy=policy, a=4, b=2)
    assert made.begin_session("b", 2) is None
    assert made.begin_session("stranger", 2) is None


def test_a_round_that_stops_says_why() -> None:
    made = _round(policy="stop", a=4, b=2)
    assert made.stopped == ""
    made.lose({"b": "left"})
    assert made.stopped == "The round lost b (left)"


def test_those_who_have_delivered_stop_nothing() -> None:
    made = _round(policy="stop", a=4, b=2)
    made.deliver("b", 32)
    made.lose({"b": "left"})
    assert made.stopped == ""


def test_the_others_make_what_is_missing_by_their_speed() -> None:
    made = _round(policy="redistribute", a=1, b=1, c=1)
    for client in "ab":
        made.deliver(client, 16)
    made.deliver("c", 4)
    made.pass_time(29)
    assert made.lose({"c": "left"}, {"a": 30.0, "b": 10.0}) == ["a", "b"]
    assert {client: member.quota for client, member in made.members.items()} == {"a": 25, "b": 19}
    assert made.pass_time(29) == {}, "who got more has time for it"
    made.deliver("a", 9)
    made.deliver("b", 3)
    assert made.complete
    assert sum(member.delivered for member in made.members.values()) + 4 == 3 * 16


def test_two_late_ones_are_given_nothing_of_each_other() -> None:
    made = _round(policy="redistribute", a=1, b=1, c=1)
    made.deliver("a", 16)
    assert made.lose(made.pass_time(30), {"a": 5.0}) == ["a"]
    assert {client: member.quota for client, member in made.members.items()} == {"a": 48}
    made.deliver("a", 32)
    assert made.complete


def test_what_nobody_can_make_is_missing() -> None:
    made = _round(policy="redistribute", a=4, b=2)
    made.lose({"a": "left"}, {})
    made.deliver("b", 32)
    assert made.complete
    made = _round(policy="redistribute", a=4)
    assert made.lose(made.pass_time(30), {}) == []
    assert made.complete


def test_the_speed_is_measured_up_to_the_last_step_delivered() -> None:
    made = _round(a=4, b=2)
    made.pass_time(2)
    made.deliver("a", 64)
    made.pass_time(2)
    made.deliver("b", 32)
    made.pass_time(4)
    assert [member.speed for member in made.members.values()] == [16.0, 4.0]
