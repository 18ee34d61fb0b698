"""Experience: what happened in the environments, in one record from the rollout to the batch."""
