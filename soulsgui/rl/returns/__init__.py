"""What rewards are worth, in numpy: `gae` advantages, `n_step` sums along chains of steps."""

from soulsgui.rl.returns.gae import Floats, gae

__all__ = ["Floats", "gae"]
