"""The Redis server of a runner: its program, its start, what is written to it and read of it."""
