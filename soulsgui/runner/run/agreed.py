"""What runs may execute on this computer: what was begun here, and what its user agreed to.

The folder of a run or a checkpoint names what is imported and called, and may come from anybody, also where
it lies among the own ones. What it names is told apart by its digest, wherever it lies.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from soulsgui.config.paths import Folders
from soulsgui.config.schema import Settings, client_settings
from soulsgui.errors import NotAgreedError
from soulsgui.system import write_private
from soulsgui.wire.messages.owner import read_agreement
from soulsgui.wire.messages.server_config import TOO_LONG, Execution


class RunNotAgreedError(NotAgreedError):
    """A run or a checkpoint names code that was neither begun here nor agreed to."""

    def __init__(self, what: str, asks: Execution) -> None:
        told = TOO_LONG if asks.too_long else asks.sentence
        super().__init__(
            f"{what} was not started here by SoulsGUI, as far as it knows, and wants to run this: {told}",
            "Nothing of it was run. If you trust where it comes from, agree with --trust",
        )
        self.asks = None if asks.too_long else asks


class AgreedRuns:
    """The list of what was begun or agreed to, a private file beside the user's settings."""

    def __init__(self, folders: Folders) -> None:
        self._path = folders.agreed

    def asks(self, settings: Settings, changed: Settings | None = None) -> Execution | None:
        """Return what would have to be agreed to before settings are used; None for nothing.

        Args:
            settings: As they were found.
            changed: With what the user has changed of them, which needs no question by itself.
        """
        found, wanted = execution_of(settings), execution_of(changed or settings)
        agreed = read_agreement(self._path)
        fine = any(_is_harmless(one) or agreed.covers(one) for one in (found, wanted))
        return None if fine else wanted

    def agree(self, settings: Settings) -> None:
        """Let runs execute this from now on; what needs no agreement is not written down."""
        execution = execution_of(settings)
        if not _is_harmless(execution):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            now = read_agreement(self._path).with_one_more(execution.digest)
            write_private(self._path, now.to_json().encode())


def execution_of(settings: Settings) -> Execution:
    """Return what settings have whoever plays by them import, make and call."""
    return Execution.of(client_settings(settings))


_OWN_WRAPPERS = "soulsgui.environments."


def _is_harmless(execution: Execution) -> bool:
    """Whether whoever wrote it runs nothing of his own by it.

    It names parts of Gymnasium, of what is installed beside it, and wrappers of this program alone, and gives
    them numbers: a text might name a module to import, or a file to write.
    """
    wrappers: list[tuple[str, Any]] = []
    for one in execution.env_wrappers:
        wrappers += [(one, None)] if isinstance(one, str) else one.items()
    foreign = [name for name, _ in wrappers if ":" in name and not name.startswith(_OWN_WRAPPERS)]
    named = ":" in execution.env_id or execution.restart_hook or execution.network or foreign
    return not named and not _has_text([execution.env_kwargs, *(arguments for _, arguments in wrappers)])


def _has_text(value: Any) -> bool:
    if isinstance(value, Mapping):
        return any(_has_text(part) for part in value.values())
    return isinstance(value, str) or (isinstance(value, Sequence) and any(map(_has_text, value)))
