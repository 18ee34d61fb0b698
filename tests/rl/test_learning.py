"""The parts of the floor together, in one process: CartPole is learned, and learned alike each time."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


@dataclass
class Segment:
    """Steps of one environment within one episode and one round."""

    obs: list[NDArray[Any]]
    action: list[int] = field(default_factory=list)
    log_prob: list[float] = field(default_factory=list)
    reward: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False


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
        finished: list[list[Segment]] = [[] for _ in range(self.stepper.num_envs)]
        current: list[Segment | None] = [None] * self.stepper.num_envs
        for _ in range(steps):
            action, log_prob = policy.act(self.obs, self.rng)
            result = self.stepper.step(action)
            for index in np.flatnonzero(result.valid):
                segment = current[index] or Segment([self.obs[index]])
                segment.obs.append(result.next_obs[index])
                segment.action.append(int(action[index]))
                segment.log_prob.append(float(log_prob[index]))
                segment.reward.append(float(result.reward[index]))
                segment.terminated = bool(result.terminated[index])
                segment.truncated = bool(result.truncated[index])
                self.running[index] += result.reward[index]
                current[index] = segment
                if segment.terminated or segment.truncated:
                    finished[index].append(segment)
                    current[index] = None
                    self.returns.append(float(self.running[index]))
                    self.running[index] = 0.0
            self.obs = result.reset_obs
        for segments, cut in zip(finished, current, strict=True):
            segments += [cut] if cut else []
        return _joined([segment for segments in finished for segment in segments])


def _joined(segments: list[Segment]) -> Segments:
    return segments_of(
        obs=np.concatenate([np.stack(segment.obs) for segment in segments]),
        length=np.array([len(segment.action) for segment in segments]),
        action=np.concatenate([segment.action for segment in segments]),
        log_prob=np.concatenate([segment.log_prob for segment in segments]).astype(np.float32),
        reward=np.concatenate([segment.reward for segment in segments]).astype(np.float32),
        terminated=np.array([segment.terminated for segment in segments]),
        truncated=np.array([segment.truncated for segment in segments]),
    )


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
