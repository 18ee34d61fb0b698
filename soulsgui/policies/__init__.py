"""Policies in numpy, free of torch.

`numpy_mlp` acts, `exploration` strays, `normalise` keeps statistics, `schedules` decay.
"""
