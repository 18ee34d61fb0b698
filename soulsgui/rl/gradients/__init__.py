"""Gradients of whole losses: `ppo` and `dqn` by autograd, `*_by_hand` in numpy, about twice as fast."""
