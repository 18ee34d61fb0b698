"""Central inference from a Python program: `Actor`, which stands in `modes.seed.actor`."""

from typing import TYPE_CHECKING

from soulsgui.lazy import lazily

if TYPE_CHECKING:
    from soulsgui.modes.seed.actor import Actor

__all__ = ["Actor"]

__getattr__ = lazily(__name__, dict.fromkeys(__all__, "modes.seed.actor"))
