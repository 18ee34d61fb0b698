"""What rewards are worth, in numpy: `advantages` (GAE), `n_step` sums along chains of steps."""

from soulsgui.rl.returns.advantages import Floats, gae

__all__ = ["Floats", "gae"]
