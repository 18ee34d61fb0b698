"""How a run learns: in rounds, from a replay memory, or from segments as they come."""
