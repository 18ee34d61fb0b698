"""The runner of client mode: one client on this machine, and its owner's wishes."""
