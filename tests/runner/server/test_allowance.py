"""What a client may use: how fast, and from when on it floods."""

import pytest

from soulsgui.runner.server.allowance import BURST_S, BYTES_PER_S, FLOOD_S, WORDS_PER_S, Allowance


def test_a_pause_gives_so_much_at_once_and_no_more() -> None:
    own = Allowance(0.0)
    own.spend(int(BURST_S * BYTES_PER_S), 0, 100.0)
    assert own.wait_s(100.0) == 0
    own.spend(int(BYTES_PER_S), WORDS_PER_S, 100.0)
    assert own.wait_s(100.0) == pytest.approx(2.0)
    assert own.wait_s(101.5) == pytest.approx(0.5)
    assert own.wait_s(103.0) == 0


def test_who_uses_all_its_bytes_does_not_flood_and_who_sends_small_commands_does_after_a_while() -> None:
    loader, flooder, asker = Allowance(0.0), Allowance(0.0), Allowance(0.0)
    seconds = range(1, 20)
    for now in seconds:
        loader.spend(int(BYTES_PER_S), 100, now)
        flooder.spend(100, WORDS_PER_S, now)
        asker.spend(100, WORDS_PER_S // 2, now)
        floods = [one.floods(now) for one in (loader, flooder, asker)]
        assert floods == [False, now >= FLOOD_S, False]
    assert not flooder.floods(20.0)
