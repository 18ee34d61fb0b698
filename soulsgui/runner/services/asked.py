"""A process of ours that is asked for one thing; it ends with whoever asked (`process.asked` is its half)."""

import asyncio
import json
import os
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import IO, Any

from soulsgui.errors import printable
from soulsgui.process import child_env
from soulsgui.system import kill_group, new_session_kwargs

_LONGEST_MESSAGE_BYTES = 2**26
_EXIT_LIMIT_S = 5.0
_LINES_SHOWN = 5


class AskedProcess:
    """What is being asked: messages of JSON, a line each, in both directions."""

    def __init__(self, process: asyncio.subprocess.Process, errors: IO[bytes]) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process, self._errors = process, errors
        self._input, self._output = process.stdin, process.stdout

    @property
    def code(self) -> int | None:
        """Its exit code, None while it runs."""
        return self._process.returncode

    def send(self, message: dict[str, Any]) -> None:
        """Tell it something."""
        self._input.write(json.dumps(message).encode() + b"\n")

    async def message(self) -> dict[str, Any]:
        """Return what it says next; nothing when it has ended, or says what is no message."""
        try:
            message = json.loads(await self._output.readline())
        except (ValueError, RecursionError):
            return {}
        return message if isinstance(message, dict) else {}

    async def last_words(self) -> str:
        """Let it end, and return what it wrote to standard error last."""
        await asyncio.wait({asyncio.ensure_future(self._process.wait())}, timeout=_EXIT_LIMIT_S)
        await self.end()
        self._errors.seek(0)
        said = printable(self._errors.read().decode(errors="replace"), None, lines=True)
        return "\n".join(said.strip().splitlines()[-_LINES_SHOWN:])

    async def end(self) -> None:
        """End it with all that it has started, unless it has ended."""
        if self._process.returncode is None:
            kill_group(self._process.pid)
            await self._process.wait()
        self._input.close()


@asynccontextmanager
async def asked_process(argv: Sequence[str], request: dict[str, Any]) -> AsyncIterator[AskedProcess]:
    """Start a process and ask it for something."""
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *argv,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=_LONGEST_MESSAGE_BYTES,
            env=os.environ | child_env(),
            **new_session_kwargs(),
        )
        asked = AskedProcess(process, errors)
        try:
            # Its input stays open: the end of that tells it that nobody waits for it any more.
            asked.send(request)
            yield asked
        finally:
            await asked.end()
