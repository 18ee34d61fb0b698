"""Evaluations that are watched: weights of a run play, and are seen."""
