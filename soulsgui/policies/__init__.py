"""Policies in numpy, free of torch: `numpy_mlp` acts, `normalise` keeps statistics, `schedules` decay."""
