"""What a learner draws from.

`rollout` holds one on-policy round, `replay` the newest transitions; `prioritised` draws by surprise with
a `sum_tree`, `chains` follow their episodes, `sequences` are drawn with the recurrent state they began with.
"""
