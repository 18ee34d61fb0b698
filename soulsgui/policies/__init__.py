"""Policies in numpy, free of torch.

`numpy_mlp` acts, `distributions` draw and score actions, `exploration` strays, `normalise` keeps statistics,
`schedules` decay.
"""
