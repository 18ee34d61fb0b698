"""What a learner draws from.

`rollout` gathers on-policy rounds and queues. `memory` says what all replay memories offer, and is that of
the DQN family: `replay` keeps the newest transitions, `prioritised` draws by surprise. `sequences` are drawn
with the state they began with. Observations lie in a `frame_store`.
"""
