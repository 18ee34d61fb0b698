"""Many clients in one process that step no environment: what they put on the wire is like the real thing."""
