"""Where things are: the shipped files, the folders of the user, and the names inside them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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
        UsageError: The user has no home.
    """
    return _place(platformdirs.user_config_dir)


def default_data_dir() -> Path:
    """Return the folder of runs, server and client state.

    Raises:
        UsageError: The user has no home.
    """
    return _place(platformdirs.user_data_dir)


def _place(find: Callable[..., str]) -> Path:
    try:
        path = Path(find(APP_NAME, appauthor=False))
    except RuntimeError as error:
        raise _homeless() from error
    if not path.is_absolute():  # older versions leave `~` as it is
        raise _homeless()
    return path


def _homeless() -> UsageError:
    """Return the error for a user whom the system does not know, as in many containers."""
    return UsageError(
        "This user has no home folder: HOME is not set, and the system knows of none.",
        "Set HOME, or name both folders: --config-dir DIR --data-dir DIR",
    )


@dataclass(frozen=True)
class Folders:
    """The two folders every command is given, and the fixed names inside them."""

    config: Path
    data: Path

    @property
    def overrides(self) -> Path:
        """The user's own settings."""
        return self.config / "config.yaml"

    @property
    def redis_secret(self) -> Path:
        """The server's password: the line `requirepass <password>`."""
        return self.config / "redis.secret"

    @property
    def servers(self) -> Path:
        """The invitations of other servers that were taken up here: one file per server."""
        return self.config / "servers"

    @property
    def runs(self) -> Path:
        """One folder per run."""
        return self.data / "runs"

    @property
    def server(self) -> Path:
        """State of the runner of a server."""
        return self.data / "server"

    @property
    def server_address(self) -> Path:
        """Address and password of the server that runs at present."""
        return self.server / "redis.json"

    @property
    def invited(self) -> Path:
        """Who was invited to the server of this machine: names, hashes of their secrets."""
        return self.server / "clients.json"

    @property
    def client_names(self) -> Path:
        """What the clients of the server of this machine are called on screen."""
        return self.server / "client_names.json"

    @property
    def client(self) -> Path:
        """State of the runner of client mode."""
        return self.data / "client"


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
    def config(self) -> Path:
        """The whole effective configuration, without secrets."""
        return self.root / "config.json"

    @property
    def run(self) -> Path:
        """What the runner knows of the run: name, note, state."""
        return self.root / "run.json"

    @property
    def paused(self) -> Path:
        """There while the run is to rest: written by the runner, looked at by a trainer that begins."""
        return self.root / "paused"

    @property
    def attempts(self) -> Path:
        """Number of attempts begun, written by the trainer."""
        return self.root / "attempts.json"

    @property
    def divergence(self) -> Path:
        """That the training has diverged, while it is not overcome; written by the trainer."""
        return self.root / "divergence.json"

    @property
    def spaces(self) -> Path:
        """The environment's spaces, as the probe found them."""
        return self.root / "spaces.json"

    @property
    def network(self) -> Path:
        """The layers of the networks, for people."""
        return self.root / "network.txt"

    @property
    def store(self) -> Path:
        """Every episode, metric and event."""
        return self.root / "telemetry.sqlite"

    @property
    def series(self) -> Path:
        """The exported series."""
        return self.root / "telemetry.json"

    @property
    def figure(self) -> Path:
        """The exported figure."""
        return self.root / "telemetry.png"

    @property
    def checkpoint(self) -> Path:
        """The current checkpoint."""
        return self.root / "checkpoint"

    @property
    def best_model(self) -> Path:
        """The model with the best score."""
        return self.root / "best_model"

    @property
    def evaluated(self) -> Path:
        """Weights that the evaluator found to be the best: one folder per model id."""
        return self.root / "evaluated"

    @property
    def manual_saves(self) -> Path:
        """One folder per quicksave."""
        return self.root / "manual_save"

    @property
    def replay(self) -> Path:
        """Observations of a replay memory that is too large for the computer's memory."""
        return self.root / "replay"

    @property
    def logs(self) -> Path:
        """One log file per service."""
        return self.root / "logs"
