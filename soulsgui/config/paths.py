"""Where things are: the shipped files, the folders of the user, and the names inside them."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import platformdirs

from soulsgui.errors import UsageError

APP_NAME = "SoulsGUI"


def shipped(*parts: str) -> Path:
    """Return the path of a shipped file, such as `shipped("configs", "config_d.yaml")`.

    It is found in a checkout (beside the package) and in an installed wheel (inside it) alike.

    Raises:
        FileNotFoundError: The installation lacks the file.
    """
    package = Path(__file__).parents[1]
    for root in (package / "_shipped", package.parent):
        path = root.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"{'/'.join(parts)} is missing from this installation: install SoulsGUI again.")


def default_config_dir() -> Path:
    """Return the folder of the user's overrides and secrets.

    Raises:
        UsageError: The user has no home folder.
    """
    return _place(platformdirs.user_config_dir)


def default_data_dir() -> Path:
    """Return the folder of runs, server and client state.

    Raises:
        UsageError: The user has no home folder.
    """
    return _place(platformdirs.user_data_dir)


def _place(find: Callable[..., str]) -> Path:
    with suppress(RuntimeError):
        path = Path(find(APP_NAME, appauthor=False))
        if path.is_absolute():  # older versions leave `~` as it is
            return path
    # The system does not know the user, as in many containers.
    raise UsageError(
        "This user has no home folder: HOME is not set, and the system knows of none.",
        "Set HOME, or name both folders: --config-dir DIR --data-dir DIR",
    )


class Inside:
    """A fixed name inside a folder: `config = Inside("config.json")` is a path in each object.

    Args:
        name: The name.
        of: Name of the attribute that holds the folder.
    """

    def __init__(self, name: str, of: str = "root") -> None:
        self._name, self._of = name, of

    def __get__(self, holder: Any, owner: type | None = None) -> Path:
        folder: Path = Path() if holder is None else getattr(holder, self._of)
        return folder / self._name


@dataclass(frozen=True)
class Folders:
    """The two folders every command is given, and the fixed names inside them."""

    config: Path
    data: Path

    overrides = Inside("config.yaml", of="config")  # the user's own settings
    redis_secret = Inside("redis.secret", of="config")  # the server's: the line `requirepass <password>`
    exporter_token = Inside("exporter.token", of="config")  # what Prometheus and Grafana show from elsewhere
    servers = Inside("servers", of="config")  # invitations of other servers taken up here, a file each
    agreed = Inside("runs.agreed.json", of="config")  # what runs may execute on this computer
    runs = Inside("runs", of="data")  # one folder per run
    workers = Inside("workers", of="data")  # of a sweep: a data folder for each, by its number
    trash = Inside("trash", of="data")  # runs that were thrown away, until they are purged
    server = Inside("server", of="data")  # state of the runner of a server
    server_address = Inside("redis.json", of="server")  # address and password of the one that runs now
    invited = Inside("clients.json", of="server")  # who was invited: names, hashes of their secrets
    client_names = Inside("client_names.json", of="server")  # what its clients are called on screen
    client = Inside("client", of="data")  # state of the runner of client mode


def default_folders() -> Folders:
    """Return the folders of a user who named none."""
    return Folders(default_config_dir(), default_data_dir())


@dataclass(frozen=True)
class RunFolder:
    """The names inside the folder of one run."""

    root: Path

    @property
    def run_id(self) -> str:
        """The run's id: the name of its folder."""
        return self.root.name

    @property
    def older(self) -> tuple[Path, ...]:
        """Where the checkpoints stand that the current one has replaced, the newest first."""
        return self.previous / "1", self.previous / "2"

    @property
    def chosen(self) -> Path | None:
        """The checkpoint that the trainer is to begin from, None for the newest."""
        try:
            return self.root / self.resume_from.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None

    config = Inside("config.json")  # the whole effective configuration, without secrets
    run = Inside("run.json")  # what the runner knows of the run: name, note, state
    paused = Inside("paused")
    """There while the run is to rest: written by the runner, read by a trainer that begins."""
    resume_from = Inside("resume_from")
    """There while a checkpoint is `chosen`: its path below this folder."""
    changes = Inside("changes.jsonl")  # settings that were changed while it went on, written by the trainer
    attempts = Inside("attempts.json")  # number of attempts begun, written by the trainer
    divergence = Inside("divergence.json")
    """That the training has diverged, while it is not overcome; written by the trainer."""
    spaces = Inside("spaces.json")  # the environment's spaces, as the probe found them
    versions = Inside("versions.json")  # of the packages it was trained with last
    network = Inside("network.txt")  # the layers of the networks, for people
    store = Inside("telemetry.sqlite")  # every episode, metric and event
    series = Inside("telemetry.json")  # the exported series
    figure = Inside("telemetry.png")  # the exported figure
    tensorboard = Inside("tensorboard")  # event files for TensorBoard
    sinks = Inside("sinks")  # how far each sink has come
    evaluations = Inside("evaluations.jsonl")  # what evaluations gave that somebody asked for
    checkpoint = Inside("checkpoint")  # the current one
    previous = Inside("previous")  # the current ones before it: see `older`
    best_model = Inside("best_model")  # the model with the best score
    evaluated = Inside("evaluated")  # weights that the evaluator found best: one folder per model id
    watched = Inside("watched")  # weights that are played or exported at the moment: a folder each
    manual_saves = Inside("manual_save")  # one folder per quicksave
    history = Inside("history")  # checkpoints of all its length, thinned: one folder per model id
    replay = Inside("replay")  # observations of a replay memory too large for the computer's memory
    trash = Inside("trash")  # checkpoints of it that were thrown away, until they are purged
    logs = Inside("logs")  # one log file per service
