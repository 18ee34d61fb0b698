"""Modules that settings name: imported here alone, so that a process can be held to what was agreed to."""

from collections.abc import Collection
from importlib import import_module
from types import ModuleType

from soulsgui.errors import ClientRegistrationError

_agreed: Collection[str] | None = None
"""The modules that may be named in this process; None: any."""


def hold_to(modules: Collection[str] | None) -> None:
    """Refuse from now on to import by name what is none of these modules; None refuses nothing."""
    global _agreed
    _agreed = modules


def import_named(module: str) -> ModuleType:
    """Import a module that a setting or a server names.

    Raises:
        ClientRegistrationError: The owner of this computer has not agreed to it.
        Exception: Whatever the module raises.
    """
    if _agreed is not None and module not in _agreed:
        raise ClientRegistrationError(
            f"The server names the module {module!r}, to which nobody on this computer has agreed.",
            "Tell its owner; nothing of it was run.",
        )
    return import_module(module)
