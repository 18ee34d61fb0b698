"""Commands and replies, however their bytes come."""

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.runner.server.gateway import packed
from soulsgui.runner.server.protocol import LONGEST_WORD, CommandError, Commands, Replies

WORDS = st.lists(st.binary(max_size=40), max_size=3)
NAMES = st.binary(max_size=20).filter(lambda name: name.upper() != b"XADD")  # some of its words are read
COMMANDS = st.lists(st.tuples(NAMES, WORDS), max_size=6)
CUTS = st.lists(st.integers(0, 400))
LEAVES = (
    st.binary(max_size=30).map(lambda one: b"$%d\r\n%b\r\n" % (len(one), one))
    | st.integers().map(lambda one: b":%d\r\n" % one)
    | st.sampled_from([b"+OK\r\n", b"-ERR no\r\n", b"$-1\r\n", b"*-1\r\n", b"*0\r\n", b"_\r\n"])
)
REPLIES = st.lists(
    st.recursive(
        LEAVES,
        lambda inner: (
            st.lists(inner, max_size=4).map(lambda one: b"*%d\r\n" % len(one) + b"".join(one))
            | st.tuples(LEAVES, inner).map(lambda one: b"%1\r\n" + b"".join(one))
        ),
        max_leaves=8,
    ),
    max_size=5,
)


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, *(cut for cut in cuts if cut < len(data)), len(data)})
    return [data[begin:end] for begin, end in pairwise(places)]


@given(COMMANDS, CUTS)
def test_commands_are_named_and_their_words_counted(
    said: list[tuple[bytes, list[bytes]]], cuts: list[int]
) -> None:
    data = b"".join(packed(name, *words) for name, words in said)
    commands, names, rest, passed = Commands(), [], b"", b""

    def may(name: bytes) -> bool:
        names.append(name)
        return True

    for piece in pieces(data, cuts):
        rest += piece
        end = commands.read(rest, may)
        passed, rest = passed + rest[:end], rest[end:]
    assert (passed, rest) == (data, b"")
    assert names == [name.upper() for name, _ in said]
    assert commands.words == sum(len(words) + 2 for _, words in said)
    values = [len(word) for name, words in said for word in words if name.upper() == b"SET"]
    assert commands.largest_value == max(values, default=0)


def test_nothing_is_passed_of_a_command_that_is_to_wait() -> None:
    commands, first = Commands(), packed(b"PING")
    data = first + packed(b"GET", b"a") + first
    assert commands.read(data, lambda name: name != b"GET") == len(first)
    assert commands.read(data[len(first) :], lambda _: True) == len(data) - len(first)


def test_a_payload_may_be_of_any_length() -> None:
    data = packed(b"XADD", b"key", b"*", b"c", bytes(10 * LONGEST_WORD)) + packed(b"SET", b"key", bytes(2000))
    assert Commands().read(data, lambda _: True) == len(data)


@pytest.mark.parametrize(
    "words",
    [
        [b"*"],
        [b"0-1"],
        [b"MAXLEN", b"200", b"*"],
        [b"MAXLEN", b"~", b"200", b"*"],
        [b"nomkstream", b"%d-%d" % (1000 * time.time() + 3_600_000, 2**64 - 1)],
    ],
    ids=["server", "first", "exact", "about", "ahead"],
)
def test_entries_may_have_any_id_that_a_clock_tells(words: list[bytes]) -> None:
    data = packed(b"XADD", b"key", *words, b"c", b"x")
    assert Commands().read(data, lambda _: True) == len(data)


@given(REPLIES, CUTS)
def test_replies_are_counted_at_their_end(replies: list[bytes], cuts: list[int]) -> None:
    data, counter, came, found = b"".join(replies), Replies(), 0, 0
    ends = [sum(map(len, replies[: number + 1])) for number in range(len(replies))]
    for piece in pieces(data, cuts):
        came, found = came + len(piece), found + counter.count(piece)
        assert found == sum(end <= came for end in ends)


@pytest.mark.parametrize(
    "data",
    [
        b"PING\r\n",
        b"\r\n",
        b"*1\n$4\nPING\n",
        b"*1\r\n*1\r\n",
        b"*1\r\nPING\r\n",
        b"*-1\r\n",
        b"*0\r\n",
        b"*\r\n",
        b"*1\r\n$-1\r\n",
        b"*1\r\n$100\r\n",
        b"*2\r\n$4\r\nPING\r\n$-1\r\n",
        b"*+1\r\n",
        b"*1 \r\n",
        b"$1000000 hides what follows\r\n",
        b"$4\r\nPING\r\n",
        b"*1\r\n$4x\nPING\r\n",
        b"*1234567890\r\n",
        packed(b"PING") + b"PING\r\n",
        packed(b"PING", bytes(LONGEST_WORD + 1)),
        packed(b"CLIENT", b"SETNAME", bytes(LONGEST_WORD + 1)),
        packed(b"XADD", bytes(LONGEST_WORD + 1)),
        packed(b"XADD", b"key", b"%d-0" % 2**63, b"c", b"x"),
        packed(b"XADD", b"key", b"NOMKSTREAM", b"MAXLEN", b"9", b"%d-1" % (2**64 - 1), b"*", b"x"),
        packed(b"XADD", b"key", b"%d" % 2**63, b"*", b"x"),
        packed(b"XADD", b"key", b"1-*", b"c", b"x"),
        packed(b"XADD", b"key", b"MAXLEN", b"9 *", b"%d-0" % 2**63, b"c", b"x"),
        packed(b"XADD", b"key", b" 1-1", b"*", b"x"),
    ],
)
def test_what_the_server_could_read_otherwise_is_refused(data: bytes) -> None:
    with pytest.raises(CommandError):
        Commands().read(data, lambda _: True)
    by_bytes = Commands()

    def byte_by_byte() -> None:
        rest = b""
        for place in range(len(data)):
            rest += data[place : place + 1]
            rest = rest[by_bytes.read(rest, lambda _: True) :]

    with pytest.raises(CommandError):
        byte_by_byte()
