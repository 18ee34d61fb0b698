"""The runner of a command's data folder."""

import os
from pathlib import Path
from typing import Any

from soulsgui.cli.output import folders_of
from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders
from soulsgui.errors import ServerUnreachableError, SoulsGuiError
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.control import ControlFile


class RunnerClient(ApiClient):
    """Speaks with the runner of a data folder, and notices when somebody else has its place by now.

    Args:
        path: The runner's control.json.
        start: What to do where it is none any more.

    Attributes:
        control: How to reach it.

    Raises:
        ServerUnreachableError: There is none.
    """

    def __init__(self, path: Path, start: str = "Start one: soulsgui serve") -> None:
        self.control = ControlFile.load(path)
        self._path = path
        self._start = start
        super().__init__(self.control)

    def _request(self, method: str, path: str, body: str | None, timeout_s: float) -> dict[str, Any]:
        try:
            return super()._request(method, path, body, timeout_s)
        except SoulsGuiError as error:
            from soulsgui.process import still_runs  # late: nothing of it is needed when all is well

            if still_runs(self.control.pid, self.control.process):
                raise
            raise ServerUnreachableError(
                f"No runner runs for this data folder: the one of {self._path} has ended without a farewell.",
                self._start,
            ) from error


def client_id(runner: ApiClient, word: str) -> str:
    """Return the id of a client that is meant by its id or by its name; a word that is neither stays.

    Names are unambiguous: the runner lets no client be called as another one, or by another one's id.
    """
    clients = runner.status()["clients"] if word else []
    if any(one["id"] == word for one in clients):
        return word
    return next((one["id"] for one in clients if one["name"] == word), word)


def join_of(folders: Folders) -> RunnerClient:
    """Return the way to the runner of client mode of a data folder.

    Raises:
        ServerUnreachableError: This computer plays for nobody.
    """
    path = folders.client / CONTROL_FILE
    begin = "Begin: soulsgui join INVITATION (the link or .soulsgui file of a server's owner)"
    if not os.path.exists(path):  # noqa: PTH110 - a Path raises where the name is too long
        raise ServerUnreachableError(f"This computer plays for nobody ({path} is missing).", begin)
    return RunnerClient(path, begin)


def runner_of(arguments: Arguments) -> RunnerClient:
    """Return the way to the runner of a command's data folder.

    Raises:
        ServerUnreachableError: There is none.
    """
    return RunnerClient(folders_of(arguments).server / CONTROL_FILE)
