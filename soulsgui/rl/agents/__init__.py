"""Agents hold networks, optimiser and random state of one algorithm: `ppo`, `dqn`, `sac`."""
