"""One runner, here or reached by ssh: where it says it is, how it is started, and how it is spoken to.

aiohttp is imported with the first connection.
"""

import asyncio
import json
import logging
import subprocess
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote

from pydantic import ValidationError

from soulsgui.config.paths import Folders
from soulsgui.errors import (
    NotAllowedError,
    ServerTimeoutError,
    ServerUnreachableError,
    SoulsGuiError,
    StorageError,
)
from soulsgui.gui.text import first_mistake, size
from soulsgui.process import own_command, parse_line
from soulsgui.system import AtomicFile, explained, free_disk_bytes, hold_back, new_session_kwargs
from soulsgui.wire.api_client import COMMAND_TIMEOUT_S, CONTROL_FILE, CommandFailedError
from soulsgui.wire.control import (
    FEED_MESSAGE,
    PREFIX,
    ApiError,
    ControlFile,
    ErrorCode,
    FeedMessage,
    Hello,
    LogChange,
    StoredFile,
    Watch,
)

if TYPE_CHECKING:
    from aiohttp import ClientResponse, ClientSession, ClientTimeout, ClientWebSocketResponse

logger = logging.getLogger(__name__)

HELLO_TIMEOUT_S = 1.0
_PING_EVERY_S = 10.0
_MOST_BYTES = 16 * 2**20  # of an answer, or of one message of the feed
_NO_ANSWER = (ValueError, OverflowError, RuntimeError)
"""What reading something that is no answer of a runner may end with: numbers beyond all, deep nesting; and
one that ended in the middle, because the link was closed.
"""
_CHUNK_BYTES = 2**20
_CAUSE_LINES = 8
_TAIL_BYTES = 16 * 2**10


@dataclass(frozen=True)
class RunnerPlace:
    """One of the runners that this machine can have.

    Attributes:
        folder: Its folder.
        argv: The command line that starts it.
        nice: How far it lets other programs go before it, if a window starts it.
    """

    folder: Path
    argv: tuple[str, ...]
    nice: int = 0


def _place(folders: Folders, folder: Path, role: str, *words: str, nice: int = 0) -> RunnerPlace:
    where = ("--config-dir", str(folders.config), "--data-dir", str(folders.data))
    return RunnerPlace(folder, (*own_command(role), *words, *where), nice)


def server_place(folders: Folders) -> RunnerPlace:
    """Return the place of the runner of a server, which starts without a run."""
    # Its trainer and clients take all cores: this window, and whatever else is done here, would stutter.
    return _place(folders, folders.server, "serve", "--idle", nice=5)


def client_place(folders: Folders) -> RunnerPlace:
    """Return the place of the runner of client mode, which plays when told to and ends with the window."""
    return _place(folders, folders.client, "join", "--watched", "--idle")


def read_control(place: RunnerPlace) -> ControlFile | None:
    """Return how to reach a runner, None when none says so.

    Raises:
        NotAllowedError: The file is another user's.
    """
    path = place.folder / CONTROL_FILE
    try:
        return ControlFile.load(path)
    except ServerUnreachableError as error:
        if isinstance(error.__cause__, PermissionError):
            raise NotAllowedError(
                f"{path} belongs to another user.", "Use a data folder of your own: --data-dir DIR"
            ) from error
        return None


@dataclass
class StartedRunner:
    """A runner that this window started, and where its output goes."""

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
        """Return why it ended, in its own last words; how, where it had none."""
        said = "\n".join(self.lines()[-_CAUSE_LINES:])
        return said or f"It ended without a word, with exit code {self.process.poll()}."


def start_runner(place: RunnerPlace) -> StartedRunner:
    """Start a runner that outlives this window.

    Raises:
        OSError: It can't be started, or could say nothing: there is no room on the disk.
    """
    # It writes runner.log itself; this is for what it says before that, and for its last words.
    path = place.folder / "runner.out"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("wb", buffering=0) as log:
        try:
            log.write(b"\n")
        except OSError as error:
            error.filename = path
            raise
        process = subprocess.Popen(
            place.argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            **new_session_kwargs(),
        )
        if place.nice:
            hold_back(process.pid, nice=place.nice)
        return StartedRunner(process, path)


class WrongTokenError(NotAllowedError):
    """The runner doesn't know our token."""


class RunnerLink:
    """Speaks with one runner."""

    def __init__(self, control: ControlFile) -> None:
        self.control = control
        self._session: ClientSession | None = None
        self._socket: ClientWebSocketResponse | None = None
        self._watched = Watch(watch={})
        self._closed = False

    async def hello(self, timeout_s: float = HELLO_TIMEOUT_S) -> Hello:
        """Ask who answers; somebody else than a runner counts as nobody."""
        try:
            return Hello.model_validate(await self.command("server.hello", {}, timeout_s))
        except (ValidationError, CommandFailedError) as error:
            raise _no_runner(self.control) from error

    async def command(
        self, name: str, params: dict[str, Any], timeout_s: float = COMMAND_TIMEOUT_S
    ) -> dict[str, Any]:
        """Carry out a command and return its result as plain data.

        Raises:
            CommandFailedError: The runner refused it, or it failed.
            ServerUnreachableError: Nobody answers.
            ServerTimeoutError: The answer did not come in time.
            NotAllowedError: It refuses us; `WrongTokenError` where it doesn't know our token.
        """
        import aiohttp

        url = f"{self.control.url}{PREFIX}/commands/{name}"
        try:
            async with self._opened().post(
                url, json=params, timeout=aiohttp.ClientTimeout(total=timeout_s), allow_redirects=False
            ) as response:
                result = (await _read(response)).get("result")
        except TimeoutError as error:
            message = f"The runner did not answer {name} within {timeout_s:g} s."
            raise ServerTimeoutError(message, "Look at its log on the page Logs.") from error
        except (aiohttp.ClientError, OSError, *_NO_ANSWER) as error:
            raise _unreachable(self.control, error) from error
        return result if isinstance(result, dict) else {}

    async def download(
        self, stored: StoredFile, path: Path, told: Callable[[str], object] = lambda words: None
    ) -> dict[str, Any]:
        """Fetch a file that a job has made; what is there under its path is replaced once it is whole.

        Raises:
            CommandFailedError: There is no such file (any more), or it is longer than was told.
            StorageError: It can't be written here, or there is no room for it.
            ServerUnreachableError, NotAllowedError: As `command`.
        """
        import aiohttp

        url = f"{self.control.url}{PREFIX}/files/{quote(stored.id, safe='')}"
        whole = size(stored.size_bytes)
        try:
            if (free := free_disk_bytes(path)) < stored.size_bytes:
                what = f"{path} takes {whole}, and the disk has {size(free)} of free space."
                raise StorageError(what, "Free some space, or choose another place.")
            async with self._opened().get(
                url, timeout=_transfer_timeout(), allow_redirects=False
            ) as response:
                if response.status >= 300:
                    await _read(response)
                with AtomicFile(path) as file:
                    here = 0
                    async for chunk in response.content.iter_chunked(_CHUNK_BYTES):
                        here += len(chunk)
                        if here > stored.size_bytes:
                            what = f"What came of {stored.name} is longer than the {whole} that were told."
                            raise CommandFailedError(ApiError(code=ErrorCode.FAILED, message=what))
                        await asyncio.to_thread(file.write, chunk)
                        told(f"{size(here)} of {whole} are here")
                    await asyncio.to_thread(file.commit)
        except (aiohttp.ClientError, TimeoutError, *_NO_ANSWER) as error:
            raise _unreachable(self.control, error) from error
        except OSError as error:
            what = f"{path} can't be written: {explained(error)[0]}"
            raise StorageError(what, "Choose another place.") from error
        return {}

    async def upload(self, path: Path, told: Callable[[str], object] = lambda words: None) -> dict[str, Any]:
        """Bring a file to the runner and return its `StoredFile` as plain data.

        Raises:
            CommandFailedError: It has no room for it.
            StorageError: It can't be read.
            ServerUnreachableError, NotAllowedError: As `command`.
        """
        import aiohttp

        url = f"{self.control.url}{PREFIX}/files"
        try:
            with path.open("rb") as file:
                parts = _parts_of(file, path.stat().st_size, told)
                async with self._opened().post(
                    url, data=parts, timeout=_transfer_timeout(), allow_redirects=False
                ) as response:
                    return await _read(response)
        except (aiohttp.ClientError, TimeoutError, *_NO_ANSWER) as error:
            raise _unreachable(self.control, error) from error
        except OSError as error:
            what = f"{path} can't be read: {explained(error)[0]}"
            raise StorageError(what, "Choose another file.") from error

    async def follow(self, cursor: int | None) -> AsyncGenerator[FeedMessage]:
        """Yield what the runner tells after the message `cursor`, from a snapshot on where that is None."""
        import aiohttp

        url = f"{self.control.url}{PREFIX}/feed"
        params = {} if cursor is None else {"cursor": str(cursor)}
        try:
            async with self._opened().ws_connect(
                url, params=params, heartbeat=_PING_EVERY_S, max_msg_size=_MOST_BYTES
            ) as self._socket:
                await self.watch(self._watched.watch)
                async for received in self._socket:
                    if received.type is aiohttp.WSMsgType.TEXT:
                        yield self._read(received.data)
        except (aiohttp.ClientError, OSError) as error:
            raise _unreachable(self.control, error) from error
        finally:
            self._socket = None

    async def watch(self, watched: Mapping[str, float]) -> None:
        """Have pictures of these jobs, and of no others, sent with the feed."""
        self._watched = Watch(watch=dict(watched))
        with suppress(ConnectionError):  # who reads the feed notices its end
            if self._socket is not None:
                await self._socket.send_str(self._watched.to_json())

    def _read(self, text: str) -> FeedMessage:
        try:
            return FEED_MESSAGE.validate_json(text)
        except ValidationError as error:
            # A newer runner tells what this window has never heard of: it counts as read, and says nothing.
            logger.info("a message of the runner was not understood: %s: %.200s", first_mistake(error), text)
        try:
            return LogChange(cursor=int(json.loads(text)["cursor"]), lines=[])
        except (TypeError, KeyError, *_NO_ANSWER) as error:
            raise _no_runner(self.control) from error

    async def close(self) -> None:
        """End every connection, for good."""
        self._closed = True
        if self._session is not None:
            session, self._session = self._session, None
            await session.close()

    def _opened(self) -> "ClientSession":
        import aiohttp

        if self._closed:  # a call that was sent in this moment: nobody would close what it opens
            raise ServerUnreachableError("The connection ended.")
        if self._session is None:
            headers = {
                "Authorization": f"Bearer {self.control.token}",
                "User-Agent": "SoulsGUI window",
                "Accept-Encoding": "identity",
            }
            # Nothing is unpacked: a few packed bytes could become more than the window can hold.
            self._session = aiohttp.ClientSession(headers=headers, trust_env=False, auto_decompress=False)
        return self._session


async def _parts_of(file: BinaryIO, whole: int, told: Callable[[str], object]) -> AsyncGenerator[bytes]:
    while part := await asyncio.to_thread(file.read, _CHUNK_BYTES):
        yield part
        told(f"{size(file.tell())} of {size(whole)} are there")


def _transfer_timeout() -> "ClientTimeout":
    """Let a file take as long as it does, while something of it comes."""
    import aiohttp

    return aiohttp.ClientTimeout(total=None, sock_connect=HELLO_TIMEOUT_S, sock_read=COMMAND_TIMEOUT_S)


async def _read(response: "ClientResponse") -> dict[str, Any]:
    """Return an answer.

    Raises:
        CommandFailedError, NotAllowedError: It is a refusal, or longer than anything a runner answers.
        ValueError, RecursionError: It is none of a runner.
    """
    text = bytearray()
    async for part in response.content.iter_any():
        text += part
        if len(text) > _MOST_BYTES:
            message = f"What the server answered takes more than {size(_MOST_BYTES)}."
            raise CommandFailedError(ApiError(code=ErrorCode.FAILED, message=message))
    answer = json.loads(text)
    if not isinstance(answer, dict):
        raise ValueError("it is no object")
    if response.status >= 300:  # also one that sends us elsewhere: no runner does
        raise _refusal(response.status, answer)
    return answer


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
