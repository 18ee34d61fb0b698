"""Central inference (SEED, arXiv 1910.06591): clients step environments, inference servers choose actions."""
