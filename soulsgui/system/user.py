"""Who runs this process."""

import getpass
import os


def user_name() -> str:
    """Return what the user is called; in a container, where the system may not know, its number."""
    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # which one depends on version and system
        return str(os.getuid()) if hasattr(os, "getuid") else "user"
