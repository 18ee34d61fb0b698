"""What an agent asks of its settings. Defaults, ranges and effects stand in the configuration's schema."""

from collections.abc import Sequence
from typing import Literal, Protocol

from soulsgui.config.schedules import Scheduled
from soulsgui.config.sections.network import Channels
from soulsgui.policies.action_heads import Squash, Std
from soulsgui.policies.distributions import StdTransform
from soulsgui.rl.losses.dqn import TDLossName


class NetworkSettings(Protocol):
    """Kind and sizes of the networks."""

    @property
    def name(self) -> str:
        """`mlp`, or what `networks.named` builds."""

    @property
    def channels(self) -> Channels:
        """Which side of an image they are, for networks that see images."""

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
    def std_transform(self) -> StdTransform:
        """What makes them of numbers that may be negative."""

    @property
    def squash(self) -> Squash:
        """How actions are kept within their bounds."""

    @property
    def value_init_scale(self) -> float:
        """Scale of the value network's last layer at the start."""

    @property
    def shared(self) -> bool:
        """Whether policy and value have all layers but their last ones in common."""

    @property
    def recurrent(self) -> Literal["none", "lstm", "gru"]:
        """Cell of the memory."""

    @property
    def recurrent_size(self) -> int:
        """Width of the memory."""


class NormalizeSettings(Protocol):
    """Normalisation of what goes into the networks, and of what is learned from."""

    @property
    def observations(self) -> bool:
        """Shift and scale observations to mean 0 and variance 1."""

    @property
    def clip(self) -> float:
        """Largest absolute value of a normalised observation."""

    @property
    def rewards(self) -> bool:
        """Divide rewards by the deviation of the discounted return."""

    @property
    def reward_clip(self) -> float | None:
        """Largest absolute value of a reward, scaled or not; None: any."""


class SeeingSettings(Protocol):
    """The groups of settings that every agent reads."""

    @property
    def network(self) -> NetworkSettings:
        """Sizes of the networks."""

    @property
    def normalize(self) -> NormalizeSettings:
        """Normalisation of the observations."""


ActorCriticSettings = SeeingSettings
"""What an agent with policy and value reads, whatever its algorithm."""


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
    def sequence_length(self) -> int:
        """Most steps of a piece of an episode that is learned from as one."""

    @property
    def learning_rate(self) -> Scheduled:
        """Adam's step size."""

    @property
    def adam_beta1(self) -> float:
        """Adam's β₁."""

    @property
    def adam_beta2(self) -> float:
        """Adam's β₂."""

    @property
    def adam_epsilon(self) -> float:
        """Adam's ε."""

    @property
    def shuffle(self) -> Literal["transitions", "trajectories", "none"]:
        """What is drawn in random order."""

    @property
    def clip(self) -> Scheduled:
        """ε of the policy loss."""

    @property
    def entropy_coef(self) -> Scheduled:
        """Weight of the entropy bonus."""

    @property
    def value_coef(self) -> float:
        """Weight of the value loss."""

    @property
    def value_clip(self) -> float | None:
        """ε of the value loss; None for the plain squared error."""

    @property
    def value_huber(self) -> float | None:
        """Error beyond which the value loss is linear; None: nowhere."""

    @property
    def normalize_value(self) -> bool:
        """Let the value network say values in deviations from their mean."""

    @property
    def max_grad_norm(self) -> float | None:
        """Largest norm of the gradient; None: any."""

    @property
    def normalize_advantage(self) -> Literal["none", "minibatch", "round"]:
        """Over what advantages are shifted and scaled to mean 0 and variance 1."""

    @property
    def recompute_advantages(self) -> bool:
        """Compute advantages anew before each pass."""

    @property
    def target_kl(self) -> float | None:
        """End the update after a pass whose KL divergence exceeds this."""


class PPOAgentSettings(ActorCriticSettings, Protocol):
    """The groups of settings that `PPOAgent` reads."""

    @property
    def ppo(self) -> PPOSettings:
        """The update."""


class DQNSettings(Protocol):
    """The settings of deep Q-learning's agents and of their update."""

    @property
    def agent(self) -> str:
        """Which member of the family: `dqn`, `qr_dqn`, `c51`, `iqn`, `rainbow` or `r2d2`."""

    @property
    def burn_in(self) -> int:
        """Steps of a sequence that only make its stored state a present one."""

    @property
    def priority_mix(self) -> float:
        """η: weight of the largest error in a sequence's priority."""

    @property
    def dueling(self) -> bool:
        """Give value and advantages streams of their own."""

    @property
    def exploration(self) -> str:
        """How clients explore: `noisy` puts noise into the weights."""

    @property
    def noisy_sigma(self) -> float:
        """How large that noise is at first."""

    @property
    def replay(self) -> str:
        """How transitions are drawn: `uniform` or `prioritised`."""

    @property
    def n_step(self) -> int:
        """Steps of a window."""

    @property
    def quantiles(self) -> int:
        """Quantiles of the return."""

    @property
    def kappa(self) -> float:
        """Where the loss of quantiles turns linear."""

    @property
    def atoms(self) -> int:
        """Atoms of the return's distribution."""

    @property
    def value_min(self) -> float:
        """Value of the lowest atom."""

    @property
    def value_max(self) -> float:
        """Value of the highest atom."""

    @property
    def q_clip(self) -> float | None:
        """Largest absolute value of what follows; None: any."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def learning_rate(self) -> Scheduled:
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


class SACSettings(Protocol):
    """The settings of soft actor-critic's update."""

    @property
    def learning_rate(self) -> Scheduled:
        """Adam's step size, for all that learns."""

    @property
    def target_tau(self) -> float:
        """How far each update takes the target networks to the critics; 1 copies them."""

    @property
    def initial_temperature(self) -> float:
        """Temperature at the start."""

    @property
    def learn_temperature(self) -> bool:
        """Move the temperature so that the policy keeps its target entropy."""

    @property
    def target_entropy(self) -> float | None:
        """Entropy over scaled actions to keep; None: minus the number of numbers in an action."""


class SACAgentSettings(Protocol):
    """The groups of settings that `SACAgent` reads."""

    @property
    def network(self) -> NetworkSettings:
        """Sizes of the networks."""

    @property
    def normalize(self) -> NormalizeSettings:
        """Normalisation of the observations."""

    @property
    def sac(self) -> SACSettings:
        """The update."""


class VTraceSettings(Protocol):
    """The settings of V-trace's update."""

    @property
    def gamma(self) -> float:
        """Discount factor."""

    @property
    def trace_lambda(self) -> float:
        """λ of the targets."""

    @property
    def rho_clip(self) -> float:
        """Largest importance weight of a step."""

    @property
    def c_clip(self) -> float:
        """Largest factor by which later steps count."""

    @property
    def epochs(self) -> int:
        """Gradient steps on each batch."""

    @property
    def learning_rate(self) -> Scheduled:
        """Adam's step size."""

    @property
    def clip(self) -> Scheduled | None:
        """ε of the policy loss; None for the plain policy gradient."""

    @property
    def entropy_coef(self) -> Scheduled:
        """Weight of the entropy bonus."""

    @property
    def value_coef(self) -> float:
        """Weight of the value loss."""

    @property
    def max_grad_norm(self) -> float:
        """Largest norm of the gradient."""

    @property
    def normalize_advantage(self) -> bool:
        """Shift and scale the advantages of each gradient step to mean 0 and variance 1."""


class VTraceAgentSettings(ActorCriticSettings, Protocol):
    """The groups of settings that `VTraceAgent` reads."""

    @property
    def vtrace(self) -> VTraceSettings:
        """The update."""
