"""Greedy episodes of clients: which were asked for, and what an evaluation is made of. Pure."""

import time
from collections.abc import Sequence
from typing import NamedTuple

from soulsgui.config.sections.evaluation import LEAST_TO_CONFIRM, settles
from soulsgui.telemetry.intake import Arrival
from soulsgui.wire.messages.metrics import UpdateRow, evaluation_values
from soulsgui.wire.messages.session import Grant, GreedyOrder


class Played(NamedTuple):
    """A greedy episode, with the order that it is part of."""

    arrival: Arrival
    order: GreedyOrder


class Complete(NamedTuple):
    """An evaluation of which enough episodes came.

    Attributes:
        order: What was asked for.
        returns: Return of each episode.
        lengths: Steps of each.
        seconds: Sum of the wall time of each.
        cut: How many of them did not end and were cut.
    """

    order: GreedyOrder
    returns: Sequence[float]
    lengths: Sequence[int]
    seconds: float
    cut: int = 0


def order_of(arrival: Arrival, grant: Grant | None) -> GreedyOrder | None:
    """Return the order that a greedy episode is part of; None when nobody asked for it.

    Args:
        arrival: The episode.
        grant: The present grant of the client that sent it.
    """
    order, episode = None if grant is None else grant.greedy, arrival.episode
    if order is None or (episode.model_id, episode.attempt) != (order.model_id, order.attempt):
        return None
    return order if 0 <= episode.number < order.count else None


def enough(order: GreedyOrder, returns: Sequence[float]) -> int | None:
    """Return how many of an evaluation's episodes it is made of; None while more are to come.

    With a goal it goes on, as the evaluator does, until it says whether the goal is reached: one that is to
    confirm a claim in any case, another one when its first episodes reach the goal.

    Args:
        order: What was asked for.
        returns: Return of each episode that came, from the first one on without a gap.
    """
    if order.goal is not None:
        for count in range(order.least, min(order.count, len(returns) + 1), LEAST_TO_CONFIRM):
            misses = (
                order.confirms is None and count == order.least and sum(returns[:count]) / count < order.goal
            )
            if misses or settles(returns[:count], order.goal):
                return count
    return order.count if len(returns) >= order.count else None


def evaluation_row(run_id: str, found: Complete, last: tuple[int, int]) -> UpdateRow:
    """Return the row of an evaluation, as the evaluator writes it of its own.

    Args:
        run_id: The run.
        found: The evaluation.
        last: Attempt and update of the evaluation before it, zeros before the first.
    """
    order = found.order
    return UpdateRow(
        kind="evaluation",
        run_id=run_id,
        attempt=order.attempt,
        update=order.update,
        previous=last[1] if last[0] == order.attempt else 0,
        env_steps=order.env_steps,
        episodes=order.episodes,
        model_id=order.model_id,
        time=time.time(),
        values=evaluation_values(found.returns, found.lengths, found.seconds, found.cut),
        confirms=order.confirms,
    )
