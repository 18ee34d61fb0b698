"""Who takes part in a round, how much each samples, and when it is complete."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.training.learners.membership import (
    BY_A_PERSON,
    Policy,
    QuotaMember,
    Round,
    Speeds,
    balanced_quotas,
    equal_quotas,
    share_out,
)


def _round(timeout_s: float = 30.0, policy: Policy = "shrink", **num_envs: int) -> Round:
    return Round.begin(7, 16, timeout_s, num_envs or {"a": 4, "b": 2}, policy)


def test_a_round_is_complete_when_every_member_has_delivered_its_quota() -> None:
    made = _round()
    assert {client: member.quota for client, member in made.members.items()} == {"a": 64, "b": 32}
    made.deliver("a", 64)
    assert not made.complete
    made.deliver("b", 31)
    made.deliver("c", 1000)  # a stranger
    assert not made.complete
    assert set(made.members) == {"a", "b"}
    assert made.pass_time(0) == {}, "time that does not pass harms nobody"
    made.deliver("b", 10**9)  # more than the quota completes too
    assert made.complete


def test_who_leaves_or_is_late_is_left_out_and_who_has_delivered_stays() -> None:
    made = _round()
    made.deliver("a", 64)
    made.deliver("b", 5)
    assert made.lose({"b": "left", "a": "left", "nobody": "left"}) == []
    assert (made.complete, set(made.members), made.left_out) == (True, {"a"}, {"b": "left"})
    made = _round()
    made.deliver("a", 64)
    assert made.pass_time(29.9) == {}
    late = made.pass_time(0.1)
    assert late == {"b": "did not deliver within 30 s"}
    made.lose(late)
    assert (made.complete, made.left_out, made.pass_time(100)) == (True, late, {})
    silent = _round()
    silent.lose(silent.pass_time(30))
    assert (sorted(silent.left_out), silent.complete, silent.members) == (["a", "b"], True, {})
    made = _round(policy="stop")
    made.deliver("a", 64)
    made.lose({"a": "left"})
    assert made.stopped == ""
    made.lose({"b": "left"})
    assert made.stopped == "The round lost b (left)"


def test_it_says_whom_the_others_wait_for_and_names_three_at_most() -> None:
    made = _round(**dict.fromkeys("abcdef", 1))
    made.pass_time(10)
    assert made.waits_for == "", "nobody is held up while nobody has delivered"
    made.deliver("a", 16)
    made.pass_time(2)
    assert made.waits_for == ""
    made.pass_time(0.1)
    assert made.waits_for == "waiting for b, c, d and 2 more"
    for client in "bcde":
        made.deliver(client, 16)
    assert made.waits_for == "waiting for f"
    made.deliver("f", 16)
    assert made.waits_for == ""


def test_a_waiting_round_waits_at_once_says_so_and_ends_when_all_is_there() -> None:
    made = _round(policy="wait")
    made.lose({"b": "paused"})
    assert made.waits_for == "waiting for b (paused)", "said before anybody is held up"
    assert not made.at_rest, "the others still play"
    made.deliver("a", 64)
    assert made.at_rest
    assert made.pass_time(1000) == {}
    assert not made.complete
    made.deliver("b", 32)
    assert made.complete
    assert (made.waits_for, made.left_out) == ("", {})
    for reason in BY_A_PERSON:  # nobody waits for whom a person sent away
        made = _round(policy="wait")
        made.lose({"b": "paused"})
        made.deliver("a", 64)
        made.lose({"b": reason})
        assert (made.complete, made.left_out, made.waits_for) == (True, {"b": reason}, "")


def test_a_waiting_round_names_the_late_once_and_who_is_back_in_time_is_not_waited_for_any_more() -> None:
    made = _round(policy="wait")
    made.deliver("a", 64)
    late = {"b": "did not deliver within 30 s"}
    made.lose({"b": "paused"})
    made.pass_time(29)
    made.returned("b")
    assert made.absent == {}
    assert made.pass_time(1) == late
    assert made.lose(late) == []
    assert (made.absent, made.pass_time(1)) == (late, {})
    made.returned("b")
    assert (made.absent, made.pass_time(1)) == (late, {}), "it is late as before"
    made.lose({"b": "paused"})
    made.returned("b")
    assert made.absent == late, "its time was up meanwhile"


def test_a_member_that_begins_anew_owes_the_rest_to_a_round_that_waits_and_nothing_to_others() -> None:
    made = _round(policy="wait")
    made.deliver("b", 20)
    member = made.begin_session("b", 3)
    assert (member.share, member.missing, member.unit) == (12, 12, 3)
    made.deliver("b", 12)
    assert made.begin_session("b", 3) is None
    made.deliver("a", 64)
    assert made.complete
    others: list[Policy] = ["shrink", "redistribute", "stop"]
    for policy in others:
        assert _round(policy=policy).begin_session("b", 2) is None
    assert made.begin_session("stranger", 2) is None


def test_a_member_whose_chunk_was_refused_is_asked_for_what_is_missing() -> None:
    made = _round()
    made.deliver("b", 20)
    for refused, share in ((1, 32 + 12), (2, 32 + 2 * 12)):
        member = made.ask_again("b")
        assert (member.share, member.missing, member.refused_chunks) == (share, 12, refused)
    assert made.waits_for == "asking again for chunks of b (2 refused)"
    made.deliver("a", 64)
    made.deliver("b", 12)
    assert (made.complete, made.waits_for) == (True, "")
    assert made.ask_again("b") is None
    assert made.ask_again("stranger") is None


def test_the_others_make_what_is_missing_by_their_speed() -> None:
    made = _round(policy="redistribute", a=1, b=1, c=1)  # 16 steps each
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


def test_two_late_ones_are_given_nothing_of_each_other_and_what_nobody_can_make_is_missing() -> None:
    made = _round(policy="redistribute", a=1, b=1, c=1)
    made.deliver("a", 16)
    assert made.lose(made.pass_time(30), {"a": 5.0}) == ["a"]
    assert {client: member.quota for client, member in made.members.items()} == {"a": 48}
    made.deliver("a", 32)
    assert made.complete
    made = _round(policy="redistribute")
    made.lose({"a": "left"}, {})
    made.deliver("b", 32)
    assert made.complete
    alone = _round(policy="redistribute", a=4)
    assert alone.lose(alone.pass_time(30), {}) == []
    assert alone.complete


@pytest.mark.parametrize(
    ("steps", "members", "parts"),
    [
        # (5 + x) / 10 = (25 + y) / 10 with x + y = 60: both end after 4.5 s.
        (60, {"a": QuotaMember(10.0, 5), "b": QuotaMember(10.0, 25)}, {"a": 40, "b": 20}),
        # Who could not end with the others is given nothing.
        (20, {"a": QuotaMember(10.0), "b": QuotaMember(1.0, 50)}, {"a": 20, "b": 0}),
        # 33.3 each: 32 in whole units of 4, and one of the 4 left over.
        (100, {name: QuotaMember(1.0, unit=4) for name in "abc"}, {"a": 36, "b": 32, "c": 32}),
        (5, {"a": QuotaMember(1.0, unit=4), "b": QuotaMember(1.0, unit=4)}, {"a": 4, "b": 1}),
        (80, {"a": QuotaMember(30.0), "b": QuotaMember(10.0)}, {"a": 60, "b": 20}),
    ],
)
def test_steps_are_shared_so_that_all_end_together_in_whole_units(
    steps: int, members: dict[str, QuotaMember], parts: dict[str, int]
) -> None:
    assert share_out(steps, members) == parts


MEMBERS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(QuotaMember, st.floats(0.01, 1e5), st.integers(0, 10_000), st.integers(1, 64)),
    min_size=1,
)


@given(st.integers(0, 100_000), MEMBERS)
def test_every_step_is_given_and_nobody_ends_too_late(steps: int, members: dict[str, QuotaMember]) -> None:
    given_ = share_out(steps, members)
    assert sum(given_.values()) == steps
    assert min(given_.values()) >= 0
    ends = {name: (members[name].waiting + given_[name]) / members[name].speed for name in given_}
    units = sum(one.unit for one in members.values())
    for late in (name for name in given_ if given_[name] > units):
        # Whatever were taken off the last one would make any other end later, but for the rounding.
        for other in members:
            rounding = units / members[late].speed + units / members[other].speed
            assert ends[late] <= ends[other] + rounding + 1e-6 * ends[late]


def test_each_of_many_costs_about_as_much_as_each_of_few() -> None:
    compared = 0

    class Name(str):
        __hash__ = str.__hash__

        def __lt__(self, other: str) -> bool:
            nonlocal compared
            compared += 1
            return super().__lt__(other)

    costs = []
    for count in (100, 1000):
        compared = 0
        members = {Name(f"{number:04}"): QuotaMember(1.0, unit=2) for number in range(count)}
        parts = share_out(count * 3 - 1, members).values()
        assert sorted(parts) == [2] * (count // 2) + [3] + [4] * (count // 2 - 1)
        costs.append(compared / count)
    assert costs[1] < 3 * costs[0]


def test_a_slow_member_samples_less_the_sum_stays_and_nobody_is_forgotten() -> None:
    num_envs = {"a": 4, "b": 4}
    assert equal_quotas(256, {"a": 4, "b": 2}) == {"a": 1024, "b": 512}
    # 64 each at least (a sixteenth), and the rest so that both end after 2048 / 4000 s.
    assert balanced_quotas(256, num_envs, {"a": 3000.0, "b": 1000.0}) == {"a": 1536, "b": 512}
    assert balanced_quotas(256, num_envs, {"a": 1e6, "b": 0.001}) == {"a": 2048 - 64, "b": 64}
    assert balanced_quotas(1, {"a": 4, "b": 2}, {"a": 1e6, "b": 0.001}) == {"a": 4, "b": 2}
    assert balanced_quotas(256, {"a": 4}, {"a": 0.5}) == {"a": 1024}, "alone"
    for faster, equal in ((1000.0, True), (1200.0, True), (3000.0, False)):
        balanced = balanced_quotas(256, num_envs, {"a": faster, "b": 1000.0})
        assert (balanced == equal_quotas(256, num_envs)) is equal, "little differences change nothing"


@given(
    st.dictionaries(st.sampled_from("abcdefgh"), st.integers(1, 64), min_size=1),
    st.integers(1, 1000),
    st.lists(st.floats(1e-3, 1e6), min_size=8, max_size=8),
)
def test_balanced_quotas_keep_the_sum(num_envs: dict[str, int], steps: int, rates: list[float]) -> None:
    speeds = {client: rates["abcdefgh".index(client)] for client in num_envs}
    quotas = balanced_quotas(steps, num_envs, speeds)
    assert sum(quotas.values()) == steps * sum(num_envs.values())
    assert all(quotas[client] >= count for client, count in num_envs.items())


def test_quotas_settle_where_all_end_together_though_a_part_of_the_time_is_not_steps() -> None:
    num_envs, rates, latency_s = {"a": 4, "b": 4, "c": 4}, {"a": 4000, "b": 1000, "c": 500}, 0.02
    speeds = Speeds()
    quotas = equal_quotas(256, num_envs)
    for _ in range(60):
        seconds = {client: latency_s + quotas[client] / rates[client] for client in quotas}
        for client in quotas:
            speeds.note(client, quotas[client] / seconds[client], 4)
        quotas = balanced_quotas(256, num_envs, speeds.of(num_envs))
    assert max(seconds.values()) == pytest.approx(min(seconds.values()), rel=0.05)
    assert sum(quotas.values()) == 3 * 1024
    assert max(seconds.values()) < 0.3 * (latency_s + 1024 / 500)


def test_speeds_are_smoothed_and_those_of_strangers_are_typical() -> None:
    speeds = Speeds()
    assert speeds.of({"a": 4, "b": 2}) == {"a": 4.0, "b": 2.0}
    speeds.note("a", 400.0, 4)
    assert speeds.of({"a": 4, "b": 2}) == {"a": 400.0, "b": 200.0}
    speeds.note("a", 800.0, 4)
    assert speeds.of({"a": 4})["a"] == pytest.approx(4 * (100 + 0.3 * 100))
    speeds.forget_all_but(["b"])
    assert speeds.of({"a": 4}) == {"a": 4.0}
    made = _round()
    for client, steps, seconds in (("a", 64, 2), ("b", 32, 2), ("", 0, 4)):  # up to the last step delivered
        made.pass_time(seconds)
        made.deliver(client, steps)
    assert [member.speed for member in made.members.values()] == [16.0, 4.0]
