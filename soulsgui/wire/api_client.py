"""A small synchronous client of the control API, with the standard library alone."""

import http.client
import json
import urllib.parse
from collections.abc import Mapping
from typing import Any

from soulsgui.errors import NotAllowedError, ServerUnreachableError, SoulsGuiError
from soulsgui.wire.control import PREFIX, ApiError, ControlFile, ErrorCode

CONTROL_FILE = "control.json"  # name of the `ControlFile` in the folder of a runner
COMMAND_TIMEOUT_S = 90.0  # longer than the runner takes for its longest command

_STATUS_TIMEOUT_S = 10.0
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
        self.code, self.asks = error.code, error.asks
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

    def _request(self, method: str, path: str, body: str | None, timeout_s: float) -> dict[str, Any]:
        connection = http.client.HTTPConnection(self._control.host, self._control.port, timeout=timeout_s)
        headers = {
            "Authorization": f"Bearer {self._control.token}",
            "Content-Type": "application/json",
            "User-Agent": self.agent,
        }
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            answer = json.loads(response.read())
        except TimeoutError as error:
            raise ServerUnreachableError(
                f"The runner at {self._control.url} did not answer within {timeout_s:.0f} s.",
                "Look at its log: soulsgui logs runner",
            ) from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise ServerUnreachableError(
                f"No runner answers at {self._control.url}.", "Start one: soulsgui serve"
            ) from error
        finally:
            connection.close()
        if not isinstance(answer, dict):
            raise ServerUnreachableError(
                f"What answers at {self._control.url} is no runner.", "Start one: soulsgui serve"
            )
        if response.status >= 400:
            found = answer.get("error")
            unsaid = {"code": ErrorCode.FAILED, "message": str(answer)}
            refusal = ApiError.model_validate(found if isinstance(found, dict) else unsaid)
            if refusal.code == ErrorCode.NOT_ALLOWED:
                raise NotAllowedError(refusal.message, refusal.remedy)
            raise CommandFailedError(refusal)
        return answer
