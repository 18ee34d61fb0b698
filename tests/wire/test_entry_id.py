"""Entry ids: read, written, ordered as the server orders them."""

import pytest

from soulsgui.wire.entry_id import EntryId

LARGEST = 2**64 - 1


@pytest.mark.parametrize(("text", "entry"), [("17-3", (17, 3)), (b"17-3", (17, 3)), ("17", (17, 0))])
def test_ids_are_read(text: str | bytes, entry: tuple[int, int]) -> None:
    assert EntryId.parse(text) == entry
    assert str(EntryId.parse(text)) == f"{entry[0]}-{entry[1]}"


@pytest.mark.parametrize("text", ["", "-", "a-1", "1-b", "1-2-3"])
def test_what_is_no_id_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="invalid literal"):
        EntryId.parse(text)


def test_ids_are_ordered_as_numbers() -> None:
    assert EntryId.parse("9-10") < EntryId.parse("10-9") < EntryId.parse("10-10")


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ((5, 7), (5, 8)),
        ((5, LARGEST), (6, 0)),
        ((LARGEST, LARGEST), (LARGEST, LARGEST)),
    ],
)
def test_next_id_stays_an_id(entry: tuple[int, int], after: tuple[int, int]) -> None:
    assert EntryId(*entry).next == after
