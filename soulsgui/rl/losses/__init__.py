"""Losses as pure functions.

`ppo`, `dqn`, `quantile` (QR-DQN, IQN), `categorical` (C51), `r2d2`, `vtrace`, `sac`; `weighted` means.
"""
