"""SoulsGUI: a desktop control centre for distributed reinforcement learning."""

__version__ = "0.1.0"
