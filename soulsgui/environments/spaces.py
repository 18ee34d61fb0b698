"""Spaces as plain data: what an environment shows and takes, in JSON, on the wire and in a checkpoint."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gymnasium import Space
from numpy.typing import NDArray

from soulsgui.environments.actions import ActionSpec, BoxActionSpec, action_from_json, action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiBinarySpec, MultiDiscreteSpec
from soulsgui.environments.observations import (
    ObservationSpec,
    PartSpace,
    observation_from_json,
    observation_from_space,
)
from soulsgui.errors import EnvironmentCheckError
from soulsgui.experience.frame_stacks import field_of

_MOST_SIZES = 8


def box_words(box: BoxSpec) -> str:
    """Return in words what an array of numbers is like."""
    shape = "×".join(map(str, box.shape)) or "1"
    if box.low is None and box.high is None:
        return f"{shape} numbers ({box.dtype}), unbounded"
    low, high = min(box.low or (-math.inf,)), max(box.high or (math.inf,))
    return f"{shape} numbers ({box.dtype}), between {low:.4g} and {high:.4g}"


def observation_words(observation: ObservationSpec) -> str:
    """Return in words what an environment shows."""
    if isinstance(observation, BoxSpec):
        return box_words(observation)
    named = [(part.name, _part_words(part.space)) for part in observation.parts]
    return "; ".join(f"{name}: {words}" if name else words for name, words in named)


def action_words(action: ActionSpec) -> str:
    """Return in words what an environment takes."""
    return box_words(action.box) if isinstance(action, BoxActionSpec) else _part_words(action, " actions")


def _part_words(space: PartSpace, noun: str = "") -> str:
    if isinstance(space, BoxSpec):
        return box_words(space)
    if isinstance(space, MultiBinarySpec):
        return f"{space.shape[0]} times yes or no"
    if isinstance(space, DiscreteSpec):
        return f"one of {space.n}{noun}" + (f", from {space.start}" if space.start else "")
    first = f", from {', '.join(map(str, space.start))}" if any(space.start) else ""
    return f"{len(space.sizes)} choices at once, of {_sizes_words(space.sizes)}{noun}{first}"


def _sizes_words(sizes: Sequence[int]) -> str:
    """Return `2, 3 and 4`; the smallest and the largest where there are many, one where all are equal."""
    if len(set(sizes)) == 1:
        return str(sizes[0])
    if len(sizes) > _MOST_SIZES:
        return f"{min(sizes)} to {max(sizes)}"
    return f"{', '.join(map(str, sizes[:-1]))} and {sizes[-1]}"


@dataclass(frozen=True)
class SpacesSpec:
    """What an environment shows (`observation`) and takes (`action`); compared by value."""

    observation: ObservationSpec
    action: ActionSpec

    @property
    def masked_actions(self) -> int:
        """Number of actions of all choices, where the environment tells which are valid; otherwise 0."""
        return sum(self.action.sizes) if self.action.masked else 0

    def with_masks(self, masked: bool) -> "SpacesSpec":
        """Return the same of an environment that tells which actions are valid, or does not.

        What has no numbered choices has no masks, whatever stands in its infos.
        """
        action = self.action
        if isinstance(action, DiscreteSpec | MultiDiscreteSpec):
            action = replace(action, masked=masked)
        return replace(self, action=action)

    def to_json(self) -> dict[str, Any]:
        """Return the description as JSON-able data."""
        return {"observation": self.observation.to_json(), "action": self.action.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "SpacesSpec":
        """Read what `to_json` wrote.

        Raises:
            EnvironmentCheckError: The data describe no supported spaces.
        """
        try:
            return cls(observation_from_json(data["observation"]), action_from_json(data["action"]))
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentCheckError(
                f"A description of spaces can't be read: {error!r}.",
                "It was written by another version or is damaged: have the environment checked again.",
            ) from error

    @classmethod
    def from_env(
        cls, observation_space: Space[Any], action_space: Space[Any], masked: bool = False
    ) -> "SpacesSpec":
        """Describe the spaces of one (unvectorised) environment; `masked`: it tells which actions are valid.

        Raises:
            EnvironmentCheckError: A space is of a kind that is not supported; the remedy says what to do.
        """
        return cls(observation_from_space(observation_space), action_from_space(action_space, masked))

    def numbered_actions(self, algorithm: str) -> DiscreteSpec:
        """Return the space of numbered actions.

        Raises:
            EnvironmentCheckError: The environment takes other actions.
        """
        if isinstance(self.action, DiscreteSpec):
            return self.action
        raise EnvironmentCheckError(
            f"{algorithm} chooses one of several numbered actions; this environment takes "
            f"{action_words(self.action)}.",
            f"{self._fitting()} or choose an environment with a Discrete action space.",
        )

    def bounded_actions(self, algorithm: str) -> BoxActionSpec:
        """Return the space of numbers within bounds.

        Raises:
            EnvironmentCheckError: The environment takes other actions.
        """
        if isinstance(self.action, BoxActionSpec) and self.action.is_bounded:
            return self.action
        raise EnvironmentCheckError(
            f"{algorithm} chooses numbers within bounds; this environment takes {action_words(self.action)}.",
            f"{self._fitting()} or choose an environment with a Box of actions that has bounds on both "
            "sides.",
        )

    def _fitting(self) -> str:
        """Return the beginning of a remedy: the algorithms that can choose such actions."""
        also = ", dqn" if isinstance(self.action, DiscreteSpec) else ""
        if isinstance(self.action, BoxActionSpec) and self.action.is_bounded:
            also = ", sac"
        return f"Set algorithm: ppo{also} or vtrace,"


_ROW = "  {:<12} {}"


def spaces_words(spaces: SpacesSpec) -> tuple[str, str]:
    """Return in words what an environment shows, and what it takes."""
    return observation_words(spaces.observation), action_words(spaces.action)


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell a person what a check found, perhaps with `images.fit_report()`."""
    lines = [f"{report['env_id']}: {'works' if report['ok'] else 'can not be trained on'}"]
    if report["spaces"] is not None:
        shows, takes = spaces_words(SpacesSpec.from_json(report["spaces"]))
        lines += [_ROW.format("shows", shows), _ROW.format("takes", takes)]
        if report.get("image"):
            lines.append(_ROW.format("image", report["image"]))
        many = "in a vector form of its own" if report["native_vector"] else "one after the other"
        lines.append(_ROW.format("several", f"are stepped {many}"))
    if report["steps"]:
        lines.append(_ROW.format("speed", _speed_words(report["seconds_per_step"])))
        lines.append(_ROW.format("tried", f"{report['steps']} steps, {report['episodes']} episodes"))
    if report.get("misfit"):
        lines.append(_ROW.format("misfit", " ".join(report["misfit"].values())))
    lines += [_ROW.format("problem", words.replace("\n", " ")) for words in report["problems"]]
    for key, place in report.get("places", {}).items():
        lines.append(_ROW.format("set", f"{key} in {place}"))
    lines += [_ROW.format("note", words) for words in report["notes"]]
    return lines


def _speed_words(seconds_per_step: float) -> str:
    rate = f", {1 / seconds_per_step:,.0f} steps/s" if seconds_per_step > 0 else ""
    return f"{1000 * seconds_per_step:.3g} ms a step{rate}"


MOST_OUTPUTS = 64
"""Of so many outputs of a network the first ones are told: they fit into the header of its weights."""

TOLERANCE = 1e-5  # how far two networks that are the same may differ, relative and absolute

_NO_FURTHER = 10.0


def reference_observation(space: ObservationSpec) -> NDArray[Any]:
    """Return a stored observation of a space, `[1, *shape]`: spread over its bounds, at most 10 from 0.

    It comes from a formula and not from chance, whose numbers differ between versions of numpy.
    """
    found = np.zeros((1, *space.shape), space.dtype)
    for name, box in space.fields:
        field_of(found, name)[:] = _spread(box)
    return space.rounded(found)


def _spread(box: BoxSpec) -> NDArray[Any]:
    low, high = (limit.astype(np.float64).reshape(-1) for limit in box.limits)
    # Bounds beyond 10 are cut there, unless the whole space lies beyond.
    least = np.minimum(np.maximum(low, -_NO_FURTHER), high)
    most = np.maximum(np.minimum(high, _NO_FURTHER), low)
    part = (1.0 + np.sin(1.0 + np.arange(box.size))) / 2.0
    flat: NDArray[np.float64] = least + part * (most - least)
    return flat.astype(np.dtype(box.dtype)).reshape(1, *box.shape)


def same_outputs(told: tuple[float, ...], own: NDArray[np.float32]) -> bool:
    """Whether a network's outputs begin as the server told; an older one told none."""
    first = np.array(told[:MOST_OUTPUTS])
    return len(first) <= len(own) and bool(np.allclose(own[: len(first)], first, TOLERANCE, TOLERANCE))
