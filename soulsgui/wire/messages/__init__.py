"""The shapes of what travels: one module per message."""
