"""The names of everything on the server. No key is spelled anywhere else."""

import re
import socket
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, Self

from soulsgui.errors import UsageError, printable

PROTOCOL = 3  # version of the wire contract spoken here

# It becomes a part of keys and of access rules.
_CLIENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")

_FOR_INSTANCE = "For instance: gamer-01"
# A client has a log and an invitation that are called after it.
_DEVICES = frozenset(
    ["con", "prn", "aux", "nul", *(f"{port}{number}" for port in ("com", "lpt") for number in range(10))]
)

TRAINER = "trainer"
TELEMETRY = "telemetry"
EVALUATOR = "evaluator"
GATEWAY = "gateway"
EXPORTER = "exporter"
INFERENCE = "inference"  # what inference servers are called, with a number behind it
SINKS = (
    "tensorboard",
    "wandb",
)  # where records go besides the store, each a node of its run
NODES = (TRAINER, TELEMETRY, EVALUATOR, *SINKS)  # the nodes of a run; most have no sinks, some no evaluator

TRAINER_GROUP = "trainer"
TELEMETRY_GROUP = "telemetry"


def is_client_name(name: str) -> bool:
    """Whether a client may be called so."""
    return _CLIENT_NAME.fullmatch(name) is not None and not is_device_name(name)


def is_own_name(name: str) -> bool:
    """Whether a server calls its own clients or inference servers so: nobody else is invited under it."""
    return re.fullmatch(r"(client|inference)-\d+", name) is not None


def inference_server(number: int) -> str:
    """Return what the inference server of a number, from 1, is called."""
    return f"{INFERENCE}-{number}"


def inference_number(name: str) -> int:
    """Return the number of the inference server of a name; 0 where none is called so."""
    kind, _, number = name.partition("-")
    fits = kind == INFERENCE and re.fullmatch("[1-9][0-9]{0,3}", number)
    return int(number) if fits else 0


def is_device_name(name: str) -> bool:
    """Whether Windows takes a file of this name for a device, whatever follows the first dot."""
    return name.split(".")[0].lower() in _DEVICES


def check_client_name(name: str) -> str:
    """Return a client's name when it may be called so.

    Raises:
        UsageError: It is no name, too long a one, or that of a device on Windows.
    """
    if is_device_name(name):
        raise UsageError(
            f"“{name}” is the name of a device on Windows: no file can have that name there.", _FOR_INSTANCE
        )
    if not is_client_name(name):
        raise UsageError(
            f"“{printable(name, 80)}” is not a client name: it has letters, digits, “.”, “_” and “-”, "
            "at most 64.",
            _FOR_INSTANCE,
        )
    return name


def name_of_machine() -> str:
    """Return what a client of this machine is called that nobody named: as the machine is, as far as it may.

    Accents are left off, and whatever else has no place in a client's name.
    """
    host = unicodedata.normalize("NFKD", socket.gethostname().split(".")[0])
    kept = "".join(sign for sign in host if sign.isascii() and (sign.isalnum() or sign in "_-"))
    name = kept.lstrip("_-")[:64] or "pc"
    return f"{name}-pc" if is_device_name(name) else name


class _Name:
    """A name under the prefix: `config = _Name("config")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, keys: "Keys", owner: type | None = None) -> str:
        return keys.prefix + self._name


class _NameOf:
    """A name under the prefix for each client or node: `beat = _NameOf("beat")` makes `beat("pc-1")`."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, keys: "Keys", owner: type | None = None) -> Callable[[str], str]:
        return lambda of: f"{keys.prefix}{self._name}:{of}"


@dataclass(frozen=True)
class Keys:
    """Key and channel names under one prefix, which ends in a colon."""

    prefix: str = "souls:"

    config = _Name("config")  # what clients need to know of the run (`messages.server_config`)
    clients = _Name("clients")  # the roster: a hash from client id to its entry, written by the runner
    weights = _Name("weights")  # newest weights (`wire.codec`)
    weights_event = _Name("ev:weights")  # channel that tells of new weights
    metrics = _Name("metrics")  # stream of aggregated rows (`messages.metrics`)
    done = _Name("done")  # stream of answers to node commands
    rejects = _Name("rejects")  # the last refused chunks (`messages.node.Rejects`), written by the trainer
    presence_pattern = _Name("[bi][en]*:*")
    """Pattern that matches every heartbeat key and every stream of chunks, and some others."""

    # Of one client:
    chunks = _NameOf("in")  # stream of sample chunks
    episodes = _NameOf("ep")  # stream of finished episodes
    log = _NameOf("out")  # stream of log lines from WARNING on
    beat = _NameOf("beat")  # heartbeat
    grant = _NameOf("grant")  # what the trainer allows it to do
    wish = _NameOf("to")  # the state the runner wants it to be in
    requests = _NameOf("infer:req")  # list of requests to its inference server
    replies = _NameOf("infer:rep")  # list with the answer
    picture = _NameOf("seen")  # what its game showed when it was looked at last
    wake_up = _NameOf("cmd")  # channel that tells it to read its grant and wish again

    # Of one node of the server:
    node = _NameOf("node")  # its state
    commands = _NameOf("do")  # stream of commands to it

    def streams(self, client: str) -> tuple[str, str, str]:
        """Return every stream that is called after one client."""
        return self.chunks(client), self.episodes(client), self.log(client)

    def others(self, client: str) -> tuple[str, str, str]:
        """Return every other key that a client may fill."""
        return self.requests(client), self.replies(client), self.picture(client)

    def of_client(self, client: str) -> tuple[str, ...]:
        """Return every key that is called after one client."""
        return (
            self.beat(client),
            self.grant(client),
            self.wish(client),
            *self.streams(client),
            *self.others(client),
        )

    def client_of_beat(self, key: str) -> str:
        """Return the client id inside a heartbeat key; empty for others."""
        return key.removeprefix(self.beat("")) if key.startswith(self.beat("")) else ""

    def client_of_chunks(self, key: str) -> str:
        """Return the client id inside the name of a stream of chunks; empty for others."""
        return key.removeprefix(self.chunks("")) if key.startswith(self.chunks("")) else ""


_LARGEST = 2**64 - 1


class EntryId(NamedTuple):
    """Id of one entry of a stream."""

    ms: int
    seq: int

    @classmethod
    def parse(cls, text: bytes | str) -> Self:
        """Read an id such as `1700000000000-3`.

        Raises:
            ValueError: It is not an id.
        """
        plain = text.decode("ascii") if isinstance(text, bytes) else text
        ms, _, seq = plain.partition("-")
        return cls(int(ms), int(seq or 0))

    def __str__(self) -> str:
        return f"{self.ms}-{self.seq}"

    @property
    def next(self) -> "EntryId":
        """The smallest id after this one; the largest id has none and returns itself."""
        if self.seq < _LARGEST:
            return EntryId(self.ms, self.seq + 1)
        return EntryId(self.ms + 1, 0) if self.ms < _LARGEST else self
