"""What a learner draws from.

`memory` says what all offer to a node that learns off-policy; `windows` are what the DQN family learns from.
`rollout` holds one on-policy round, `replay` the newest transitions; `prioritised` draws by surprise with
a `sum_tree`, `chains` follow their episodes, `sequences` are drawn with the recurrent state they began with.
"""
