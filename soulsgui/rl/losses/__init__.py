"""Losses as pure functions: `ppo`, `dqn`, `quantile` (QR-DQN, IQN), `categorical` (C51); `weighted` means."""
