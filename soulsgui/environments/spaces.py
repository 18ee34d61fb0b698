"""Spaces as plain data: what an environment shows and takes, in JSON, on the wire and in a checkpoint."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from gymnasium import Space

from soulsgui.environments.actions import ActionSpec, BoxActionSpec, action_from_json, action_from_space
from soulsgui.environments.box import BoxSpec
from soulsgui.environments.choices import DiscreteSpec, MultiDiscreteSpec
from soulsgui.environments.observations import (
    ObservationSpec,
    PartsSpec,
    observation_from_json,
    observation_from_space,
)
from soulsgui.environments.space_words import action_words
from soulsgui.errors import EnvironmentCheckError

__all__ = ["ActionSpec", "BoxSpec", "DiscreteSpec", "ObservationSpec", "PartsSpec", "SpacesSpec"]


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
            EnvironmentCheckError: The data are no description of supported spaces.
        """
        try:
            return cls(observation_from_json(data["observation"]), action_from_json(data["action"]))
        except (ValueError, KeyError, TypeError) as error:
            raise EnvironmentCheckError(
                f"A description of spaces can't be read: {error!r}.",
                "It was written by another version or is damaged: let the environment be probed again.",
            ) from error

    @classmethod
    def from_env(
        cls, observation_space: Space[Any], action_space: Space[Any], masked: bool = False
    ) -> "SpacesSpec":
        """Describe the spaces of one (unvectorised) Gymnasium environment.

        Args:
            observation_space: What it shows.
            action_space: What it takes.
            masked: Whether it tells which actions are valid (`environments.masks.gives_masks`).

        Raises:
            EnvironmentCheckError: A space is of a kind that is not supported; the remedy says what to do.
        """
        return cls(observation_from_space(observation_space), action_from_space(action_space, masked))

    def numbered_actions(self, algorithm: str) -> DiscreteSpec:
        """Return the action space for an algorithm that chooses one of several numbered actions.

        Args:
            algorithm: What it is called.

        Raises:
            EnvironmentCheckError: The environment takes something else.
        """
        if isinstance(self.action, DiscreteSpec):
            return self.action
        raise EnvironmentCheckError(
            f"{algorithm} chooses one of several numbered actions; this environment takes "
            f"{action_words(self.action)}.",
            "Set algorithm: ppo or vtrace, or choose an environment with a Discrete action space.",
        )

    def bounded_actions(self, algorithm: str) -> BoxActionSpec:
        """Return the action space for an algorithm that chooses numbers within bounds.

        Args:
            algorithm: What it is called.

        Raises:
            EnvironmentCheckError: The environment takes something else, or a bound is missing.
        """
        if isinstance(self.action, BoxActionSpec) and self.action.is_bounded:
            return self.action
        raise EnvironmentCheckError(
            f"{algorithm} chooses numbers within bounds; this environment takes {action_words(self.action)}.",
            "Set algorithm: ppo, or choose an environment with a Box of actions that has bounds on both "
            "sides.",
        )
