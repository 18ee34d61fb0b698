"""What counts as an episode of the run."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from soulsgui.telemetry.intake import Arrival, DropReason, Refusal, judge, sort_out
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.session import EPISODE_FIELD, HELLO_FIELD, Episode
from tests.telemetry.helpers import RUN_ID, episode


def _payload(**changes: Any) -> bytes:
    return json.dumps(episode().model_dump() | changes).encode()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"", DropReason.UNREADABLE),
        (b"\x80\x04K\x01.", DropReason.UNREADABLE),
        (b"[]", DropReason.UNREADABLE),
        (_payload(length="many"), DropReason.UNREADABLE),
        (_payload(padding="x" * 5000), DropReason.TOO_LARGE),
        (_payload(run_id="another"), DropReason.RUN),
        (_payload(total_return=float("nan")), DropReason.NOT_FINITE),
        (_payload(total_return=float("inf")), DropReason.NOT_FINITE),
        (_payload(seconds=float("-inf")), DropReason.NOT_FINITE),
        (_payload(total_return=1e300), DropReason.BOUNDS),
        (_payload(length=0), DropReason.BOUNDS),
        (_payload(length=2**70), DropReason.BOUNDS),
        (_payload(model_id=2**63), DropReason.BOUNDS),
        (_payload(model_id=-1), DropReason.BOUNDS),
        (_payload(attempt=0), DropReason.BOUNDS),
        (_payload(env_index=-1), DropReason.BOUNDS),
    ],
)
def test_everything_else_is_refused_with_its_reason(payload: bytes, reason: DropReason) -> None:
    assert judge(payload, RUN_ID) is reason


@given(st.binary(max_size=200))
def test_no_payload_makes_it_fail(payload: bytes) -> None:
    assert isinstance(judge(payload, RUN_ID), Episode | DropReason)


def test_hellos_and_trimmed_entries_are_neither_episodes_nor_refused() -> None:
    good = episode(1.0)
    entries = [
        Entry("a", EntryId(1, 0), {HELLO_FIELD: b"{}"}),
        Entry("a", EntryId(1, 1), {EPISODE_FIELD: good.to_json().encode()}),
        Entry("a", EntryId(1, 2), {}),
        Entry("b", EntryId(1, 3), {b"other": b"field"}),
    ]
    assert sort_out(entries, RUN_ID) == (
        [Arrival("a", EntryId(1, 1), good)],
        [Refusal("b", DropReason.UNREADABLE)],
    )
