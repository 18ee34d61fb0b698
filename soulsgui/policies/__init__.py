"""Policies in numpy, free of torch.

`policy` says what each can do and makes them: `numpy_mlp` acts, `distributions` draw and score actions,
`exploration` strays, `normalise` keeps statistics, `schedules` decay.
"""
