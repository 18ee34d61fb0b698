"""Policies in numpy, free of torch.

`policy` says what each can do and makes them: `numpy_mlp` and `actor` act, `distributions` draw and
score actions, `action_heads` make them of what a network says,
`exploration` strays, `normalise` keeps statistics, `schedules` decay.
"""
