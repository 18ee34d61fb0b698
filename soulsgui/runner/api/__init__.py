"""The control API of a runner: its server, feed and commands."""
