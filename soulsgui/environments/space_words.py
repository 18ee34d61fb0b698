"""Spaces, for a person. Pure."""

import math
from collections.abc import Sequence

from soulsgui.environments.actions import ActionSpec, BoxActionSpec
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.observations import ObservationSpec
from soulsgui.environments.parts import PartSpace

_MOST_SIZES = 8


def box_words(box: BoxSpec) -> str:
    """Return in words what an array of numbers is like."""
    shape = "×".join(map(str, box.shape)) or "1"
    return f"{shape} numbers ({box.dtype}){_bound_words(box)}"


def observation_words(observation: ObservationSpec) -> str:
    """Return in words what an environment shows."""
    if isinstance(observation, BoxSpec):
        return box_words(observation)
    named = [(part.name, _part_words(part.space)) for part in observation.parts]
    return "; ".join(f"{name}: {words}" if name else words for name, words in named)


def _part_words(space: PartSpace) -> str:
    if isinstance(space, BoxSpec):
        return box_words(space)
    if isinstance(space, MultiBinarySpec):
        return f"{math.prod(space.shape)} times yes or no"
    if isinstance(space, DiscreteSpec):
        return f"one of {space.n}" + (f", from {space.start}" if space.start else "")
    first = f", from {', '.join(map(str, space.start))}" if any(space.start) else ""
    return f"{len(space.sizes)} choices at once, of {_sizes_words(space.sizes)}{first}"


def action_words(action: ActionSpec) -> str:
    """Return in words what an environment takes."""
    if isinstance(action, BoxActionSpec):
        return box_words(action.box)
    if isinstance(action, MultiBinarySpec):
        return f"{action.shape[0]} times yes or no"
    if isinstance(action, MultiDiscreteSpec):
        first = f", from {', '.join(map(str, action.start))}" if any(action.start) else ""
        return f"{len(action.sizes)} choices at once, of {_sizes_words(action.sizes)} actions{first}"
    return f"one of {action.n} actions" + (f", from {action.start}" if action.start else "")


def _sizes_words(sizes: Sequence[int]) -> str:
    """Return `2, 3 and 4`; the smallest and the largest where there are many, one where all are equal."""
    if len(set(sizes)) == 1:
        return str(sizes[0])
    if len(sizes) > _MOST_SIZES:
        return f"{min(sizes)} to {max(sizes)}"
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


def _bound_words(box: BoxSpec) -> str:
    if box.low is None and box.high is None:
        return ", unbounded"
    low = -math.inf if box.low is None else min(box.low)
    high = math.inf if box.high is None else max(box.high)
    return f", between {low:.4g} and {high:.4g}"
