"""A small synchronous client of the control API, with the standard library alone."""

import http.client
import json
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, NoReturn

from soulsgui.errors import NotAllowedError, ServerUnreachableError, SoulsGuiError
from soulsgui.wire.control import PREFIX, START_ONE, ApiError, ControlFile, ErrorCode, Job

CONTROL_FILE = "control.json"  # name of the `ControlFile` in the folder of a runner
COMMAND_TIMEOUT_S = 90.0  # longer than the runner takes for its longest command

_STATUS_TIMEOUT_S = 10.0
_CHUNK_BYTES = 2**20
_EXIT_CODES = {
    ErrorCode.BAD_REQUEST: 2,
    ErrorCode.BAD_CONFIG: 2,
    ErrorCode.NO_ANSWER: 3,
    ErrorCode.NOT_ALLOWED: 4,
}


class CommandFailedError(SoulsGuiError):
    """The runner refused a command, or could not carry it out, as its error says."""

    def __init__(self, error: ApiError) -> None:
        super().__init__(error.message, error.remedy)
        self.told, self.code, self.asks = error, error.code, error.asks
        self.exit_code = _EXIT_CODES.get(error.code, 1)


class ApiClient:
    """Speaks with the runner of a control file; every call is a connection of its own."""

    agent = "SoulsGUI script"  # What the audit log calls whoever uses it

    def __init__(self, control: ControlFile) -> None:
        self._control = control

    def status(self) -> dict[str, Any]:
        """Return `Status` as plain data.

        Raises:
            ServerUnreachableError: The runner does not answer.
            NotAllowedError: It refuses our token.
        """
        return self._request("GET", f"{PREFIX}/status", None, _STATUS_TIMEOUT_S)

    def command(
        self, name: str, params: Mapping[str, Any] | None = None, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> dict[str, Any]:
        """Carry out a command, such as `run.start`, and return its result as plain data.

        Raises:
            CommandFailedError: The runner refused it, or it failed.
            ServerUnreachableError, NotAllowedError: As `status`.
        """
        body = json.dumps(params or {})
        path = f"{PREFIX}/commands/{urllib.parse.quote(name, safe='')}"
        answer = self._request("POST", path, body, timeout_s)
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    def job(self, job_id: str) -> Job:
        """Return a job as it is at the moment.

        Raises:
            CommandFailedError: There is no such job (any more).
            ServerUnreachableError, NotAllowedError: As `status`.
        """
        return Job.model_validate(self._request("GET", f"{PREFIX}/jobs/{job_id}", None, _STATUS_TIMEOUT_S))

    def fetch(self, file_id: str) -> Iterator[bytes]:
        """Yield the contents of a file that a job made.

        Raises:
            CommandFailedError: There is no such file (any more).
            ServerUnreachableError, NotAllowedError: As `status`.
        """
        with self._ask("GET", f"{PREFIX}/files/{file_id}", None, COMMAND_TIMEOUT_S) as response:
            if response.status >= 400:
                _refuse(response)
            while chunk := response.read(_CHUNK_BYTES):
                yield chunk

    def bring(self, source: BinaryIO) -> str:
        """Send an open file and return its id, for a command that takes one.

        Raises:
            CommandFailedError: There is no room for it.
            ServerUnreachableError, NotAllowedError: As `status`.
        """
        return str(self._request("POST", f"{PREFIX}/files", source, COMMAND_TIMEOUT_S)["id"])

    def _request(
        self, method: str, path: str, body: str | BinaryIO | None, timeout_s: float
    ) -> dict[str, Any]:
        with self._ask(method, path, body, timeout_s) as response:
            if response.status >= 400:
                _refuse(response)
            answer = json.loads(response.read())
            if not isinstance(answer, dict):
                raise ValueError("it is no object")
            return answer

    @contextmanager
    def _ask(
        self, method: str, path: str, body: str | BinaryIO | None, timeout_s: float
    ) -> Iterator[http.client.HTTPResponse]:
        connection = http.client.HTTPConnection(self._control.host, self._control.port, timeout=timeout_s)
        headers = {
            "Authorization": f"Bearer {self._control.token}",
            "Content-Type": "application/json",
            "User-Agent": self.agent,
        }
        try:
            connection.request(method, path, body, headers)
            yield connection.getresponse()
        except TimeoutError as error:
            raise ServerUnreachableError(
                f"The runner at {self._control.url} did not answer within {timeout_s:.0f} s.",
                "Look at its log: soulsgui logs runner",
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerUnreachableError(f"No runner answers at {self._control.url}.", START_ONE) from error
        finally:
            connection.close()


def _refuse(response: http.client.HTTPResponse) -> NoReturn:
    answer = json.loads(response.read())
    found = answer.get("error") if isinstance(answer, dict) else None
    unsaid = {"code": ErrorCode.FAILED, "message": str(answer)}
    refusal = ApiError.model_validate(found if isinstance(found, dict) else unsaid)
    if refusal.code == ErrorCode.NOT_ALLOWED:
        raise NotAllowedError(refusal.message, refusal.remedy)
    raise CommandFailedError(refusal)
