"""Losses as pure functions, one file per algorithm: `ppo`, `dqn`."""
