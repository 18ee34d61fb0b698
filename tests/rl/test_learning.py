"""The parts of the floor together, in one process: CartPole is learned, and learned alike each time."""

from typing import Any

import numpy as np

from soulsgui.environments.make import make_vector
from soulsgui.environments.spaces import SpacesSpec
from soulsgui.environments.step import EnvStepper
from soulsgui.experience.segments import Segments
from soulsgui.policies.exploration import Moment
from soulsgui.policies.numpy_mlp import NumpyMLPPolicy
from soulsgui.policies.policy import make_policy
from soulsgui.rl.agents.ppo import PPOAgent
from tests.experience.segments import segments_of
from tests.rl.support import ppo_settings


class Sampler:
    """Plays rounds in a vector environment and keeps the returns of finished episodes."""

    def __init__(self, stepper: EnvStepper, seed: int) -> None:
        self.stepper = stepper
        self.rng = np.random.default_rng(seed)
        self.obs = stepper.reset(seed)
        self.running = np.zeros(stepper.num_envs)
        self.returns: list[float] = []

    def round(self, policy: NumpyMLPPolicy, steps: int) -> Segments:
        """Step every environment `steps` times."""
        played: list[list[Any]] = [[] for _ in range(self.stepper.num_envs)]
        for _ in range(steps):
            action, log_prob = policy.act(self.obs, self.rng)
            result = self.stepper.step(action)
            self.running += result.reward * result.valid
            columns = self.obs, result.next_obs, action, log_prob, *result[1:4]
            for index in np.flatnonzero(result.valid):
                played[index].append([column[index] for column in columns])
            for index in np.flatnonzero((result.terminated | result.truncated) & result.valid):
                self.returns.append(float(self.running[index]))
                self.running[index] = 0.0
            self.obs = result.reset_obs
        obs, following, action, log_prob, reward, terminated, truncated = (
            np.array(column) for column in zip(*(step for one in played for step in one), strict=True)
        )
        last = terminated | truncated
        last[np.cumsum([len(one) for one in played]) - 1] = True
        ends = np.flatnonzero(last)
        rows = np.insert(obs, ends + 1, following[ends], axis=0)
        told = {"action": action, "log_prob": log_prob, "reward": reward}
        return segments_of(np.diff(ends, prepend=-1), rows, terminated[ends], truncated[ends], **told)


def train(seed: int, max_steps: int, target: float) -> tuple[PPOAgent, int, list[float]]:
    """Train until the mean of the last 20 episodes reaches the target; also return steps and all returns."""
    stepper = EnvStepper(make_vector("CartPole-v1", {}, [], 8))
    vector = stepper.vector_env
    spaces = SpacesSpec.from_env(vector.single_observation_space, vector.single_action_space)
    agent = PPOAgent(spaces, ppo_settings(), seed)
    policy = NumpyMLPPolicy(agent.policy_spec())
    sampler = Sampler(stepper, seed)
    steps = 0
    while steps < max_steps:
        policy.load(agent.export_weights())
        batch = sampler.round(policy, 256)
        steps += batch.steps
        if len(sampler.returns) >= 20 and np.mean(sampler.returns[-20:]) >= target:
            break
        agent.update(batch, Moment(steps, max_steps))
    stepper.close()
    return agent, steps, sampler.returns


def test_cartpole_is_solved_within_60000_steps() -> None:
    agent, steps, returns = train(seed=0, max_steps=60_000, target=475)
    assert steps < 60_000, f"mean return {np.mean(returns[-20:])} after {steps} steps"
    stepper = EnvStepper(make_vector("CartPole-v1", {}, [], 8))
    policy = make_policy(agent.policy_spec())
    policy.load(agent.export_weights())
    obs, lengths = stepper.reset(seed=1), np.zeros(8)
    for _ in range(500):
        result = stepper.step(policy.greedy(obs))
        lengths += ~(result.terminated | result.truncated)
        obs = result.reset_obs
    assert lengths.mean() > 450, "the greedy policy balances as well"


def test_the_same_seed_gives_the_same_curve() -> None:
    first, again = train(seed=1, max_steps=4_000, target=500), train(seed=1, max_steps=4_000, target=500)
    assert first[1:] == again[1:]
    weights, others = first[0].export_weights(), again[0].export_weights()
    assert all(np.array_equal(weights[name], others[name]) for name in weights)
