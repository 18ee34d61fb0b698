"""For whom an inference server waits before it answers. Pure: time is passed in."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class BatchCandidate(NamedTuple):
    """A client whose next request was not taken yet."""

    name: str
    num_envs: int
    age_s: float  # since its last request
    pause_s: float  # from its last answer to that request

    def is_expected(self, delay_s: float) -> bool:
        """Whether it asks so lately and so often that a batch waits for it.

        Who pauses for more than half of the time that a batch may wait would slow the others down.
        """
        return self.age_s <= delay_s and self.pause_s <= delay_s / 2


def expected(waiting: Iterable[BatchCandidate], delay_s: float) -> list[BatchCandidate]:
    """Return for whom a batch waits; who asked longest ago comes first."""
    return sorted(
        (one for one in waiting if one.is_expected(delay_s)), key=lambda one: one.age_s, reverse=True
    )


def fitting(waiting: Sequence[BatchCandidate], room: int, delay_s: float) -> list[str]:
    """Return whose requests are to be looked for: as many as have room in a batch.

    Those who are expected come first: among the others may be some who never ask.
    """
    found: list[str] = []
    for one in sorted(waiting, key=lambda one: (not one.is_expected(delay_s), -one.age_s)):
        if one.num_envs <= room:
            found.append(one.name)
            room -= one.num_envs
    return found


def awaited(waiting: Sequence[BatchCandidate], room: int, delay_s: float) -> str | None:
    """Return the only one to wait for: when it asks, the others have asked, too. None: whoever asks first.

    That is who asked last, where all have room in the batch: what the others ask is taken with its request.
    """
    lately = expected(waiting, delay_s)
    return lately[-1].name if lately and sum(one.num_envs for one in waiting) <= room else None
