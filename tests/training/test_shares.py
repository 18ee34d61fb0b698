import pytest

from soulsgui.training.shares import Shares


def measured(paces: dict[str, float], seconds: int = 60) -> Shares:
    """Shares after clients have delivered at steady paces, transitions per second."""
    shares = Shares()
    for second in range(seconds + 1):
        shares.measure({name: round(pace * second) for name, pace in paces.items()}, float(second))
    return shares


def test_before_anything_came_all_have_the_same() -> None:
    assert Shares().part("a", 4) == 0.25
    assert Shares().part("a", 0) == 1.0


def test_alone_it_has_everything() -> None:
    assert measured({"a": 1000.0}).part("a", 1) == pytest.approx(1.0)


def test_half_is_divided_evenly_and_half_by_what_each_delivers() -> None:
    shares = measured({"fast": 300.0, "slow": 100.0})
    assert shares.part("fast", 2) == pytest.approx(0.25 + 0.375, abs=1e-6)
    assert shares.part("slow", 2) == pytest.approx(0.25 + 0.125, abs=1e-6)


def test_a_thousand_slow_ones_leave_a_fast_one_nearly_half() -> None:
    shares = measured({"fast": 5000.0} | {f"c{n}": 1.0 for n in range(1000)}, 20)
    assert shares.part("fast", 1001) == pytest.approx(0.5 / 1001 + 0.5 * 5000 / 6000, rel=1e-3)


def test_a_newcomer_that_is_as_fast_ends_with_the_same_part() -> None:
    shares, steps = measured({"old": 1000.0}), {"old": 60_000.0, "new": 0.0}
    for second in range(61, 200):  # both deliver as much as they may
        parts = {name: shares.part(name, 2) for name in steps}
        steps = {name: steps[name] + 1000 * parts[name] for name in steps}
        shares.measure({name: int(count) for name, count in steps.items()}, float(second))
    assert shares.part("new", 2) == pytest.approx(0.5, abs=0.01)


def test_who_delivers_nothing_any_more_loses_its_part_in_a_few_seconds() -> None:
    shares = measured({"a": 100.0, "b": 100.0})
    for second in range(61, 81):
        shares.measure({"a": 100 * second, "b": 6000}, float(second))
    assert shares.part("b", 2) == pytest.approx(0.25, abs=0.001)


def test_two_looks_at_the_same_moment_are_one() -> None:
    shares = measured({"a": 100.0})
    shares.measure({"a": 10**9}, 60.0)
    assert shares.part("a", 1) == pytest.approx(1.0)
    assert shares.part("b", 2) == pytest.approx(0.25)


def test_who_was_not_known_begins_with_no_pace_whatever_it_had_delivered() -> None:
    shares = measured({"a": 100.0})
    shares.measure({"a": 6100, "back": 10**9}, 61.0)
    assert shares.part("back", 2) == pytest.approx(0.25)


def test_a_new_session_counts_from_nothing_and_harms_nobody() -> None:
    shares = measured({"a": 100.0, "b": 100.0})
    shares.measure({"a": 6100, "b": 0}, 61.0)
    assert 0.25 < shares.part("b", 2) < 0.5 < shares.part("a", 2) < 0.75
