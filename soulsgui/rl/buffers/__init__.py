"""What a learner draws from.

`rollout` is one on-policy round, which `collecting` gathers. `memory` says what all replay memories offer,
and is that of the DQN family: `replay` keeps the newest transitions, `prioritised` draws by surprise,
`episode_links` follow their episodes. `sequences` are drawn with the state they began with. Observations lie
in a `frame_store`.
"""
