"""Dialogs of the window: opened, never waited for."""
