import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from soulsgui.errors import NotAllowedError, ServerUnreachableError
from soulsgui.system import free_port
from soulsgui.wire.api_client import ApiClient, CommandFailedError
from soulsgui.wire.control import ControlFile


def control(port: int) -> ControlFile:
    return ControlFile(port=port, token="secret", server_id="s", pid=1)


@contextmanager
def answering(status: int, body: bytes) -> Iterator[tuple[ApiClient, list[tuple[str, str, str, bytes]]]]:
    """A server that answers everything alike and remembers what it was asked."""
    asked: list[tuple[str, str, str, bytes]] = []

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            asked.append((self.command, self.path, self.headers["Authorization"], self.rfile.read(length)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = answer

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield ApiClient(control(server.server_port)), asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_command_brings_token_and_parameters_and_returns_the_result() -> None:
    with answering(200, b'{"ok": true, "result": {"count": 2}}') as (client, asked):
        assert client.command("service.local_clients", {"count": 2}) == {"count": 2}
        assert client.command("server.hello") == {"count": 2}
    (first, second) = asked
    assert first[:3] == ("POST", "/v1/commands/service.local_clients", "Bearer secret")
    assert json.loads(first[3]) == {"count": 2}
    assert json.loads(second[3]) == {}
    with answering(200, b'{"run": {}}') as (client, asked):
        assert client.status() == {"run": {}}
    assert asked[0][:2] == ("GET", "/v1/status")


EXIT_CODES = {"bad_request": 2, "bad_config": 2, "not_found": 1, "not_now": 1, "no_answer": 3, "failed": 1}


@pytest.mark.parametrize(("code", "exit_code"), EXIT_CODES.items())
def test_refusal_is_raised_with_message_remedy_and_exit_code(code: str, exit_code: int) -> None:
    body = json.dumps({"ok": False, "error": {"code": code, "message": "no", "remedy": "so"}}).encode()
    with answering(409, body) as (client, _), pytest.raises(CommandFailedError) as refusal:
        client.command("run.start")
    assert (refusal.value.message, refusal.value.remedy, refusal.value.exit_code) == ("no", "so", exit_code)


WRONG_TOKEN = b'{"ok": false, "error": {"code": "not_allowed", "message": "wrong token"}}'


@pytest.mark.parametrize(
    ("status", "body", "error", "words"),
    [
        (401, WRONG_TOKEN, NotAllowedError, "wrong token"),
        (500, b'{"oh": 1}', CommandFailedError, "oh"),
        *((200, body, ServerUnreachableError, ".") for body in (b"hello", b"[1]", b"")),
    ],
)
def test_what_is_no_answer_is_an_error_of_its_kind(
    status: int, body: bytes, error: type[Exception], words: str
) -> None:
    with answering(status, body) as (client, _), pytest.raises(error, match=words):
        client.status()


def test_nobody_there_and_missing_and_damaged_control_files_are_unreachable(tmp_path: Path) -> None:
    with pytest.raises(ServerUnreachableError, match="No runner answers"):
        ApiClient(control(free_port())).status()
    path = tmp_path / "control.json"
    with pytest.raises(ServerUnreachableError, match="missing"):
        ControlFile.load(path)
    path.write_text("{")
    with pytest.raises(ServerUnreachableError, match="damaged"):
        ControlFile.load(path)
