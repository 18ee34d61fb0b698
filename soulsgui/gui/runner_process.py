"""The runner as a process of this machine: where it says it is, whether it lives, and how it is started."""

import subprocess
from dataclasses import dataclass
from pathlib import Path

from soulsgui.config.paths import Folders
from soulsgui.errors import NotAllowedError, ServerUnreachableError
from soulsgui.process import own_command, parse_line
from soulsgui.system import ProcessIdentity, new_session_kwargs, process_identity, same_process
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import ControlFile

_CAUSE_LINES = 8
_TAIL_BYTES = 16 * 2**10


@dataclass(frozen=True)
class RunnerPlace:
    """One of the runners that this machine can have.

    Attributes:
        folder: Its folder.
        argv: Command line that starts it.
    """

    folder: Path
    argv: tuple[str, ...]

    @property
    def control(self) -> Path:
        """Where it tells how to reach it."""
        return self.folder / CONTROL_FILE


def server_place(folders: Folders) -> RunnerPlace:
    """Return the place of the runner of a server, which starts without a run."""
    return RunnerPlace(folders.server, _command_line(folders, "serve", "--idle"))


def client_place(folders: Folders) -> RunnerPlace:
    """Return the place of the runner of client mode, which plays when told to and ends with the window."""
    return RunnerPlace(folders.client, _command_line(folders, "join", "--watched", "--idle"))


def control_path(folders: Folders) -> Path:
    """Return where the runner of the server of these folders tells how to reach it."""
    return server_place(folders).control


def read_control(place: RunnerPlace) -> ControlFile | None:
    """Return how to reach a runner, None when none says so.

    Raises:
        NotAllowedError: The file is another user's.
    """
    path = place.control
    try:
        return ControlFile.load(path)
    except ServerUnreachableError as error:
        if isinstance(error.__cause__, PermissionError):
            raise NotAllowedError(
                f"{path} belongs to another user.", "Use a data folder of your own: --data-dir DIR"
            ) from error
        return None


def _command_line(folders: Folders, *words: str) -> tuple[str, ...]:
    role, *rest = words
    return (*own_command(role), *rest, "--config-dir", str(folders.config), "--data-dir", str(folders.data))


class WatchedProcess:
    """A process that somebody started, recognised also after its pid was given to another one.

    Args:
        pid: Its pid, now.
    """

    def __init__(self, pid: int) -> None:
        self._identity: ProcessIdentity | None = process_identity(pid)

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        return self._identity is not None and same_process(self._identity)


@dataclass
class StartedRunner:
    """A runner that this window started.

    Attributes:
        process: The process.
        log: Where its output goes.
    """

    process: "subprocess.Popen[bytes]"
    log: Path

    @property
    def ended(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    def lines(self) -> list[str]:
        """Return the last lines it wrote."""
        with self.log.open("rb") as log:
            size = log.seek(0, 2)
            log.seek(max(0, size - _TAIL_BYTES))
            text = log.read().decode(errors="replace")
        return [line for line in text.splitlines() if line.strip()]

    def phase(self) -> str:
        """Return the last thing it said, without time and level; empty when it has said nothing."""
        parsed = [parse_line(line) for line in self.lines()]
        said = [line.text.partition(": ")[2] for line in parsed if line.level]
        return next((words for words in reversed(said) if words), "")

    def cause(self) -> str:
        """Return why it ended, in its own last words."""
        return "\n".join(self.lines()[-_CAUSE_LINES:])


def start_runner(place: RunnerPlace) -> StartedRunner:
    """Start a runner that outlives this window.

    Raises:
        OSError: It can't be started, or its log can't be written.
    """
    # It writes runner.log itself; this is for what it says before that, and for its last words.
    path = place.folder / "runner.out"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb") as log:
        process = subprocess.Popen(
            place.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            **new_session_kwargs(),
        )
        return StartedRunner(process, path)
