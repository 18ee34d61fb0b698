"""Central inference from a Python program: `Trainer` and its `Config`, of `modes.seed.trainer`."""

from typing import TYPE_CHECKING

from soulsgui.lazy import lazily

if TYPE_CHECKING:
    from soulsgui.modes.seed.trainer import Config, Trainer

__all__ = ["Config", "Trainer"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "modes.seed.trainer"))
