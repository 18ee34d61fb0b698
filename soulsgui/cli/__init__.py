"""The command line: `main` is the one entry point of every role and command."""

from soulsgui.cli.main import main

__all__ = ["main"]
