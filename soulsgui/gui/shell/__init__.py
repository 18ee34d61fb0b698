"""The window around the pages; what a page may ask of it."""

from soulsgui.gui.shell.protocol import (
    INVITATION,
    Action,
    Shell,
    carry_out,
    export_file,
    notify_problem,
    write_file,
)

__all__ = ["INVITATION", "Action", "Shell", "carry_out", "export_file", "notify_problem", "write_file"]
