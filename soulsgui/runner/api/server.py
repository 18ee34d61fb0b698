"""The control API of a runner: HTTP and WebSocket on loopback, for holders of its token."""

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from aiohttp import WSMsgType, web
from aiohttp.http import HttpProcessingError
from pydantic import ValidationError

from soulsgui.errors import NotAllowedError, SoulsGuiError
from soulsgui.runner.api.feed import Watcher
from soulsgui.runner.refusal import Result, as_api_error, bad_parameters, unknown_command
from soulsgui.system import free_port, who_connects, who_listens, why_no_commands
from soulsgui.wire import control
from soulsgui.wire.control import ErrorCode
from soulsgui.wire.http_guard import HttpGuard, why_refused

if TYPE_CHECKING:
    from soulsgui.runner.base import BaseRunner

logger = logging.getLogger(__name__)

HOST = "127.0.0.1"

_MAX_BODY_BYTES = 4 * 2**20
_HEARTBEAT_S = 20.0
_CURSOR_DIGITS = 20
_LONGEST_WISH_BYTES = 4096
_BAD_AGAIN_S = 60.0
_HTTP_STATUS = {
    ErrorCode.BAD_REQUEST: 400,
    ErrorCode.BAD_CONFIG: 422,
    ErrorCode.NOT_FOUND: 404,
    ErrorCode.NOT_NOW: 409,
    ErrorCode.NOT_ALLOWED: 403,
    ErrorCode.NOT_AGREED: 403,
    ErrorCode.NO_ANSWER: 504,
    ErrorCode.FAILED: 500,
}


class _BadRequests(logging.Filter):
    """Makes one line, now and then, of each traceback that aiohttp logs of a request that can't be read."""

    _said_at = float("-inf")

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, HttpProcessingError | ConnectionError):
            if record.created - self._said_at < _BAD_AGAIN_S:
                return False
            self._said_at, record.exc_info = record.created, None
            record.levelno, record.levelname = logging.WARNING, "WARNING"
            record.msg, record.args = "a request can't be read: %s", (" ".join(str(error).split()),)
        return True


logger.addFilter(_BadRequests())

_RequestHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class ControlServer:
    """The server of the control API."""

    def __init__(self, runner: "BaseRunner", token: str) -> None:
        self._runner = runner
        self.token = token
        self._site: web.TCPSite | None = None
        self._noting = asyncio.Lock()
        self.port = 0
        app = web.Application(middlewares=[self._guarded], client_max_size=_MAX_BODY_BYTES)
        app.router.add_get(f"{control.PREFIX}/status", self._status)
        app.router.add_post(control.PREFIX + "/commands/{name}", self._command)
        app.router.add_get(control.PREFIX + "/jobs/{id}", self._job)
        app.router.add_get(control.PREFIX + "/files/{id}", self._file)
        app.router.add_post(f"{control.PREFIX}/files", self._bring)
        app.router.add_get(f"{control.PREFIX}/feed", self._feed)
        self._app_runner = web.AppRunner(app, access_log=None, logger=logger, shutdown_timeout=1.0)
        self._guard = HttpGuard(self._app_runner)

    async def start(self, port: int, remembered: int = 0) -> None:
        """Listen."""
        await self._app_runner.setup()
        self._guard.open()
        for candidate in [port] if port else [remembered or free_port(HOST), free_port(HOST)]:
            self._site = web.TCPSite(self._app_runner, HOST, candidate)
            try:
                await self._site.start()
            except OSError:
                continue
            self.port = candidate
            return
        await self.close()
        raise SoulsGuiError(
            f"Port {port} of the control interface is taken by {who_listens(port) or 'another program'}.",
            f"End that program, or set control.port to {free_port(HOST)}, which is free (0 takes any).",
        )

    async def close(self) -> None:
        """Stop listening; requests under way are given a moment."""
        await self._guard.close()
        await self._app_runner.cleanup()

    @web.middleware
    async def _guarded(self, request: web.Request, handler: _RequestHandler) -> web.StreamResponse:
        refusal = why_refused(request.headers, self.token)
        if refusal is not None:
            return _not_allowed(*refusal)
        self._guard.known.add(request.protocol)
        try:
            return await handler(request)
        except web.HTTPException as error:
            code = ErrorCode.NOT_FOUND if error.status == 404 else ErrorCode.BAD_REQUEST
            return _failed(
                control.ApiError(code=code, message=f"{request.path}: {error.reason}"), error.status
            )

    async def _status(self, _request: web.Request) -> web.Response:
        return _json(self._runner.status().to_json())

    async def _job(self, request: web.Request) -> web.Response:
        job = self._runner.jobs.get(request.match_info["id"])
        if job is None:
            return _failed(control.ApiError(code=ErrorCode.NOT_FOUND, message="There is no such job."))
        return _json(job.to_json())

    async def _file(self, request: web.Request) -> web.StreamResponse:
        try:
            path = self._runner.jobs.files.get(request.match_info["id"])
        except SoulsGuiError as error:
            return _failed(as_api_error(error, request.path))
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote(path.name)}"}
        return web.FileResponse(path, headers=headers)

    async def _bring(self, request: web.Request) -> web.Response:
        try:
            stored = await self._runner.jobs.files.bring(request.content.iter_any())
        except Exception as error:
            return _failed(as_api_error(error, request.path))
        return _json(stored.to_json())

    async def _command(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        command = control.COMMANDS.get(name)
        if command is None:
            return _failed(as_api_error(unknown_command(name), name), 404)
        try:
            params = command.params.model_validate(_object(await request.read() or b"{}"))
        except ValidationError as error:
            return _failed(bad_parameters(error, name))
        except (ValueError, RecursionError) as error:
            message = f"{name}: the parameters are not a JSON object: {error}"
            return _failed(control.ApiError(code=ErrorCode.BAD_REQUEST, message=message))
        unlogged = command.reads or command.repeated
        entry, refused = (None, "") if unlogged else await self._begin_entry(request, name, params)
        text, refusal, result = "{}", None, None
        try:
            if refused:
                raise NotAllowedError(refused, "Give it in a terminal, or in the window.")
            result = await self._runner.command(name, params)
            text = result.to_json() if result is not None else text
        except Exception as error:
            refusal = as_api_error(error, name)
        if entry is not None:
            if isinstance(result, control.Job):
                self._runner.jobs.when_ended(result.id, partial(self._end_entry, entry))
            else:
                self._runner.audit.end(entry, refusal)
        return _failed(refusal) if refusal is not None else _json(f'{{"ok": true, "result": {text}}}')

    def _end_entry(self, entry: control.AuditEntry, job: control.Job) -> None:
        self._runner.audit.end(entry, job.error, job.state)

    async def _begin_entry(
        self, request: web.Request, name: str, params: control.Params
    ) -> tuple[control.AuditEntry, str]:
        """Begin the audit entry of a command, with the program that asks; and say why that may not."""
        host, port = (request.get_extra_info("peername") or ("", 0))[:2]
        services = self._runner.status(with_clients=False).services
        clients = [one.pid for one in services if one.kind == "client" and one.pid is not None]
        async with self._noting:  # one after the other: commands begin in the order in which they came
            pid, program = await asyncio.to_thread(who_connects, port)
            refused = await asyncio.to_thread(why_no_commands, pid, clients)
        origin = request.headers.get("User-Agent", "")
        return self._runner.audit.begin(name, params, origin, f"{host}:{port}", program), refused

    async def _feed(self, request: web.Request) -> web.StreamResponse:
        text = request.query.get("cursor", "")
        # Whatever was never a cursor of ours begins with a snapshot, as one that is no longer held does.
        ours = text.isascii() and text.isdigit() and len(text) <= _CURSOR_DIGITS
        socket = web.WebSocketResponse(
            heartbeat=_HEARTBEAT_S, compress=False, max_msg_size=_LONGEST_WISH_BYTES
        )
        await socket.prepare(request)
        watcher = Watcher()
        sending = asyncio.create_task(self._send(socket, int(text) if ours else None, watcher))
        try:
            async for received in socket:  # reading notices its end, too
                if received.type == WSMsgType.ERROR:
                    break
                if received.type == WSMsgType.TEXT and (wish := control.Watch.read(received.data)):
                    watcher.jobs = wish.watch
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
        return socket

    async def _send(self, socket: web.WebSocketResponse, cursor: int | None, watcher: Watcher) -> None:
        try:
            async with aclosing(self._runner.feed.follow(cursor, watcher)) as texts:
                async for text in texts:
                    await socket.send_str(text)
            await socket.close()
        except (ConnectionError, RuntimeError) as error:
            logger.debug("a window is gone: %s", error)


def _object(text: bytes) -> dict[str, Any]:
    found = json.loads(text)
    if not isinstance(found, dict):
        raise ValueError(f"it is a {type(found).__name__}")
    return found


def _json(text: str, status: int = 200) -> web.Response:
    return web.Response(text=text, status=status, content_type="application/json")


def _failed(error: control.ApiError, status: int | None = None) -> web.Response:
    body = json.dumps({"ok": False, "error": error.model_dump(mode="json")})
    return _json(body, _HTTP_STATUS[error.code] if status is None else status)


def _not_allowed(status: int, message: str) -> web.Response:
    remedy = "Use the token of control.json: soulsgui control --json"
    return _failed(control.ApiError(code=ErrorCode.NOT_ALLOWED, message=message, remedy=remedy), status)


Handler = Callable[..., Awaitable[Result]]
"""Carries out one command: `handler(runner, params)`, or of a job `handler(runner, params, job)`."""

Check = Callable[[Any, Any], object]
"""Raises why a runner can't carry out a command with these parameters now; returns where it can."""

# Whoever begins a run where one goes on is asked about that one first.
_ASKED: Mapping[str, control.Params] = {"run.start": control.RunStartParams(if_active="stop")}


class Permissions:
    """The checks of a runner; a status tells what commands would be refused with (`allowed`)."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        kinds: tuple[type[control.Params], ...] = (control.ServiceParams, control.ClientParams)
        self._of_one = [
            {name: check for name, check in checks.items() if issubclass(control.COMMANDS[name].params, kind)}
            for kind in kinds
        ]
        self._of_all = {
            name: check
            for name, check in checks.items()
            if not issubclass(control.COMMANDS[name].params, kinds)
        }

    def of_all(self, runner: object) -> dict[str, str]:
        """Return why each command about the whole would be refused now, empty where it would not."""
        return {
            name: _why(check, runner, _ASKED.get(name) or control.COMMANDS[name].params.model_construct())
            for name, check in self._of_all.items()
        }

    def of_service(self, runner: object, name: str) -> dict[str, str]:
        """Return the same for the commands about one service."""
        params = control.ServiceParams.model_construct(name=name)
        return {command: _why(check, runner, params) for command, check in self._of_one[0].items()}

    def of_client(self, runner: object, client: str) -> dict[str, str]:
        """Return what is refused about one client, by command; made for each client at every status."""
        params = control.ClientParams.model_construct(client=client)
        told = ((command, _why(check, runner, params)) for command, check in self._of_one[1].items())
        return {command: why for command, why in told if why}


def _why(check: Check, runner: object, params: control.Params) -> str:
    try:
        check(runner, params)
    except SoulsGuiError as error:
        return error.message
    except OSError as error:
        return str(error)
    return ""
