"""What a client must know of a run: the `config` key."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import Field

from soulsgui.wire.keys import PROTOCOL
from soulsgui.wire.messages.base import Keyed, Listed, Message, Whole

SEGMENT_FORMAT = 4  # version of the columns of a chunk (`messages.chunk`)

ON_POLICY = "on-policy"
"""The family of algorithms that learn from what the newest weights played, and from nothing older."""

OFF_POLICY = "off-policy"
"""The family of algorithms that learn from what earlier weights played, too: clients play freely.

Those that draw from the policy itself (V-trace) belong to it: what each action's log-probability was then
travels with the samples of every family.
"""


def family_of(algorithm: str) -> str:
    """Return the family of an algorithm, as the configuration names it."""
    return ON_POLICY if algorithm == "ppo" else OFF_POLICY


def algorithm_name(algorithm: str, agent: str) -> str:
    """Return what people read of an algorithm: its agent (`dqn.agent`, `sac.agent`), where there is one."""
    return agent or algorithm


def learns_from_log_probs(algorithm: str) -> bool:
    """Whether an algorithm asks for the log-probability of each action when it was taken."""
    return algorithm in ("ppo", "vtrace")


def state_of(policy: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the shape of each field of the state that a policy remembers between its steps.

    In the description of its network `state` maps names to shapes; it is missing where nothing is remembered.

    Raises:
        ValueError: It describes no such fields.
    """
    try:
        state = {
            str(name): tuple(int(side) for side in shape) for name, shape in policy.get("state", {}).items()
        }
    except (AttributeError, TypeError, ValueError) as error:
        raise ValueError(f"no description of a state: {policy['state']!r}") from error
    if any(side < 1 for shape in state.values() for side in shape):
        raise ValueError(f"a field of the state is empty: {state}")
    return state


def contract_hash(
    env_id: str,
    kwargs: dict[str, Any],
    wrappers: list[Any],
    spaces: dict[str, Any],
    family: str,
    state: Mapping[str, Sequence[int]] | None = None,
) -> str:
    """Return the hash of what client and server must agree on, and of nothing else.

    Args:
        spaces: As in `ServerConfig`.
        family: Family of the algorithm: `ON_POLICY` or `OFF_POLICY`.
        state: Shape of each field of the state that stands at the start of segments (`state_of`).
    """
    fields = {name: list(shape) for name, shape in (state or {}).items()}
    agreed = [env_id, kwargs, wrappers, spaces, SEGMENT_FORMAT, family, fields]
    return hashlib.sha256(json.dumps(agreed, sort_keys=True).encode()).hexdigest()[:16]


LONGEST_EXECUTION = 2**14  # characters of JSON
TOO_LONG = f"What the server wants to run takes more than {LONGEST_EXECUTION:,} characters to tell."


_PLAIN = re.compile(r"[A-Za-z0-9_.:/-]*")
_REPEATED = re.compile(r"(.)\1{19,}")


def _named(value: Any) -> str:
    return value if isinstance(value, str) and _PLAIN.fullmatch(value) else json.dumps(value)


def _counted(run: re.Match[str]) -> str:
    return f"{run[1]}… ({len(run[0]):,} characters)"


class Execution(Message):
    """What a run has its clients import, make and call; the owner of each agrees to all of it, by its digest.

    Attributes:
        env_id: Id of the environment, with the module in front that registers it, where one does.
        env_kwargs: Arguments that the environment is made with.
        env_wrappers: What is put around it, as in the settings.
        num_envs: Environments side by side.
        workers: Processes of their own that they are spread over; 0: none.
        restart_hook: Function that is called before a failed environment is created again; empty for none.
        network: Class of the policy network, where that is none of this program's; empty otherwise.
    """

    env_id: str
    env_kwargs: Keyed[Any] = Field(default_factory=dict)
    env_wrappers: Listed[str | Keyed[Any]] = Field(default_factory=list)
    num_envs: Whole = 1
    workers: Whole = 0
    restart_hook: str = ""
    network: str = ""

    @classmethod
    def of(cls, settings: Mapping[str, Any]) -> "Execution":
        """Return what a run executes by the settings that clients receive."""
        network = settings["network.name"]
        return cls(
            env_id=settings["env.id"],
            env_kwargs=settings["env.kwargs"],
            env_wrappers=settings["env.wrappers"],
            num_envs=settings["env.num_envs"],
            workers=settings["client.workers"],
            restart_hook=settings["client.restart_hook"],
            network=network if ":" in network else "",
        )

    @property
    def digest(self) -> str:
        """What tells it from everything else that could be executed."""
        return hashlib.sha256(json.dumps(self.model_dump(), sort_keys=True).encode()).hexdigest()

    @property
    def names(self) -> frozenset[str]:
        """What is imported by name, as `module:Name`."""
        names = [self.env_id, self.restart_hook, self.network]
        names += (name for one in self.env_wrappers for name in ([one] if isinstance(one, str) else one))
        return frozenset(name for name in names if ":" in name)

    @property
    def too_long(self) -> bool:
        """Whether nobody could read it before agreeing."""
        return len(self.to_json()) > LONGEST_EXECUTION

    def words(self) -> dict[str, str]:
        """Return it for its owner to read, whole: what is executed, by what it is.

        What is no plain name stands in quotation marks, with everything but ASCII escaped: it imitates no
        words of ours. What repeats itself pushes nothing out of sight: it is counted.
        """
        told = {
            "environment": f"{_named(self.env_id)} × {self.num_envs}",
            "processes for that": str(self.workers) if self.workers else "",
            "arguments": json.dumps(self.env_kwargs) if self.env_kwargs else "",
            "wrappers": ", ".join(map(_named, self.env_wrappers)),
            "called when it fails": _named(self.restart_hook),
            "network": _named(self.network),
            "imported": ", ".join(sorted({_named(name.rpartition(":")[0]) for name in self.names})),
        }
        return {title: _REPEATED.sub(_counted, value) for title, value in told.items() if value}

    @property
    def sentence(self) -> str:
        """The same in one line, for a log."""
        return "; ".join(f"{title}: {value}" for title, value in self.words().items())


class ServerConfig(Message):
    """The run as clients see it.

    Attributes:
        run_id: Id of the run; chunks of other runs are refused.
        attempt: Number of the attempt: 1 at first, one more at every resume.
        contract: Hash of environment, spaces, segment format and algorithm family.
        protocol_min, protocol_max: Oldest and newest protocol the server speaks.
        spaces: The environment's spaces (`environments.spaces.SpacesSpec.to_json`); empty while the server
            waits for a client to tell them. Contract and policy are empty then, too.
        policy: Description of the policy network (`PPOAgent.policy_spec`); `state_of` reads its state.
        settings: The settings marked `to_clients`, by dotted key.
        seed: Seed of the run; each client derives its own from it and its name.
        max_model_delay: How many model ids older than the newest weights those may be whose samples are
            taken; None where clients can't tell by that.
    """

    run_id: str
    attempt: int
    contract: str
    protocol_min: int = PROTOCOL
    protocol_max: int = PROTOCOL
    spaces: dict[str, Any]
    policy: dict[str, Any]
    settings: dict[str, Any] = Field(default_factory=dict)
    seed: int = 0
    max_model_delay: int | None = Field(default=None, ge=0)
