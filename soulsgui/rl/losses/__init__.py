"""Losses as pure functions: of the Q-learning family, and of actors and critics."""
