"""What an agent asks of its settings. Defaults, ranges and effects stand in the configuration's schema."""

from collections.abc import Sequence
from typing import Protocol

from soulsgui.policies.action_heads import Squash, Std
from soulsgui.policies.schedules import ScheduleName
from soulsgui.rl.losses.dqn import TDLossName


class NetworkSettings(Protocol):
    """Sizes of the networks."""

    @property
    def hidden_sizes(self) -> Sequence[int]:
        """Width of each hidden layer of the policy."""

    @property
    def value_hidden_sizes(self) -> Sequence[int]:
        """Width of each hidden layer of the value network."""

    @property
    def activation(self) -> str:
        """`tanh` or `relu`."""

    @property
    def policy_init_scale(self) -> float:
        """Scale of the policy's last layer at the start."""

    @property
    def action_std(self) -> Std:
        """Where the deviations of actions within bounds come from."""

    @property
    def initial_std(self) -> float:
        """These deviations at the start."""

    @property
    def squash(self) -> Squash:
        """How actions are kept within their bounds."""


class NormalizeSettings(Protocol):
    """Normalisation of what goes into the networks."""

    @property
    def observations(self) -> bool:
        """Shift and scale observations to mean 0 and variance 1."""

    @property
    def clip(self) -> float:
        """Largest absolute value of a normalised observation."""


class PPOSettings(Protocol):
    """The settings of PPO's update."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def gae_lambda(self) -> float:
        """λ of the advantage estimate."""

    @property
    def epochs(self) -> int:
        """Passes over a round's data."""

    @property
    def minibatch_size(self) -> int:
        """Transitions in a gradient step, about."""

    @property
    def learning_rate(self) -> float:
        """Adam's step size at the start."""

    @property
    def learning_rate_schedule(self) -> ScheduleName:
        """How the step size changes over the run."""

    @property
    def clip(self) -> float:
        """ε of the policy loss."""

    @property
    def entropy_coef(self) -> float:
        """Weight of the entropy bonus."""

    @property
    def value_coef(self) -> float:
        """Weight of the value loss."""

    @property
    def value_clip(self) -> float | None:
        """ε of the value loss; None for the plain squared error."""

    @property
    def max_grad_norm(self) -> float:
        """Largest norm of the gradient."""

    @property
    def normalize_advantage(self) -> bool:
        """Shift and scale the advantages of each pass to mean 0 and variance 1."""

    @property
    def recompute_advantages(self) -> bool:
        """Compute advantages anew before each pass."""

    @property
    def target_kl(self) -> float | None:
        """End the update after a pass whose KL divergence exceeds this."""


class PPOAgentSettings(Protocol):
    """The groups of settings that `PPOAgent` reads."""

    @property
    def network(self) -> NetworkSettings:
        """Sizes of the networks."""

    @property
    def normalize(self) -> NormalizeSettings:
        """Normalisation of the observations."""

    @property
    def ppo(self) -> PPOSettings:
        """The update."""


class DQNSettings(Protocol):
    """The settings of deep Q-learning's update."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def learning_rate(self) -> float:
        """Adam's step size."""

    @property
    def double(self) -> bool:
        """Choose the next action by the online network and value it by the target network."""

    @property
    def loss(self) -> TDLossName:
        """Loss of the temporal difference."""

    @property
    def target_interval(self) -> int:
        """Updates between two moves of the target network."""

    @property
    def target_tau(self) -> float:
        """How far each move takes the target network to the online one; 1 copies it."""

    @property
    def max_grad_norm(self) -> float:
        """Largest norm of the gradient."""


class DQNAgentSettings(Protocol):
    """The groups of settings that `DQNAgent` reads."""

    @property
    def network(self) -> NetworkSettings:
        """Sizes of the networks."""

    @property
    def normalize(self) -> NormalizeSettings:
        """Normalisation of the observations."""

    @property
    def dqn(self) -> DQNSettings:
        """The update."""
