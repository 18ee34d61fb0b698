"""Every setting of the program, declared once.

Each field carries its description, unit, range, the moment a change takes effect, whether clients
receive it, and whether it is secret. The form of the window, the comments of `config_d.yaml`, the
validation and the subset sent to clients are all read from here.
"""

from typing import Literal

from pydantic import Field

from soulsgui.config.declaring import Section, setting
from soulsgui.config.sections.clients import ClientSettings, ClientsSettings
from soulsgui.config.sections.dqn import DQNSettings
from soulsgui.config.sections.environment import EnvSettings
from soulsgui.config.sections.evaluation import EVERY, EvaluationSettings
from soulsgui.config.sections.guard import GuardSettings
from soulsgui.config.sections.learner import LearnerSettings
from soulsgui.config.sections.network import NetworkSettings, NormalizeSettings
from soulsgui.config.sections.ppo import PPOSettings
from soulsgui.config.sections.run import CheckpointSettings, PublishSettings, StopSettings, TelemetrySettings
from soulsgui.config.sections.sac import SACSettings
from soulsgui.config.sections.server import ControlSettings, LoggingSettings, RedisSettings
from soulsgui.config.sections.vtrace import VTraceSettings


class Settings(Section):
    """The whole configuration of a server and its runs."""

    env: EnvSettings = Field(default_factory=EnvSettings, description="What the clients play.")
    seed: int = setting(
        1,
        "Seed of all random numbers; `determinism` says when the same seed gives the same curve.",
        ge=0,
        le=2**31 - 1,
    )
    determinism: Literal["off", "lockstep"] = setting(
        "off",
        "With `lockstep` a run of dqn or sac gives the same curve again, to the bit, with the same seed on "
        "the same computer: one client plays, and waits while the learner learns from what it played. It "
        "costs speed. Runs of ppo are repeatable without it.",
        to_clients=True,
    )
    algorithm: Literal["ppo", "dqn", "sac", "vtrace"] = setting(
        "ppo",
        "Learning algorithm: ppo (synchronous, on-policy), dqn (asynchronous, off-policy, for numbered "
        "actions), sac (likewise, for actions that are numbers within bounds) or vtrace (asynchronous actor "
        "and critic, corrected for the age of the samples).",
        to_clients=True,
    )
    network: NetworkSettings = Field(default_factory=NetworkSettings, description="Shape of the networks.")
    normalize: NormalizeSettings = Field(
        default_factory=NormalizeSettings, description="Scaling of what the networks see and learn from."
    )
    ppo: PPOSettings = Field(default_factory=PPOSettings, description="Proximal policy optimisation.")
    dqn: DQNSettings = Field(default_factory=DQNSettings, description="Deep Q-learning.")
    sac: SACSettings = Field(default_factory=SACSettings, description="Soft actor-critic.")
    learner: LearnerSettings = Field(default_factory=LearnerSettings, description="The hardware that learns.")
    vtrace: VTraceSettings = Field(
        default_factory=VTraceSettings, description="V-trace: asynchronous actor and critic."
    )
    publish: PublishSettings = Field(
        default_factory=PublishSettings, description="How often new weights go to the clients."
    )
    stop: StopSettings = Field(default_factory=StopSettings, description="When a run has reached its goal.")
    checkpoint: CheckpointSettings = Field(
        default_factory=CheckpointSettings, description="How often the training is saved."
    )
    guard: GuardSettings = Field(
        default_factory=GuardSettings, description="When training has diverged, and is taken back."
    )
    evaluation: EvaluationSettings = Field(
        default_factory=EvaluationSettings, description="Greedy episodes during the training."
    )
    clients: ClientsSettings = Field(
        default_factory=ClientsSettings, description="The clients this server starts itself."
    )
    client: ClientSettings = Field(default_factory=ClientSettings, description="How a client samples.")
    telemetry: TelemetrySettings = Field(
        default_factory=TelemetrySettings, description="What is recorded beside the training."
    )
    redis: RedisSettings = Field(
        default_factory=RedisSettings, description="The server between the processes."
    )
    control: ControlSettings = Field(
        default_factory=ControlSettings, description="The runner's control interface."
    )
    logging: LoggingSettings = Field(default_factory=LoggingSettings, description="What the logs hold.")

    @property
    def agent(self) -> str:
        """Which agent of its family learns: `dqn.agent`; empty for algorithms that are none."""
        return self.dqn.agent if self.algorithm == "dqn" else ""

    @property
    def replay(self) -> DQNSettings | SACSettings | None:
        """The settings of an algorithm that learns from a replay memory; None for others."""
        if self.algorithm == "dqn":
            return self.dqn
        return self.sac if self.algorithm == "sac" else None

    @property
    def fits_any_environment(self) -> bool:
        """Whether algorithm and network take whatever an environment shows and takes."""
        return self.algorithm in ("ppo", "vtrace") and self.network.name in ("mlp", "mlp_layer_norm")

    @property
    def explores(self) -> bool:
        """Whether training episodes carry exploration: they are no measure of what was learned."""
        return self.algorithm in ("dqn", "sac")

    @property
    def evaluates_every(self) -> int:
        """Updates between two evaluations, 0 where there are none."""
        every = self.evaluation.every_updates
        if every is not None:
            return every
        return EVERY[self.algorithm]

    @property
    def best_by_evaluation(self) -> bool:
        """Whether the best model is chosen by its evaluation."""
        chosen = self.evaluation.best_by
        return chosen == "evaluation" or (chosen == "auto" and self.evaluates_every > 0)

    @property
    def goal_judged_by(self) -> Literal["training", "evaluation", "both"]:
        """Whose mean return has to reach `stop.mean_return`; `both`: greedy ones confirm that of training."""
        if self.stop.judged_by == "evaluation":
            return "evaluation"
        return "both" if self.evaluates_every else "training"

    @property
    def longest_segment(self) -> int:
        """Longest segment that clients send: sequences of R2D2 begin where segments do, and overlap."""
        if self.algorithm == "dqn" and self.dqn.agent == "r2d2":
            return min(self.client.segment_length, self.dqn.sequence_length // 2)
        return self.client.segment_length

    @property
    def a_client_may_tell_the_spaces(self) -> bool:
        """Whether an environment that is not installed on the server may be described by a client."""
        return self.env.spaces == "auto" and self.clients.local == 0
