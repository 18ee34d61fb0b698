"""What a client may use: what counts as a word, how fast, and from when on it floods."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.runner.server.allowance import (
    BURST_S,
    BYTES_PER_S,
    FLOOD_S,
    WORDS_PER_S,
    Allowance,
    CommandError,
    WordCounter,
)
from soulsgui.runner.server.gateway import packed

COMMANDS = st.lists(st.lists(st.binary(max_size=40), min_size=1, max_size=4), max_size=6)


@given(COMMANDS, st.lists(st.integers(0, 400)))
def test_words_are_counted_however_the_bytes_come(commands: list[list[bytes]], cuts: list[int]) -> None:
    data = b"".join(packed(*words) for words in commands)
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    counter = WordCounter()
    pieces = [data[begin:end] for begin, end in pairwise(places)]
    assert sum(map(counter.count, pieces)) == sum(len(words) + 1 for words in commands)


@pytest.mark.parametrize(
    "data",
    [
        b"PING\r\n",
        b"\r\n",
        b"*1\n$4\nPING\n",
        b"*1\r\n*1\r\n",
        b"*1\r\nPING\r\n",
        b"*-1\r\n",
        b"*1\r\n$-1\r\n",
        b"*+1\r\n",
        b"*1 \r\n",
        b"$1000000 hides what follows\r\n",
        b"$4\r\nPING\r\n",
        b"*1\r\n$4x\nPING\r\n",
        b"*1234567890\r\n",
        packed(b"PING") + b"PING\r\n",
    ],
)
def test_what_the_server_could_read_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(CommandError):
        WordCounter().count(data)
    by_bytes, counter = [data[place : place + 1] for place in range(len(data))], WordCounter()
    with pytest.raises(CommandError):
        sum(map(counter.count, by_bytes))


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
