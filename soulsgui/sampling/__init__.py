"""A game PC's side: environments are stepped, samples are sent, weights come in."""

from soulsgui.sampling.connector import PPOConnector

__all__ = ["PPOConnector"]
