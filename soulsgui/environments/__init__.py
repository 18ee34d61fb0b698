"""Environments, free of torch: `spaces` describes, `make` builds, `step` drives, `check` examines them."""
