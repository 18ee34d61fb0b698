"""What settings name is imported here alone, so that a process can be restricted to what was agreed to."""

import sys
from collections.abc import Container
from importlib import import_module
from types import ModuleType

from soulsgui.errors import NotAgreedError

_agreed: Container[str] | None = None
"""The names (`module:Name`) that may be imported in this process; None: any."""


class Loaded:
    """The names of what lies in modules that the program of this process has imported by itself."""

    def __contains__(self, name: object) -> bool:
        return str(name).rpartition(":")[0] in sys.modules


def restrict_imports(names: Container[str] | None) -> None:
    """Refuse from now on what a server, settings or a checkpoint name, but for these; None refuses nothing.

    The processes of a client's environments are not restricted: they get what was agreed to from it.
    """
    global _agreed
    _agreed = names


def import_named(name: str) -> ModuleType:
    """Import the module of a `module:Name` that a setting or a server names.

    Raises:
        NotAgreedError: The owner of this computer has not agreed to it.
        Exception: Whatever the module raises.
    """
    if _agreed is not None and name not in _agreed:
        raise NotAgreedError(
            f"The owner of this computer has not agreed to “{name}”, which the server or the checkpoint "
            "names.",
            "Nothing of it was run. Tell the owner of the server, or use another checkpoint.",
        )
    return import_module(name.rpartition(":")[0])
