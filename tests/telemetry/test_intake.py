"""What counts as an episode of the run."""

import json
import math
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


BAD: dict[DropReason, list[dict[str, Any]]] = {
    DropReason.UNREADABLE: [{"length": "many"}],
    DropReason.TOO_LARGE: [{"padding": "x" * 5000}],
    DropReason.RUN: [{"run_id": "another"}],
    DropReason.NOT_FINITE: [{"total_return": math.nan}, {"total_return": math.inf}, {"seconds": -math.inf}],
    DropReason.BOUNDS: [
        *({"length": length} for length in (0, 2**70)),
        *({"model_id": model_id} for model_id in (2**63, -1)),
        *({"total_return": 1e300}, {"attempt": 0}, {"env_index": -1}),
    ],
}


@pytest.mark.parametrize(("reason", "changes"), [(name, one) for name, bad in BAD.items() for one in bad])
def test_everything_else_is_refused_with_its_reason(reason: DropReason, changes: dict[str, Any]) -> None:
    assert judge(_payload(**changes), RUN_ID) is reason
    for unreadable in (b"", b"\x80\x04K\x01.", b"[]"):
        assert judge(unreadable, RUN_ID) is DropReason.UNREADABLE


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
