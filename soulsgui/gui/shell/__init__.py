"""The window around the pages; what a page may ask of it."""

from soulsgui.gui.shell.protocol import INVITATION, Action, Shell, carry_out, notify_problem

__all__ = ["INVITATION", "Action", "Shell", "carry_out", "notify_problem"]
