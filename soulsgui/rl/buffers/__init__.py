"""What a learner draws from: `rollout` holds one on-policy round, `replay` the newest transitions."""
