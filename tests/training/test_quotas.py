"""Who samples how much: every number by hand, and the sum always kept."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.training.quotas import Sharer, Speeds, balanced_quotas, equal_quotas, share_out


def test_steps_are_shared_by_speed() -> None:
    assert share_out(100, {"a": Sharer(30.0), "b": Sharer(10.0), "c": Sharer(10.0)}) == {
        "a": 60, "b": 20, "c": 20,
    }  # fmt: skip


def test_who_has_much_to_do_already_is_given_less_so_that_all_end_together() -> None:
    # (5 + x) / 10 = (25 + y) / 10 with x + y = 60: both end after 4.5 s.
    assert share_out(60, {"a": Sharer(10.0, 5), "b": Sharer(10.0, 25)}) == {"a": 40, "b": 20}


def test_who_could_not_end_with_the_others_is_given_nothing() -> None:
    assert share_out(20, {"a": Sharer(10.0), "b": Sharer(1.0, 50)}) == {"a": 20, "b": 0}


def test_parts_are_whole_steps_of_all_environments_as_far_as_the_sum_allows() -> None:
    # 33.3 each: 32 in whole units of 4, and one of the 4 left over.
    assert share_out(100, {name: Sharer(1.0, unit=4) for name in "abc"}) == {"a": 36, "b": 32, "c": 32}
    assert share_out(5, {"a": Sharer(1.0, unit=4), "b": Sharer(1.0, unit=4)}) == {"a": 4, "b": 1}


SHARERS = st.dictionaries(
    st.sampled_from("abcdefgh"),
    st.builds(Sharer, st.floats(0.01, 1e5), st.integers(0, 10_000), st.integers(1, 64)),
    min_size=1,
)


@given(st.integers(0, 100_000), SHARERS)
def test_every_step_is_given_to_somebody(steps: int, sharers: dict[str, Sharer]) -> None:
    given_ = share_out(steps, sharers)
    assert sum(given_.values()) == steps
    assert min(given_.values()) >= 0


@given(st.integers(1, 100_000), SHARERS)
def test_nobody_ends_later_than_needed(steps: int, sharers: dict[str, Sharer]) -> None:
    given_ = share_out(steps, sharers)
    ends = {name: (sharers[name].waiting + given_[name]) / sharers[name].speed for name in given_}
    units = sum(one.unit for one in sharers.values())
    for late in (name for name in given_ if given_[name] > units):
        # Whatever were taken off the last one would make any other end later, but for the rounding.
        for other in sharers:
            rounding = units / sharers[late].speed + units / sharers[other].speed
            assert ends[late] <= ends[other] + rounding + 1e-6 * ends[late]


class _Name(str):
    """A name that counts how often it is compared."""

    compared = 0

    __hash__ = str.__hash__

    def __lt__(self, other: str) -> bool:
        _Name.compared += 1
        return super().__lt__(other)


def test_each_of_many_costs_about_as_much_as_each_of_few() -> None:
    costs = []
    for count in (100, 1000):
        _Name.compared = 0
        names = [_Name(f"{number:04}") for number in range(count)]
        given_ = share_out(count * 3 - 1, {name: Sharer(1.0, unit=2) for name in names})
        assert sorted(given_.values()) == [2] * (count // 2) + [3] + [4] * (count // 2 - 1)
        costs.append(_Name.compared / count)
    assert costs[1] < 3 * costs[0]


def test_equal_quotas_are_steps_times_environments() -> None:
    assert equal_quotas(256, {"a": 4, "b": 2}) == {"a": 1024, "b": 512}


def test_a_slow_member_samples_less_and_the_sum_stays() -> None:
    quotas = balanced_quotas(256, {"a": 4, "b": 4}, {"a": 3000.0, "b": 1000.0})
    # 64 each at least (a sixteenth), and the rest so that both end after 2048 / 4000 s.
    assert quotas == {"a": 1536, "b": 512}


@pytest.mark.parametrize(
    ("speeds", "equal"),
    [
        ({"a": 1000.0, "b": 1000.0}, True),
        ({"a": 1200.0, "b": 1000.0}, True),
        ({"a": 3000.0, "b": 1000.0}, False),
    ],
    ids=str,
)
def test_little_differences_change_nothing(speeds: dict[str, float], equal: bool) -> None:
    num_envs = {"a": 4, "b": 4}
    assert (balanced_quotas(256, num_envs, speeds) == equal_quotas(256, num_envs)) is equal


def test_no_member_is_forgotten_however_slow_it_is() -> None:
    quotas = balanced_quotas(256, {"a": 4, "b": 4}, {"a": 1e6, "b": 0.001})
    assert quotas == {"a": 2048 - 64, "b": 64}
    assert balanced_quotas(1, {"a": 4, "b": 2}, {"a": 1e6, "b": 0.001}) == {"a": 4, "b": 2}


def test_one_member_alone_always_has_the_same_quota() -> None:
    assert balanced_quotas(256, {"a": 4}, {"a": 0.5}) == {"a": 1024}


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
