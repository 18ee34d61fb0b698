"""Which entries of an episode stream are episodes of this run, and why others are not. Pure."""

import math
from collections.abc import Iterable
from enum import StrEnum
from typing import NamedTuple

from soulsgui.wire.entry_id import EntryId
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.messages.episode import Episode
from soulsgui.wire.messages.session import EPISODE_FIELD, HELLO_FIELD

MAX_BYTES = 4096
"""An entry of an episode is about 200 bytes."""

_MAX_RETURN = 1e30
_MAX_STEPS = 10**9
_MAX_NUMBER = 2**53  # exact in JSON, on every machine


class Reason(StrEnum):
    """Why an entry was dropped."""

    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    RUN = "other_run"
    ATTEMPT = "unknown_attempt"
    NOT_FINITE = "not_finite"
    BOUNDS = "out_of_bounds"
    WRONG_TYPE = "wrong_type"
    NOT_ASKED = "not_asked"


class Arrival(NamedTuple):
    """An episode of this run, with where it came from."""

    client: str
    id: EntryId
    episode: Episode


class Refusal(NamedTuple):
    """An entry that is none."""

    client: str
    reason: Reason


def sort_out(entries: Iterable[Entry], run_id: str) -> tuple[list[Arrival], list[Refusal]]:
    """Tell episodes of this run from everything else; hellos and trimmed entries are neither.

    Args:
        entries: What was read.
        run_id: The run.
    """
    arrivals = []
    refusals = []
    for client, entry, fields in entries:
        payload = fields.get(EPISODE_FIELD)
        if payload is None:
            if fields and HELLO_FIELD not in fields:
                refusals.append(Refusal(client, Reason.UNREADABLE))
            continue
        found = judge(payload, run_id)
        if isinstance(found, Episode):
            arrivals.append(Arrival(client, entry, found))
        else:
            refusals.append(Refusal(client, found))
    return arrivals, refusals


def judge(payload: bytes, run_id: str) -> Episode | Reason:
    """Return the episode in a payload, or why it is refused."""
    if len(payload) > MAX_BYTES:
        return Reason.TOO_LARGE
    episode = Episode.read(payload)
    if episode is None:
        return Reason.UNREADABLE
    if episode.run_id != run_id:
        return Reason.RUN
    if not (math.isfinite(episode.total_return) and math.isfinite(episode.seconds)):
        return Reason.NOT_FINITE
    in_bounds = (
        abs(episode.total_return) <= _MAX_RETURN
        and 1 <= episode.length <= _MAX_STEPS
        and 1 <= episode.attempt <= _MAX_NUMBER
        and 0 <= episode.model_id <= _MAX_NUMBER
        and 0 <= episode.env_index <= _MAX_NUMBER
    )
    return episode if in_bounds else Reason.BOUNDS
