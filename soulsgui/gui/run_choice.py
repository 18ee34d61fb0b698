"""What a new run will be like before it is begun: preset, own settings, and which of them win. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from soulsgui.wire.control import ConfigValues, Preset

CLIENTS, GOAL, ENVIRONMENT = "clients.local", "stop.mean_return", "env.id"


@dataclass(frozen=True)
class Choice:
    """The settings a run would begin with: defaults < preset < the user's own < overrides.

    Attributes:
        config: The user's settings and the defaults.
        preset: The chosen preset, None for the current settings.
        overrides: What wins over everything, by dotted key.
    """

    config: ConfigValues
    preset: Preset | None = None
    overrides: Mapping[str, Any] = field(default_factory=dict)

    def value(self, key: str) -> Any:
        """Return the value a setting would have."""
        layers = (
            self.overrides,
            self.config.saved,
            self.preset.values if self.preset is not None else {},
            self.config.defaults,
        )
        return next((layer[key] for layer in layers if key in layer), None)

    def still_winning(self) -> dict[str, Any]:
        """Return the user's own settings that win over the chosen preset."""
        if self.preset is None:
            return {}
        return {
            key: self.config.saved[key]
            for key, value in self.preset.values.items()
            if key in self.config.saved and key not in self.overrides and self.config.saved[key] != value
        }

    def changes(self, clients: int, goal: float | None) -> dict[str, Any]:
        """Return the overrides to begin with, when the user wants these numbers.

        Args:
            clients: Clients on the server's machine.
            goal: Mean return to stop at; None for no such goal.
        """
        wanted = {CLIENTS: clients, GOAL: goal}
        changed = {key: value for key, value in wanted.items() if value != self.value(key)}
        return {**self.overrides, **changed}


def task_of(preset: Preset) -> str:
    """Return what a preset trains, as a person names it: `LunarLander` for `LunarLander-v3`."""
    return str(preset.values.get(ENVIRONMENT, "")).rpartition("/")[2].partition("-v")[0]
