"""Every setting of the program, declared once.

Each field carries its description, unit, range, the moment a change takes effect, whether clients
receive it, and whether it is secret. The form of the window, the comments of `config_d.yaml`, the
validation and the subset sent to clients are all read from here.
"""

import reprlib
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any, Literal, NamedTuple

from pydantic import Field, ValidationError
from pydantic.fields import FieldInfo

from soulsgui.config.declaring import Effect, Section, setting
from soulsgui.config.errors import reason_of
from soulsgui.config.sections.algorithms import DQNSettings, PPOSettings, SACSettings, VTraceSettings
from soulsgui.config.sections.network import LearnerSettings, NetworkSettings, NormalizeSettings
from soulsgui.config.sections.run import (
    EVERY,
    CentralSettings,
    CheckpointSettings,
    EnvSettings,
    EvaluationSettings,
    GuardSettings,
    PublishSettings,
    StopSettings,
    TelemetrySettings,
)
from soulsgui.config.sections.server import (
    AlertSettings,
    ClientSettings,
    ClientsSettings,
    ControlSettings,
    ExporterSettings,
    LoggingSettings,
    RedisSettings,
)
from soulsgui.errors import ClientRegistrationError

RETIRED = {
    "redis.tls": "other computers are always let in by the gateway, encrypted (redis.lan, redis.public)",
    "redis.unix_socket": "the server always listens on a socket of its own, which only its user can open",
}
"""Settings of earlier versions that mean nothing any more, with what replaces them; files may hold them."""

SHIPPED_WITH: dict[str, dict[str, Any]] = {
    "algorithm=ppo": {"normalize.rewards": True},
    "algorithm=dqn": {"network.hidden_sizes": [128, 128], "normalize.rewards": True},
    "dqn.agent=iqn": {"dqn.quantiles": 8},
    "dqn.agent=rainbow": {"dqn.priority_exponent": 0.5},
    "dqn.agent=r2d2": {
        "network.hidden_sizes": [64],
        "network.recurrent": "lstm",
        # 32 sequences in each update.
        "dqn.batch_size": 640,
        "dqn.learning_rate": 1e-3,
        "dqn.target_tau": 0.02,
    },
    "algorithm=vtrace": {"normalize.rewards": True},
    "algorithm=sac": {
        "network.hidden_sizes": [256, 256],
        "network.value_hidden_sizes": [256, 256],
        "network.activation": "relu",
    },
    "sac.agent=td3": {
        "network.hidden_sizes": [400, 300],
        "network.value_hidden_sizes": [400, 300],
        "sac.learning_rate": 1e-3,
        # One gradient step an environment step.
        "sac.batch_size": 100,
        "sac.replay_ratio": 100.0,
        # By normalised ones its actions end at the bounds of Hopper within 2,000 steps, and stay there.
        "normalize.observations": False,
    },
    "sac.agent=tqc": {"network.value_hidden_sizes": [512, 512, 512]},
    "sac.agent=crossq": {
        "sac.learning_rate": 1e-3,
        "sac.policy_delay": 3,
        # Its first layers normalise.
        "normalize.observations": False,
    },
}
"""By what learns, as `--set` says it: dotted key to value; an agent's win over its algorithm's."""


SECTIONS_OF_ALGORITHMS = ("ppo", "dqn", "sac", "vtrace")  # each is of use only while `algorithm` names it


def shipped_with(*chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return the shipped values, by dotted key, for the `algorithm` and its agent in what is chosen."""
    merged = {key: value for values in chosen for key, value in values.items()}
    algorithm = merged.get("algorithm")
    agent = f"{algorithm}.agent={merged.get(f'{algorithm}.agent')}"
    return SHIPPED_WITH.get(f"algorithm={algorithm}", {}) | SHIPPED_WITH.get(agent, {})


def shipped_values(defaults: Mapping[str, Any], *chosen: Mapping[str, Any]) -> dict[str, Any]:
    """Return every shipped value below what is chosen, the weightiest last: those of its algorithm, too."""
    return {**defaults, **shipped_with(defaults, *chosen)}


def is_idle(key: str, algorithm: str) -> bool:
    """Whether a setting is of another algorithm than the one that learns."""
    section = key.partition(".")[0]
    return section in SECTIONS_OF_ALGORITHMS and section != algorithm


def without_effect(keys: Collection[str], algorithm: str) -> str:
    """Return in words which settings are of another algorithm than the one that learns; empty for none."""
    lines = []
    for other in (name for name in SECTIONS_OF_ALGORITHMS if name != algorithm):
        if idle := [key for key in keys if key.startswith(f"{other}.")]:
            verb = "has" if len(idle) == 1 else "have"
            told = f"{', '.join(idle)} {verb} no effect while algorithm is {algorithm}"
            lines.append(f"{told}: set algorithm={other}, too.")
    return "\n".join(lines)


def _section(section: type[Section]) -> Any:
    """Declare a section, described by the first paragraph of its docstring."""
    description, _, _ = (section.__doc__ or "").partition("\n\n")
    return Field(default_factory=section, description=description)


class Settings(Section):
    """The whole configuration of a server and its runs."""

    env: EnvSettings = _section(EnvSettings)
    seed: int = setting(
        1,
        "Seed of all random numbers; `determinism` says when the same seed gives the same curve.",
        ge=0,
        le=2**31 - 1,
    )
    determinism: Literal["off", "lockstep"] = setting(
        "off",
        "With `lockstep`, a run of dqn or sac gives exactly the same curve again with the same seed on the "
        "same computer: one client plays, and waits while the learner learns from what it played. This "
        "costs speed. Runs of ppo are repeatable without it.",
        to_clients=True,
    )
    algorithm: Literal["ppo", "dqn", "sac", "vtrace"] = setting(
        "ppo",
        "Learning algorithm: ppo (synchronous, on-policy), dqn (asynchronous, off-policy, for discrete "
        "actions), sac (asynchronous, off-policy, for continuous actions within bounds) or vtrace "
        "(asynchronous actor-critic, corrected for the age of the samples).",
        to_clients=True,
    )
    network: NetworkSettings = _section(NetworkSettings)
    normalize: NormalizeSettings = _section(NormalizeSettings)
    ppo: PPOSettings = _section(PPOSettings)
    dqn: DQNSettings = _section(DQNSettings)
    sac: SACSettings = _section(SACSettings)
    learner: LearnerSettings = _section(LearnerSettings)
    vtrace: VTraceSettings = _section(VTraceSettings)
    inference: Literal["local", "server"] = setting(
        "local",
        "Where the policy runs: on each client (`local`), or on inference servers that choose the actions "
        "of all clients in batches, so that clients need neither weights nor PyTorch (`server`; not for "
        "ppo).",
        to_clients=True,
    )
    central: CentralSettings = _section(CentralSettings)
    publish: PublishSettings = _section(PublishSettings)
    stop: StopSettings = _section(StopSettings)
    checkpoint: CheckpointSettings = _section(CheckpointSettings)
    guard: GuardSettings = _section(GuardSettings)
    evaluation: EvaluationSettings = _section(EvaluationSettings)
    clients: ClientsSettings = _section(ClientsSettings)
    client: ClientSettings = _section(ClientSettings)
    telemetry: TelemetrySettings = _section(TelemetrySettings)
    redis: RedisSettings = _section(RedisSettings)
    control: ControlSettings = _section(ControlSettings)
    exporter: ExporterSettings = _section(ExporterSettings)
    alerts: AlertSettings = _section(AlertSettings)
    logging: LoggingSettings = _section(LoggingSettings)

    @property
    def agent(self) -> str:
        """Which agent of its family learns: `dqn.agent`, `sac.agent`; empty for other algorithms."""
        return "" if self.algorithm not in ("dqn", "sac") else getattr(self, self.algorithm).agent

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
    def inference_servers(self) -> int:
        """How many inference servers a run has."""
        return self.central.inference_servers if self.inference == "server" else 0

    @property
    def explores(self) -> bool:
        """Whether training episodes carry exploration: they are no measure of what was learned."""
        return self.algorithm in ("dqn", "sac")

    @property
    def evaluates_every(self) -> int:
        """Updates between two evaluations, 0 where there are none."""
        every = self.evaluation.every_updates
        return EVERY[self.algorithm] if every is None else every

    @property
    def best_by_evaluation(self) -> bool:
        """Whether the best model is chosen by its evaluation."""
        chosen = self.evaluation.best_by
        return chosen == "evaluation" or (chosen == "auto" and self.evaluates_every > 0)

    @property
    def goal_judged_by(self) -> Literal["training", "evaluation", "both"]:
        """Whose mean return has to reach the goal; `both`: greedy episodes confirm that of training."""
        if self.stop.judged_by == "evaluation":
            return "evaluation"
        return "both" if self.evaluates_every else "training"

    @property
    def longest_segment(self) -> int:
        """Longest segment that clients send: sequences of R2D2 begin where segments do, and overlap."""
        if self.agent == "r2d2":
            return min(self.client.segment_length, self.dqn.sequence_length // 2)
        return self.client.segment_length

    @property
    def a_client_may_tell_the_spaces(self) -> bool:
        """Whether an environment that is not installed on the server may be described by a client."""
        return self.env.spaces == "auto" and self.clients.local == 0


class SettingInfo(NamedTuple):
    """What the schema says of one setting.

    `shipped_with` has the other shipped values: `algorithm=sac`, say, to the one that comes with it.
    """

    key: str
    description: str
    effect: Effect
    unit: str
    to_clients: bool
    secret: bool
    default: Any
    shipped_with: dict[str, Any]
    annotation: Any


def _info(key: str, section: type[Section], field: FieldInfo) -> SettingInfo:
    extra: Any = field.json_schema_extra
    return SettingInfo(
        key=key,
        description=field.description or "",
        effect=extra["effect"] or section.shared_effect,
        unit=extra["unit"],
        to_clients=section.shared_to_clients if extra["to_clients"] is None else extra["to_clients"],
        secret=extra["secret"],
        default=field.default,
        shipped_with={choice: values[key] for choice, values in SHIPPED_WITH.items() if key in values},
        annotation=field.annotation,
    )


@cache
def all_settings() -> Mapping[str, SettingInfo]:
    """Return every setting by its dotted key, in the order of the file."""
    found: dict[str, SettingInfo] = {}
    for name, field in Settings.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, Section):
            inner = {f"{name}.{key}": one for key, one in kind.model_fields.items()}
            found |= {key: _info(key, kind, one) for key, one in inner.items()}
        else:
            found[name] = _info(name, Settings, field)
    return found


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a nested map as dotted keys, not descending into values that are maps themselves."""
    known = all_settings()
    flat: dict[str, Any] = {}
    for name, value in tree.items():
        key = f"{prefix}{name}"
        if key in known or not isinstance(value, dict):
            flat[key] = value
        else:
            flat |= flatten(value, f"{key}.")
    return flat


def nest(flat: dict[str, Any]) -> dict[str, Any]:
    """Return dotted keys as a nested map: the reverse of `flatten`."""
    tree: dict[str, Any] = {}
    for key, value in flat.items():
        *parents, last = key.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        node[last] = value
    return tree


def public_tree(settings: Settings) -> dict[str, Any]:
    """Return all settings but the secret ones, nested as in the file."""
    tree = settings.model_dump(mode="json")
    for key, info in all_settings().items():
        if info.secret:
            node = tree
            *parents, last = key.split(".")
            for parent in parents:
                node = node[parent]
            node.pop(last, None)
    return tree


def public_values(settings: Settings) -> dict[str, Any]:
    """Return all settings but the secret ones, by dotted key."""
    return flatten(public_tree(settings))


def client_settings(settings: Settings) -> dict[str, Any]:
    """Return the settings that clients receive, by dotted key; never a secret."""
    flat = flatten(settings.model_dump(mode="json"))
    return {key: flat[key] for key, info in all_settings().items() if info.to_clients and not info.secret}


def received_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a server sent of `client_settings`, by dotted key, checked: it may be anybody's.

    It may be of any version: what is unknown here is left out, and what was not sent has its default.

    Raises:
        ClientRegistrationError: A value can't be one of its setting.
    """
    sent = {key: values[key] for key, info in all_settings().items() if info.to_clients and key in values}
    try:
        return client_settings(Settings.model_validate(nest(sent)))
    except ValidationError as error:
        wrong = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in wrong["loc"])
        key = next(key for key in values if f"{place}.".startswith(f"{key}."))
        raise ClientRegistrationError(
            f"The server's configuration can't be used: {key} = {reprlib.repr(values[key])}: "
            f"{reason_of(wrong)}.",
            "Tell its owner. If it is valid there, client and server have different versions: update the "
            "older one.",
        ) from error
