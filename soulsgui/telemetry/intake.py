"""Which entries of an episode stream are episodes of this run, and why others are not. Pure."""

import math
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from soulsgui.config.sections.run import LEAST_TO_CONFIRM, settles
from soulsgui.wire.group_reader import Entry
from soulsgui.wire.keys import EntryId
from soulsgui.wire.messages.session import EPISODE_FIELD, HELLO_FIELD, Episode, Grant, GreedyOrder

MAX_BYTES = 4096  # an entry of an episode is about 200 bytes

_MAX_RETURN = 1e30
_MAX_STEPS = 10**9
_MAX_NUMBER = 2**53  # exact in JSON, on every machine


class DropReason(StrEnum):
    """Why an entry was dropped."""

    UNREADABLE = "unreadable"
    TOO_LARGE = "too_large"
    RUN = "other_run"
    ATTEMPT = "unknown_attempt"
    NOT_FINITE = "not_finite"
    BOUNDS = "out_of_bounds"
    WRONG_TYPE = "wrong_type"
    NOT_ASKED = "not_asked"
    NOT_ADMITTED = "not_admitted"
    MODEL = "unknown_model"
    UNBACKED = "unbacked"


class Arrival(NamedTuple):
    """An episode of this run, with where it came from."""

    client: str
    id: EntryId
    episode: Episode


class Refusal(NamedTuple):
    """An entry that is none."""

    client: str
    reason: DropReason


def sort_out(entries: Iterable[Entry], run_id: str) -> tuple[list[Arrival], list[Refusal]]:
    """Tell episodes of this run from everything else; hellos and trimmed entries are neither."""
    arrivals = []
    refusals = []
    for client, entry, fields in entries:
        payload = fields.get(EPISODE_FIELD)
        if payload is None:
            if fields and HELLO_FIELD not in fields:
                refusals.append(Refusal(client, DropReason.UNREADABLE))
            continue
        found = judge(payload, run_id)
        if isinstance(found, Episode):
            arrivals.append(Arrival(client, entry, found))
        else:
            refusals.append(Refusal(client, found))
    return arrivals, refusals


def judge(payload: bytes, run_id: str) -> Episode | DropReason:
    """Return the episode in a payload, or why it is refused."""
    if len(payload) > MAX_BYTES:
        return DropReason.TOO_LARGE
    episode = Episode.read(payload)
    if episode is None:
        return DropReason.UNREADABLE
    if episode.run_id != run_id:
        return DropReason.RUN
    if not (math.isfinite(episode.total_return) and math.isfinite(episode.seconds)):
        return DropReason.NOT_FINITE
    in_bounds = (
        abs(episode.total_return) <= _MAX_RETURN
        and 1 <= episode.length <= _MAX_STEPS
        and 1 <= episode.attempt <= _MAX_NUMBER
        and 0 <= episode.model_id <= _MAX_NUMBER
        and 0 <= episode.env_index <= _MAX_NUMBER
    )
    return episode if in_bounds else DropReason.BOUNDS


def why_not_counted(episode: Episode, grant: Grant | None, newest: int) -> DropReason | None:
    """Say why an episode does not count: the trainer takes nothing of its client, or has no such model yet.

    `newest` is the newest model, -1 while that is not known.
    """
    if grant is None or grant.status != "accepted":
        return DropReason.NOT_ADMITTED
    return DropReason.MODEL if episode.model_id > newest >= 0 else None


class Played(NamedTuple):
    """A greedy episode, with the order that it is part of."""

    arrival: Arrival
    order: GreedyOrder


class Complete(NamedTuple):
    """An evaluation of which enough episodes came."""

    order: GreedyOrder
    returns: Sequence[float]
    lengths: Sequence[int]
    seconds: float
    cut: int = 0


def order_of(arrival: Arrival, grant: Grant | None) -> GreedyOrder | None:
    """Return the order that a greedy episode is part of; None when nobody asked for it."""
    order, episode = None if grant is None else grant.greedy, arrival.episode
    if order is None or (episode.model_id, episode.attempt) != (order.model_id, order.attempt):
        return None
    return order if 0 <= episode.number < order.count else None


def enough(order: GreedyOrder, returns: Sequence[float]) -> int | None:
    """Return how many of an evaluation's episodes it is made of; None while more are to come.

    With a goal it goes on, as the evaluator does, until it says whether the goal is reached: one that is to
    confirm a claim in any case, another one when its first episodes reach the goal.
    """
    if order.goal is not None:
        for count in range(order.least, min(order.count, len(returns) + 1), LEAST_TO_CONFIRM):
            misses = (
                order.confirms is None and count == order.least and sum(returns[:count]) / count < order.goal
            )
            if misses or settles(returns[:count], order.goal):
                return count
    return order.count if len(returns) >= order.count else None
