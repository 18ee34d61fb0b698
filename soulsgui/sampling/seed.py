"""Central inference from a Python program: `Actor`, a process of environments (`modes.seed.trainer`)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.modes.seed.trainer import Actor

__all__ = ["Actor"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("soulsgui.modes.seed.trainer"), name)
