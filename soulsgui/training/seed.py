"""Central inference from a Python program: `Trainer` and its `Config` (`modes.seed.trainer`)."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from soulsgui.modes.seed.trainer import Config, Trainer

__all__ = ["Config", "Trainer"]


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module("soulsgui.modes.seed.trainer"), name)
