"""The server's side of learning: samples come in, the agent is updated, weights go out."""
