"""What was changed in a form and not saved yet. Pure."""

from collections.abc import Mapping
from typing import Any

from soulsgui.gui.settings_form.spec import specs


class Edits:
    """Values on screen over the saved ones over the shipped ones.

    Args:
        base: Values without the user's own: defaults, or a preset over them; by dotted key.
        saved: The user's saved values, by dotted key.
    """

    def __init__(self, base: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
        self.rebase(base)
        self._saved = {key: specs()[key].check(value)[0] for key, value in saved.items() if key in specs()}
        self._typed: dict[str, Any] = {}
        self._reset: set[str] = set()
        self._wrong: dict[str, str] = {}

    def rebase(self, base: Mapping[str, Any]) -> None:
        """Take other values without the user's own: those shipped with another algorithm, say."""
        self._base = {key: spec.check(base.get(key, spec.info.default))[0] for key, spec in specs().items()}

    def value(self, key: str) -> Any:
        """Return the value on screen."""
        if key in self._typed:
            return self._typed[key]
        return self._saved[key] if self._keeps(key) else self._base[key]

    def base(self, key: str) -> Any:
        """Return the value it would have without the user's own."""
        return self._base[key]

    def _keeps(self, key: str) -> bool:
        return key in self._saved and key not in self._reset

    def type(self, key: str, value: Any, problem: str = "") -> None:
        """Take what the user typed.

        Args:
            key: The setting.
            value: Its value as the schema keeps it, or the text that could not be read.
            problem: What is wrong with it.
        """
        self._wrong.pop(key, None)
        self._typed.pop(key, None)
        self._reset.discard(key)
        if problem:
            self._wrong[key] = problem
            self._typed[key] = value
        elif value == self._base[key] and key in self._saved and value != self._saved[key]:
            # Typed back to what it would be anyway: no entry of one's own is needed.
            self._reset.add(key)
        elif value != self.value(key):
            self._typed[key] = value

    def take(self, own: Mapping[str, Any]) -> None:
        """Take the user's own values as they shall be, all at once: those of a text edited by hand.

        Args:
            own: Values by dotted key; what is saved and not among them is to be taken out.
        """
        self._typed, self._wrong = {}, {}
        self._reset = {key for key in self._saved if key not in own}
        for key, written in own.items():
            if key in specs():
                value, problem = specs()[key].check(written)
                if problem or key not in self._saved or value != self._saved[key]:
                    self._typed[key] = value
                if problem:
                    self._wrong[key] = problem

    def reset(self, key: str) -> None:
        """Give the setting back its shipped value."""
        self._wrong.pop(key, None)
        self._typed.pop(key, None)
        if key in self._saved:
            self._reset.add(key)

    def modified(self, key: str) -> bool:
        """Whether the user has a value of their own, saved or not."""
        return key in self._typed or self._keeps(key)

    def unsaved(self, key: str) -> bool:
        """Whether it was changed since it was saved."""
        return key in self._typed or key in self._reset

    @property
    def problems(self) -> Mapping[str, str]:
        """What is wrong, by dotted key."""
        return self._wrong

    @property
    def own(self) -> dict[str, Any]:
        """Every value of the user's own, saved or not, wrong or not."""
        return {key: self.value(key) for key in specs() if self.modified(key)}
