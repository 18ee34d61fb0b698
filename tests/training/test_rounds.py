"""Rounds: complete when all have delivered, closed without those who don't."""

import pytest

from soulsgui.training.rounds import Round


def _round(timeout_s: float = 30.0, **num_envs: int) -> Round:
    return Round.begin(7, 16, timeout_s, num_envs or {"a": 4, "b": 2})


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
    made.leave("b", "left")
    assert made.complete
    assert made.left_out == {"b": "left"}


def test_a_member_that_has_delivered_stays_when_it_leaves() -> None:
    made = _round()
    made.deliver("a", 64)
    made.leave("a", "left")
    made.leave("nobody", "left")
    assert set(made.members) == {"a", "b"}
    assert made.left_out == {}


def test_the_deadline_leaves_out_whoever_is_late() -> None:
    made = _round()
    made.deliver("a", 64)
    assert made.pass_time(29.9) == []
    assert made.pass_time(0.1) == ["b"]
    assert made.complete
    assert "30 s" in made.left_out["b"]
    assert made.pass_time(100) == []


def test_time_that_does_not_pass_harms_nobody() -> None:
    made = _round()
    for _ in range(1000):
        assert made.pass_time(0) == []
    assert made.elapsed_s == 0


def test_a_round_of_silent_members_ends_empty() -> None:
    made = _round()
    assert sorted(made.pass_time(30)) == ["a", "b"]
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
