"""One connection to one runner: aiohttp in, messages out. aiohttp is imported with the first connection."""

import json
import logging
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from soulsgui.errors import NotAllowedError, ServerTimeoutError, ServerUnreachableError, SoulsGuiError
from soulsgui.wire.api_client import COMMAND_TIMEOUT_S, CommandFailedError
from soulsgui.wire.control import (
    FEED_MESSAGE,
    PREFIX,
    ApiError,
    ControlFile,
    ErrorCode,
    FeedMessage,
    Hello,
    LogChange,
)

if TYPE_CHECKING:
    from aiohttp import ClientSession

logger = logging.getLogger(__name__)

HELLO_PATIENCE_S = 1.0
_PING_EVERY_S = 10.0
_MAX_MESSAGE_BYTES = 64 * 2**20


class WrongTokenError(NotAllowedError):
    """The runner doesn't know our token."""


class RunnerLink:
    """Speaks with one runner.

    Args:
        control: How to reach it.
    """

    def __init__(self, control: ControlFile) -> None:
        self.control = control
        self._session: ClientSession | None = None

    async def hello(self, patience_s: float = HELLO_PATIENCE_S) -> Hello:
        """Ask who answers.

        Raises:
            ServerUnreachableError: Nobody answers there, or something else than a runner.
            ServerTimeoutError: Somebody listens, but has not answered in time.
            WrongTokenError: It doesn't know our token.
            NotAllowedError: It refuses us.
        """
        answer = await self.command("server.hello", {}, patience_s)
        try:
            return Hello.model_validate(answer)
        except ValidationError as error:
            raise _no_runner(self.control) from error

    async def command(
        self, name: str, params: dict[str, Any], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> dict[str, Any]:
        """Carry out a command and return its result as plain data.

        Raises:
            CommandFailedError: The runner refused it, or it failed.
            ServerUnreachableError: Nobody answers.
            ServerTimeoutError: The answer did not come in time.
            WrongTokenError: It doesn't know our token.
            NotAllowedError: It refuses us.
        """
        import aiohttp

        url = f"{self.control.url}{PREFIX}/commands/{name}"
        try:
            async with self._opened().post(
                url, json=params, timeout=aiohttp.ClientTimeout(total=timeout_s)
            ) as response:
                status, answer = response.status, await response.json()
        except TimeoutError as error:
            message = f"The runner did not answer {name} within {timeout_s:g} s."
            raise ServerTimeoutError(message, "Look at its log on the page Logs.") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise _unreachable(self.control, error) from error
        if not isinstance(answer, dict):
            raise _unreachable(self.control, None)
        if status >= 400:
            raise _refusal(status, answer)
        result = answer.get("result")
        return result if isinstance(result, dict) else {}

    async def follow(self, cursor: int | None) -> AsyncGenerator[FeedMessage]:
        """Yield what the runner tells, until the connection ends.

        Args:
            cursor: The last message that was taken; None begins with a snapshot.

        Raises:
            ServerUnreachableError: The connection can't be made, or broke, or leads to something else than a
                runner.
        """
        import aiohttp

        url = f"{self.control.url}{PREFIX}/feed"
        params = {} if cursor is None else {"cursor": str(cursor)}
        try:
            async with self._opened().ws_connect(
                url, params=params, heartbeat=_PING_EVERY_S, max_msg_size=_MAX_MESSAGE_BYTES
            ) as socket:
                async for received in socket:
                    if received.type is aiohttp.WSMsgType.TEXT:
                        yield self._read(received.data)
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self.control, error) from error

    def _read(self, text: str) -> FeedMessage:
        try:
            return FEED_MESSAGE.validate_json(text)
        except ValidationError as error:
            # A newer runner tells what this window has never heard of: it counts as read, and says nothing.
            logger.info("a message of the runner was not understood: %s: %.200s", error.errors()[0], text)
        try:
            return LogChange(cursor=int(json.loads(text)["cursor"]), lines=[])
        except (ValueError, TypeError, KeyError) as error:
            raise _no_runner(self.control) from error

    async def close(self) -> None:
        """End every connection."""
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _opened(self) -> "ClientSession":
        import aiohttp

        if self._session is None:
            headers = {"Authorization": f"Bearer {self.control.token}"}
            self._session = aiohttp.ClientSession(headers=headers, trust_env=False)
        return self._session


def _unreachable(control: ControlFile, error: Exception | None) -> ServerUnreachableError:
    why = f" ({error})" if error is not None and str(error) else ""
    return ServerUnreachableError(f"No runner answers at {control.url}{why}.", "Start one.")


def _no_runner(control: ControlFile) -> ServerUnreachableError:
    return ServerUnreachableError(f"What answers at {control.url} is not a runner.", "Start one.")


def _refusal(status: int, answer: dict[str, Any]) -> SoulsGuiError:
    found = answer.get("error")
    try:
        error = ApiError.model_validate(found)
    except ValidationError:
        error = ApiError(code=ErrorCode.FAILED, message=json.dumps(answer)[:500])
    if status == 401:
        return WrongTokenError(error.message, error.remedy)
    if error.code == ErrorCode.NOT_ALLOWED and status == 403:
        return NotAllowedError(error.message, error.remedy)
    return CommandFailedError(error)
