"""The configuration of SoulsAI (github.com/amacati/SoulsAI), of any of its versions, as settings of ours.

Its keys have moved twice: from the top of the file below `dqn`, and on below `dqn.agent.kwargs`. They are
those of its config/config_d.yaml and test/*/config/config_d.yaml, from commit 7d3c529 to 3224d8b; what they
mean was read in what uses them: training and telemetry nodes, clients, transforms, schedulers, networks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from soulsgui.config.errors import MOST_TOLD, ConfigError, Problem, file_problem, shortened
from soulsgui.config.layers import combine, over_defaults
from soulsgui.config.parsing import Layer, NotPlainError, parse_tree, plain, read_settings
from soulsgui.config.schema import all_settings
from soulsgui.errors import printable


class Taken(NamedTuple):
    """A setting that was taken over.

    Attributes:
        key: Ours.
        value: What it is set to.
        source: Theirs, from which it comes; empty for what SoulsAI always does.
    """

    key: str
    value: Any
    source: str


@dataclass(frozen=True)
class Imported:
    """What became of a configuration of SoulsAI.

    Attributes:
        taken: The settings that were taken over.
        left_out: The ones of theirs that were not, by dotted key, each with the reason.
    """

    taken: tuple[Taken, ...]
    left_out: dict[str, str]

    @property
    def values(self) -> dict[str, Any]:
        """What to set, by our dotted keys."""
        return {one.key: one.value for one in self.taken}

    @property
    def left_out_words(self) -> list[str]:
        """A line for each setting that was not taken over; not one for each of thousands."""
        lines = [printable(f"{shortened(key)}: {reason}", None) for key, reason in self.left_out.items()]
        more = len(lines) - MOST_TOLD
        return [*lines[:MOST_TOLD], f"… and {more:,} more."] if more > 0 else lines


_DEFAULTS = "config_d.yaml"


def import_file(path: Path) -> Imported:
    """Read a configuration of SoulsAI: a config.yaml over the config_d.yaml beside it, as SoulsAI does.

    Raises:
        ConfigError: It can't be read, or holds none.
    """
    text, defaults = _read(path), path.with_name(_DEFAULTS)
    below = _read(defaults) if path.name == "config.yaml" and defaults.exists() else ""
    return imported(text, path.name, below)


def _read(path: Path) -> str:
    try:
        return read_settings(path)
    except FileNotFoundError as error:
        raise file_problem(path, None, "there is no such file.") from error


def imported(text: str, source: str, defaults: str = "") -> Imported:
    """Return what a configuration of SoulsAI sets; values that our settings refuse are left out.

    Args:
        text: What is set.
        source: What it is called in messages.
        defaults: What else is set where this says nothing.

    Raises:
        ConfigError: It is no map of YAML, has a key twice, or holds nothing of SoulsAI.
    """
    theirs = _Theirs(_over(_tree(defaults, _DEFAULTS), _tree(text, source)))
    taken = _taken(theirs)
    _leave_out_wrong(taken, theirs.left_out)
    if not any(one.source for one in taken.values()):
        reason = "holds no setting of SoulsAI that can be taken over. Is it its config.yaml or config_d.yaml?"
        raise ConfigError([Problem(source, None, "", None, reason)])
    for key, value in _leaves(theirs.tree):
        if value is not None and not theirs.dealt_with(key) and (key, value) not in _AS_HERE.items():
            place, reason = _why_not(key)
            theirs.left_out[place] = reason
    return Imported(tuple(taken[key] for key in all_settings() if key in taken), theirs.left_out)


def _tree(text: str, source: str) -> dict[str, Any]:
    tree, again = parse_tree(text, source)
    if again:
        reason = "is written twice. Keep one of them."
        raise ConfigError([Problem(source, one.line, str(one.name), None, reason) for one in again])
    try:
        found: dict[str, Any] = plain(tree)
    except NotPlainError as error:
        raise ConfigError([Problem(source, None, "", None, str(error))]) from error
    return found


def _over(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Return two nested maps as one, in which the second wins."""
    both = dict(below)
    for name, value in above.items():
        beneath = below.get(name)
        both[name] = _over(beneath, value) if isinstance(beneath, dict) and isinstance(value, dict) else value
    return both


class _NoCounterpartError(Exception):
    """A setting of theirs can't be one of ours; the message says why, for the user."""


class _Theirs:
    """Their settings, by dotted key, and which of them were asked for or left out."""

    def __init__(self, tree: dict[str, Any]) -> None:
        self.tree = tree
        self.left_out: dict[str, str] = {}
        self._asked: set[str] = set()
        named = str(self.get("algorithm") or "").lower()
        alone = "ppo" if "ppo" in tree and "dqn" not in tree else "dqn"
        self.algorithm = named if named in _ALWAYS else alone
        # Before the file named its algorithm there was DQN alone, and `lr` at the top.
        self.whole = named in _ALWAYS or self.peek("lr") is not None
        if named and named not in _ALWAYS:
            self.left_out["algorithm"] = "should be dqn or ppo."
        self.other = "ppo" if self.algorithm == "dqn" else "dqn"
        if self.tree.pop(self.other, None) is not None:
            self.left_out[self.other] = f"is about another algorithm than {self.algorithm}."

    def peek(self, key: str) -> Any:
        """Return a value, or a map of them; None where there is none."""
        node: Any = self.tree
        for name in key.split("."):
            node = node.get(name) if isinstance(node, dict) else None
        return node

    def get(self, *keys: str) -> Any:
        """Return the value of the first of these keys that is set; the keys are asked for."""
        self._asked.update(keys)
        return next((value for key in keys if (value := self.peek(key)) is not None), None)

    def number(self, *keys: str) -> Any:
        """Return the number under the first of these keys that is set; None where none is."""
        value = self.get(*keys)
        return None if value is None else _number(value)

    def first(self, *keys: str) -> str:
        """Return the first of these keys that is set, empty where none is."""
        return next((key for key in keys if self.peek(key) is not None), "")

    def dealt_with(self, key: str) -> bool:
        """Whether this key, or a map that holds it, was asked for or left out."""
        return any(place in self._asked or place in self.left_out for place in _places(key))

    def part(self, *places: str) -> tuple[str, str, str]:
        """Return which key names a part's class, the class, and the key of its arguments; empty without it.

        Newer versions have a map of `type` and `kwargs`, older ones two keys beside each other.
        """
        for place in places:
            if isinstance(self.peek(place), dict):
                named, kwargs = f"{place}.type", f"{place}.kwargs"
            else:
                named, kwargs = self.first(f"{place}_type", place), f"{place}_kwargs"
            if named and (kind := self.get(named)) is not None:
                return named, str(kind), kwargs
        return "", "", ""


def _places(key: str) -> list[str]:
    """Return a dotted key and the ones of the maps around it, the longest first."""
    parts = key.split(".")
    return [".".join(parts[:count]) for count in range(len(parts), 0, -1)]


def _leaves(tree: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Iterate over what is no map, by dotted key; a long one, which SoulsAI has not, is shortened."""
    for name, value in tree.items():
        key = shortened(f"{prefix}{name}")
        if isinstance(value, dict):
            yield from _leaves(value, f"{key}.")
        else:
            yield key, value


def _taken(theirs: _Theirs) -> dict[str, Taken]:
    """Return what is taken over, by our key."""
    always = {"algorithm": theirs.algorithm} | _ALWAYS[theirs.algorithm] if theirs.whole else {}
    source = theirs.first("algorithm")
    taken = {key: Taken(key, value, source if key == "algorithm" else "") for key, value in always.items()}
    for ours, keys in _ROWS.items():
        place, *older = [key for key in keys.split() if theirs.peek(key) is not None] or [""]
        if place:
            with _attempt(theirs, place):
                value, convert = theirs.get(place), _CONVERTED.get(ours)
                taken[ours] = Taken(ours, convert(value, theirs) if convert else value, place)
            theirs.left_out |= dict.fromkeys(older, f"{place} is used instead.")
    for place, part in _PARTS:
        with _attempt(theirs, place):
            taken |= {one.key: one for one in list(part(theirs))}
    of_other = [taken.pop(key) for key in list(taken) if key.startswith(f"{theirs.other}.")]
    used = {one.source for one in taken.values()}
    unused = [one.source for one in of_other if one.source not in used]  # gamma is that of both
    theirs.left_out |= dict.fromkeys(unused, f"is about another algorithm than {theirs.algorithm}.")
    return taken


@contextmanager
def _attempt(theirs: _Theirs, key: str) -> Iterator[None]:
    """Leave a key out where what is done with it fails: in a file may stand whatever it will."""
    try:
        yield
    except _NoCounterpartError as error:
        theirs.left_out[key] = str(error)
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError):
        theirs.left_out[key] = "is not in the form in which SoulsAI writes it."


def _leave_out_wrong(taken: dict[str, Taken], left_out: dict[str, str]) -> None:
    """Move what our settings refuse to what is left out.

    What does not go with a default of ours stays: that is told, and put right, where it is saved.
    """
    try:
        combine(over_defaults([Layer("SoulsAI", {one.key: one.value for one in taken.values()})]))
    except ConfigError as error:
        wrong = {problem.key: problem.reason for problem in error.problems if problem.key in taken}
        for key, reason in wrong.items():
            left_out[taken.pop(key).source or key] = f"{key} {reason}"
        if wrong:  # the rest may still go together or not
            _leave_out_wrong(taken, left_out)


def _why_not(key: str) -> tuple[str, str]:
    """Return a key, or that of a map around it, and why nothing of it was taken over."""
    if key.rpartition(".")[2] in _OF_ENVIRONMENT:
        return key, "is read from the environment."
    place = next((place for place in _places(key) if place in _WHY_NOT), key)
    return place, _WHY_NOT.get(place, "is no setting of SoulsAI that SoulsGUI knows.")


def _number(value: Any) -> Any:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _NoCounterpartError("should be a number.")
    return value


# The environment

_ENVIRONMENTS = {"LunarLander-v2": "LunarLander-v3", "LunarLanderContinuous-v2": "LunarLanderContinuous-v3"}
"""Their successors, where Gymnasium has given up the old ones."""

_MODULES = {"SoulsGym": "soulsgym", "ALE/": "ale_py"}
"""What registers environments, by the beginning of their ids."""


def _environment(theirs: _Theirs) -> Iterator[Taken]:
    source = "env.name" if isinstance(theirs.peek("env"), dict) else "env"
    name = theirs.get(source)
    if name is not None and ":" in name:
        reason = "names a module, which a run would import: set env.id yourself, if you trust it."
        theirs.left_out[source] = reason
    elif name is not None:
        module = next((module for begin, module in _MODULES.items() if name.startswith(begin)), "")
        known = _ENVIRONMENTS.get(name, name)
        yield Taken("env.id", f"{module}:{known}" if module else known, source)
        if module == "soulsgym":  # the game runs on other computers than the server
            yield Taken("clients.local", 0, source)
    source = theirs.first("env.kwargs", "env_kwargs")
    used = theirs.get("use_env_kwargs") is not False  # older versions had that switch
    vectorized = theirs.get("env.vectorize") is True
    if source and used:
        kwargs = dict(theirs.get(source))
        if vectorized:
            yield Taken("env.num_envs", kwargs.pop("num_envs", 1), source)
            kwargs.pop("vectorization_mode", None)
        yield Taken("env.kwargs", kwargs, source)
    if wrappers := theirs.get("env.wrappers"):
        yield Taken("env.wrappers", list(_wrappers(wrappers)), "env.wrappers")


def _wrappers(told: dict[str, Any]) -> Iterator[str | dict[str, Any]]:
    """Iterate over wrappers by their names of today; those of SoulsAI have to be installed on the clients."""
    expanded = {"AtariPreprocessing", "AtariExpandImage"} <= told.keys()
    for name, one in told.items():
        kwargs = dict((one or {}).get("kwargs") or {})
        if name == "AtariPreprocessing":
            kwargs |= {"grayscale_newaxis": True} if expanded else {}
        elif name == "AtariExpandImage" and expanded:
            continue
        elif name == "FrameStack":
            name, kwargs = "FrameStackObservation", {"stack_size": kwargs.pop("num_stack"), **kwargs}
        elif name == "GrayScaleObservation":
            name = "GrayscaleObservation"
        elif name != "ResizeObservation":
            if not name.isidentifier():
                raise _NoCounterpartError("has a wrapper that is none of SoulsAI's.")
            name = f"soulsai.wrappers:{name}"
        yield {name: kwargs} if kwargs else name


# Networks

_LAYERS = {
    "DQN": 3,
    "AdvantageDQN": 2,
    "NoisyDQN": 2,
    "NoisyAdvantageDQN": 3,
    "NoisyAdvantageSkipDQN": 3,
    "DistributionalDQN": 2,
    "PPOActor": 2,
    "PPOCritic": 2,
}
"""Hidden layers of their networks, all of the width `layer_dims`."""

_FILTERS = {
    "CNNAdvantageDQN": "nature_cnn",
    "CNNDistributionalDQN": "nature_cnn",
    "ImpalaDistributionalDQN": "impala_resnet",
}


def _hidden_sizes(theirs: _Theirs, kind: str, kwargs: str) -> list[int]:
    width = theirs.number(f"{kwargs}.layer_dims", "layer_width")
    if kind not in _LAYERS:
        raise _NoCounterpartError(f"{shortened(kind)} is a network that SoulsGUI does not have.")
    layers = theirs.number(f"{kwargs}.nlayers") if kind == "AdvantageDQN" else None
    if width is None:
        raise _NoCounterpartError("layer_dims is missing.")
    if layers is not None and not 1 <= layers <= 8:
        raise _NoCounterpartError("nlayers should be between 1 and 8.")
    return [width] * int(layers or _LAYERS[kind])


def _q_network(theirs: _Theirs) -> Iterator[Taken]:
    source, kind, kwargs = theirs.part("dqn.network", "network")
    if not source:
        return
    if kind in _FILTERS:
        quantiles = theirs.number(f"{kwargs}.n_quantiles") or 32
        of_outputs = 2 * quantiles * (theirs.number(f"{kwargs}.output_dims") or 0)
        sizes = [128 if kind == "CNNAdvantageDQN" else of_outputs]
    else:
        sizes = _hidden_sizes(theirs, kind, kwargs)
    yield Taken("network.name", _FILTERS.get(kind, "mlp"), source)
    yield Taken("network.hidden_sizes", sizes, source)
    yield Taken("dqn.dueling", "Advantage" in kind, source)
    if "Distributional" in kind:
        yield Taken("dqn.quantiles", theirs.number(f"{kwargs}.n_quantiles") or 32, source)


def _actor_and_critic(theirs: _Theirs) -> Iterator[Taken]:
    for place, ours in (("actor_net", "network.hidden_sizes"), ("critic_net", "network.value_hidden_sizes")):
        source, kind, kwargs = theirs.part(f"ppo.{place}")
        if source:
            yield Taken("network.name", "mlp", source)
            yield Taken(ours, _hidden_sizes(theirs, kind, kwargs), source)


# How PPO and DQN learn


def _actor_lr(value: Any, theirs: _Theirs) -> Any:
    if theirs.peek("ppo.critic_lr") == value:
        theirs.get("ppo.critic_lr")
    return value


_AGENTS = {
    "DQNAgent": "dqn",
    "default": "dqn",
    "vanilla": "dqn",
    "DistributionalDQNAgent": "qr_dqn",
    "distributional": "qr_dqn",
}


def _agent(value: Any, _: _Theirs) -> Any:
    if value not in _AGENTS:
        raise _NoCounterpartError("should be DQNAgent or DistributionalDQNAgent: SoulsGUI has no other one.")
    return _AGENTS[value]


def _tau(value: Any, theirs: _Theirs) -> Any:
    if _AGENTS.get(str(theirs.peek(theirs.first("dqn.agent.type", "dqn.variant")))) == "dqn":
        raise _NoCounterpartError("is not used there: its DQN has two networks that learn in turns.")
    return value


_RHYTHM = ("batch_size", "train_epochs", "update_samples")


def _rhythm(theirs: _Theirs) -> Iterator[Taken]:
    """Every `update_samples` steps there, `train_epochs` batches are learned from."""
    present = [theirs.first(f"dqn.{name}", name) for name in _RHYTHM]
    batch, batches, steps = (theirs.number(f"dqn.{name}", name) for name in _RHYTHM)
    if None in (batch, batches, steps):
        reason = f"says something only together with {_RHYTHM[0]}, {_RHYTHM[1]} and {_RHYTHM[2]}."
        theirs.left_out |= dict.fromkeys((key for key in present[1:] if key), reason)
        return
    yield Taken("dqn.replay_ratio", batch * batches / steps, f"{present[0]} × {present[1]} / {present[2]}")


def _learning_starts(theirs: _Theirs) -> Iterator[Taken]:
    """It waits for a full memory, or `min_samples`, or the batches of an update."""
    batch, batches = (theirs.number(f"dqn.{name}", name) for name in _RHYTHM[:2])
    full, least = theirs.get("dqn.fill_buffer", "fill_buffer"), theirs.number("dqn.min_samples")
    if full is True:
        steps, source = theirs.number(*_BUFFER_SIZE.split()), theirs.first("dqn.fill_buffer", "fill_buffer")
    elif least:
        steps, source = max(least, batch or 0), "dqn.min_samples"
    else:
        steps = None if batch is None or batches is None else batch * batches
        source = " × ".join(theirs.first(f"dqn.{name}", name) for name in _RHYTHM[:2])
    if steps is not None:
        yield Taken("dqn.learning_starts", steps, source)


_BUFFER_SIZE = (
    "dqn.replay_buffer.kwargs.max_size dqn.replay_buffer.kwargs.maxlen dqn.replay_buffer_kwargs.maxlen "
    "dqn.buffer_size buffer_size"
)


def _replay(theirs: _Theirs) -> Iterator[Taken]:
    source, kind, kwargs = theirs.part("dqn.replay_buffer")
    if not source:
        return
    if kind not in ("ReplayBuffer", "PerformanceBuffer", "PrioritizedReplayBuffer"):
        raise _NoCounterpartError(f"{shortened(kind)} is a replay memory that SoulsGUI does not have.")
    yield Taken("dqn.replay", "prioritised" if kind.startswith("Prioritized") else "uniform", source)
    if kind.startswith("Prioritized"):
        for key, name in (("dqn.priority_exponent", "alpha"), ("dqn.priority_correction", "beta")):
            value = theirs.get(f"{kwargs}.{name}")
            yield Taken(key, 0.5 if value is None else value, f"{kwargs}.{name}")


def _normalize(value: Any, theirs: _Theirs) -> bool:
    theirs.get("dqn.observation_transform", "dqn.normalizer_kwargs")  # shapes, which the environment tells
    if value in ("NormalizeImg", "ImageNormalizer"):
        raise _NoCounterpartError("is not needed: networks for images scale them by themselves.")
    known = {"Normalize": True, "Normalizer": True, "Identity": False}
    found = value if isinstance(value, bool) else known.get(str(value))
    if found is None:
        raise _NoCounterpartError(f"{shortened(str(value))} is a transform that SoulsGUI does not have.")
    return found


# How DQN explores


def _how_it_explores(theirs: _Theirs) -> Iterator[Taken]:
    source, kind, _ = theirs.part("dqn.network", "network")
    how = "noisy" if "Noisy" in kind else "epsilon"
    chosen = theirs.get("dqn.value_transform")
    if chosen is not None:
        source = "dqn.value_transform"
        chain = chosen["kwargs"]["transforms"] if chosen["type"] == "Chain" else [chosen]
        for one in chain:
            if one["type"] == "ExponentialAction":
                how, value = "boltzmann", _ramp(one["kwargs"]["scheduler"], theirs, lambda told: told[0])
                yield Taken("dqn.temperature", value, source)
            elif one["type"] not in ("GreedyAction", "Mask"):
                raise _NoCounterpartError(f"{shortened(str(one['type']))} is nothing that SoulsGUI has.")
    if source:
        yield Taken("dqn.exploration", how, source)


def _random_actions(theirs: _Theirs) -> Iterator[Taken]:
    transform = theirs.get("dqn.action_transform")
    if transform is None:
        return
    kind, kwargs = transform["type"], transform.get("kwargs") or {}

    def share(chances: Sequence[float]) -> float:
        """Return how probable a random action is, by the chances of the transforms."""
        kinds = [one["type"] for one in kwargs["transforms"]]
        if not set(kinds) <= {"Identity", "ReplaceWithNoise"}:
            raise _NoCounterpartError("does more than to replace actions by random ones.")
        random = [chance for one, chance in zip(kinds, chances, strict=True) if one != "Identity"]
        return sum(random) / sum(chances)

    if kind == "Identity":
        value: Any = 0.0
    elif kind == "Choice":
        value = share(kwargs.get("probs") or kwargs["prob"])
    elif kind == "ScheduledChoice":
        value = _ramp(kwargs["scheduler"], theirs, share)
    else:
        raise _NoCounterpartError("does something else than to replace actions by random ones.")
    yield Taken("dqn.epsilon", value, "dqn.action_transform")


def _ramp(scheduler: Any, theirs: _Theirs, value: Callable[[Any], float]) -> dict[str, Any]:
    """Return a linear schedule; theirs takes a step with each batch that is learned from."""
    if scheduler["type"] != "LinearScheduler":
        raise _NoCounterpartError(f"has a schedule that SoulsGUI does not have: {scheduler['type']!r:.40}.")
    told = scheduler["kwargs"]
    batches, steps = (theirs.number(f"dqn.{name}") for name in _RHYTHM[1:])
    if not batches or not steps:
        raise _NoCounterpartError("its schedule needs dqn.train_epochs and dqn.update_samples, too.")
    over = round(_number(told["steps"]) * steps / batches)
    return {"schedule": "linear", "from": value(told["start"]), "to": value(told["end"]), "over": over}


def _epsilon(value: Any, theirs: _Theirs) -> dict[str, Any]:
    """Return the linear pieces of older versions, one after the other, and no random actions after them."""
    place = "dqn." if theirs.peek("dqn.eps_max") is not None else ""
    ends, lengths = theirs.get(f"{place}eps_min"), theirs.get(f"{place}eps_steps")
    # Counted in `eps_samples` steps; before there were any, in updates, and after, in steps.
    theirs.get("dqn.noise", "dqn.noise_kwargs", "noise", "noise_kwargs")  # any action, all alike: as here
    unit = theirs.number(f"{place}eps_samples") or (1 if place else theirs.number("update_samples") or 1)
    points, now = list[list[float]](), 0
    for first, last, length in zip(value, ends, lengths, strict=True):
        points += [[now, first], [now := now + round(_number(length) * unit), last]]
        now += 1
    return {"schedule": "piecewise", "points": [*points, [now, 0.0]]}


# The rest


def _every_updates(value: Any, theirs: _Theirs) -> Any:
    """Their epochs are rounds of PPO; with DQN, each has `train_epochs` gradient steps."""
    if theirs.algorithm == "ppo":
        return value
    batches = theirs.number("dqn.train_epochs", "train_epochs")
    if batches is None:
        raise _NoCounterpartError("needs train_epochs, the gradient steps that such an epoch has.")
    return _number(value) * batches


def _watchdog(theirs: _Theirs) -> Iterator[Taken]:
    least = theirs.number("watchdog.minimum_samples")  # a minute
    if theirs.get("watchdog.enable") is True and least is not None:
        yield Taken("client.min_steps_per_s", least / 60, "watchdog.minimum_samples")


def _exporter(theirs: _Theirs) -> Iterator[Taken]:
    keys = ("monitoring.prometheus", "monitoring.grafana", "monitoring.enable")
    wanted = [bool(theirs.get(key)) for key in keys]
    if source := theirs.first(*keys):
        yield Taken("exporter.enabled", any(wanted), source)


def _wandb(theirs: _Theirs) -> Iterator[Taken]:
    if isinstance(theirs.peek("monitoring.wandb"), dict):
        yield Taken("telemetry.wandb", "online", "monitoring.wandb")
        project = theirs.get("monitoring.wandb.project")
        if project is not None:
            yield Taken("telemetry.wandb_project", project, "monitoring.wandb.project")


_OF_EPISODE = {"ep_reward": "return", "ep_steps": "length"}
_COMPARE = {"lt": "<", "le": "<=", "eq": "==", "ne": "!=", "ge": ">=", "gt": ">"}


def _metrics(value: Any, theirs: _Theirs) -> dict[str, Any]:
    """Return their numbers of episodes but those that are recorded anyway."""
    found: dict[str, Any] = {}
    for one in value:
        kind, kwargs = one["type"], one.get("kwargs") or {}
        if kind == "Timer":
            continue
        told = kwargs["key"]
        inner = told if isinstance(told, str) else ".".join(name for name in told if name != "info")
        key, name = _OF_EPISODE.get(inner, inner), kwargs.get("name") or inner
        if kind == "CompareValue":
            compare = {"key": key, "compare": _COMPARE[kwargs.get("op", "gt")], "value": kwargs["value"]}
            found[name] = compare | {more: kwargs[more] for more in ("scale", "offset") if more in kwargs}
        elif kind != "MetricByKey":
            theirs.left_out[f"telemetry.transforms: {name}"] = "is computed in a way SoulsGUI does not have."
        elif inner not in (*_OF_EPISODE, "total_steps"):
            found[name] = key
    return found


# The tables

_ROWS = {
    "stop.env_steps": "max_env_steps",
    "stop.window": "telemetry.moving_average moving_average",
    "checkpoint.every_updates": "checkpoint.epochs checkpoint_epochs",
    "checkpoint.with_buffer": "checkpoint.save_buffer",
    "telemetry.metrics": "telemetry.transforms",
    "client.step_delay": "step_delay",
    "learner.device": "dqn.agent.kwargs.device device",
    "logging.level": "loglevel",
    "normalize.observations": "dqn.observation_transform.type dqn.normalizer dqn.normalize",
    "ppo.n_clients": "ppo.n_clients",
    "ppo.n_steps": "ppo.n_steps",
    "ppo.gamma": "gamma",
    "ppo.gae_lambda": "ppo.gae_lambda ppo.lambda",
    "ppo.epochs": "ppo.train_epochs",
    "ppo.minibatch_size": "ppo.minibatch_size",
    "ppo.learning_rate": "ppo.actor_lr",
    "ppo.clip": "ppo.clip_range",
    "ppo.value_coef": "ppo.vf_coef",
    "ppo.max_grad_norm": "ppo.max_grad_norm",
    "dqn.agent": "dqn.agent.type dqn.variant",
    "dqn.gamma": "dqn.agent.kwargs.gamma gamma",
    "dqn.learning_rate": "dqn.agent.kwargs.lr dqn.lr lr",
    "dqn.n_step": "dqn.agent.kwargs.multistep dqn.multistep dqn_multistep",
    "dqn.max_grad_norm": "dqn.agent.kwargs.grad_clip dqn.grad_clip grad_clip",
    "dqn.q_clip": "dqn.agent.kwargs.q_clip dqn.q_clip q_clip",
    "dqn.target_tau": "dqn.agent.kwargs.tau dqn.tau",
    "dqn.batch_size": "dqn.batch_size batch_size",
    "dqn.buffer_size": _BUFFER_SIZE,
    "dqn.max_model_delay": "dqn.max_model_delay",
    "dqn.epsilon": "dqn.eps_max eps_max",
}
"""By our key, theirs: as it is called in the newest version, then in older ones."""

_CONVERTED: dict[str, Callable[[Any, _Theirs], Any]] = {
    "checkpoint.every_updates": _every_updates,
    "telemetry.metrics": _metrics,
    "learner.device": lambda value, _: str(value).partition(":")[0],  # cuda:0
    "logging.level": lambda value, _: str(value).lower(),
    "normalize.observations": _normalize,
    "ppo.learning_rate": _actor_lr,
    "dqn.agent": _agent,
    "dqn.target_tau": _tau,
    "dqn.epsilon": _epsilon,
}
"""By our key, what becomes of a value that does not stay as it is."""

_PARTS: tuple[tuple[str, Callable[[_Theirs], Iterator[Taken]]], ...] = (
    ("env", _environment),
    ("dqn.network", _q_network),
    ("ppo.actor_net", _actor_and_critic),
    ("dqn.update_samples", _rhythm),
    ("dqn.min_samples", _learning_starts),
    ("dqn.replay_buffer", _replay),
    ("dqn.value_transform", _how_it_explores),
    ("dqn.action_transform", _random_actions),
    ("watchdog", _watchdog),
    ("monitoring", _exporter),
    ("monitoring.wandb", _wandb),
)
"""What takes several of their settings to say, or several of ours; with what it is about."""

_OF_ALL = {"env.num_envs": 1, "normalize.observations": False, "normalize.rewards": False}
_ALWAYS: dict[str, dict[str, Any]] = {
    "ppo": _OF_ALL | {"network.activation": "tanh", "ppo.normalize_advantage": "none"},
    "dqn": _OF_ALL | {"network.activation": "relu"},
}
"""What SoulsAI does where it has no setting for it, or none is given."""

_AS_HERE: dict[str, Any] = {
    "checkpoint.load": False,
    "checkpoint.load_buffer": False,
    "checkpoint.load_config": False,
    "checkpoint.save": True,
    "dqn.action_masking": True,
    "enable_interrupt": False,
    "load_checkpoint": False,
    "load_checkpoint_config": False,
    "max_episodes": -1,
}
"""Values that ask for nothing else than what is done here: nobody needs to be told of them."""

_OF_ENVIRONMENT = {
    *("n_states", "n_actions", "state_shape", "state_dtype", "obs_shape", "obs_dtype"),
    *("input_dims", "input_shape", "output_dims"),
}
"""The last names of what the environment tells here."""

_RESUMED = "is chosen when a run is begun or resumed: soulsgui run resume."
_FILES = "belongs to its own way of keeping files."

_WHY_NOT = {
    "redis_address": "SoulsGUI starts a Redis of its own (or uses redis.url); invitations say where.",
    "local": "is about a single client there: its owner's rules are set in client mode.",
    "env_kwargs": "is switched off there by use_env_kwargs.",
    "dqn.action_masking": "is on wherever the environment tells its valid actions (action_mask).",
    "ppo.critic_lr": "actor and critic have one learning rate here: that of the actor is used.",
    "ppo.client_sync_timeout": "clients wait for the server as long as it takes.",
    "dqn.max_total_samples": "stop.env_steps is the end of a run, which max_env_steps is there.",
    "checkpoint.save": "a run always saves checkpoints, so that it survives a crash.",
    "checkpoint.load": _RESUMED,
    "checkpoint.load_buffer": _RESUMED,
    "checkpoint.load_config": _RESUMED,
    "load_checkpoint": _RESUMED,
    "load_checkpoint_config": _RESUMED,
    "telemetry.update_interval": "curves are drawn as they come.",
    "telemetry_epochs": "curves are drawn as they come.",
    "telemetry.save_best_interval": "the best model is chosen by evaluations (evaluation.every_updates).",
    "telemetry.callbacks": "the best model is always kept, chosen by evaluations (evaluation.every_updates).",
    "telemetry.log_keys": "everything that is recorded can be shown.",
    "monitoring.file_storage": "each run keeps its history and figure in its folder.",
    "monitoring.wandb.entity": "W&B takes it from your login, or from WANDB_ENTITY.",
    "monitoring.wandb.group": "W&B takes it from WANDB_RUN_GROUP.",
    "monitoring.wandb.save_dir": _FILES,
    "gdrive_sync": _FILES,
    "gdrive_dir": _FILES,
    "save_dir": _FILES,
    "max_episodes": "a client plays until it is stopped.",
    "enable_interrupt": "a client is stopped in its window, or by the server.",
}
"""By dotted key, also that of a map with all below it."""
