"""The parts of the floor together, in one process: CartPole is learned, and learned alike each time."""

import numpy as np

from soulsgui.environments.make import make_vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import Moment
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.policy import make_policy
from soulsgui.rl.agents.ppo import PPOAgent
from soulsgui.sampling.rollout import Rollout
from tests.rl.support import ppo_settings


def train(seed: int, max_steps: int, target: float) -> tuple[PPOAgent, int, list[float]]:
    """Train until the mean of the last 20 episodes reaches the target; also return steps and all returns."""
    stepper = EnvStepper(make_vector("CartPole-v1", {}, [], 8))
    vector = stepper.vector_env
    spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
    agent = PPOAgent(spaces, ppo_settings(), seed)
    policy = NumpyMLPPolicy(agent.policy_spec())
    returns: list[float] = []
    rollout = Rollout(stepper, spaces, 256, seed, lambda episode: returns.append(episode.total_return))
    steps = 0
    while steps < max_steps:
        policy.load(agent.export_weights())
        batch = Segments.concat(list(rollout.play(policy.act, 0, 0, 8 * 256, lambda: True)))
        steps += batch.steps
        if len(returns) >= 20 and np.mean(returns[-20:]) >= target:
            break
        agent.update(batch, Moment(steps, max_steps))
    stepper.close()
    return agent, steps, returns


def test_cartpole_is_balanced_after_30000_steps() -> None:
    agent, steps, returns = train(seed=0, max_steps=30_000, target=200)
    assert steps < 30_000, f"mean return {np.mean(returns[-20:])} after {steps} steps"
    stepper = EnvStepper(make_vector("CartPole-v1", {}, [], 8))
    policy = make_policy(agent.policy_spec())
    policy.load(agent.export_weights())
    obs, lengths = stepper.reset(seed=1), np.zeros(8)
    for _ in range(250):
        result = stepper.step(policy.greedy(obs))
        lengths += ~(result.terminated | result.truncated)
        obs = result.reset_obs
    assert lengths.mean() > 225, "the greedy policy balances as well"


def test_the_same_seed_gives_the_same_curve() -> None:
    first, again = train(seed=1, max_steps=4_000, target=500), train(seed=1, max_steps=4_000, target=500)
    assert first[1:] == again[1:]
    weights, others = first[0].export_weights(), again[0].export_weights()
    assert all(np.array_equal(weights[name], others[name]) for name in weights)
