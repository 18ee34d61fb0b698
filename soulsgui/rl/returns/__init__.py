"""What rewards are worth, in numpy: `advantages` (GAE), `n_step` sums along chains of steps.

`reward_scaling` and `value_normalising` keep the numbers of an environment near 1.
"""

from soulsgui.rl.returns.advantages import Floats, gae

__all__ = ["Floats", "gae"]
