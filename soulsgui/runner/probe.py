"""Asks a process of its own what an environment looks like, so that it can harm nobody."""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from typing import Any

from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError
from soulsgui.printable import printable
from soulsgui.process import child_env, own_command
from soulsgui.system import kill_group, new_session_kwargs

Told = Callable[[str], object]
"""Takes what the check does at the moment, such as "step 3"."""

Probe = Callable[[Settings, Told], Awaitable[dict[str, Any]]]
"""Returns what a check of the environment of a configuration finds."""

_PLAYED_S = 10.0
_LOAD_LIMIT_S = 60.0
_EXIT_LIMIT_S = 5.0
_LINES_SHOWN = 5
_LONGEST_MESSAGE_BYTES = 2**26


async def probe_environment(settings: Settings, told: Told) -> dict[str, Any]:
    """Return what `environments.check.check` reports of the environment of a configuration.

    Raises:
        EnvironmentMissingError: It is not installed on this computer.
        EnvironmentCheckError: It can't be made, does not work, or is none for the algorithm or the network.
    """
    report = await examine(settings, told)
    problems = [str(problem) for problem in report.get("problems", [])]
    if problems or not report["spaces"]:
        found = "\n".join(problems) or "It has no spaces."
        kind = EnvironmentMissingError if report.get("missing") is True else EnvironmentCheckError
        raise kind(f"{settings.env.id} can't be trained on. {found}")
    if misfit := report.get("misfit"):
        raise EnvironmentCheckError(str(misfit["message"]), str(misfit["remedy"]))
    return report


async def examine(settings: Settings, told: Told) -> dict[str, Any]:
    """Return what `environments.check.check` and `environments.fit` report, whether it is good or bad.

    Args:
        settings: The configuration.
        told: Is told what the check does.

    Raises:
        EnvironmentCheckError: It could not be examined to the end.
    """
    env, client, network = settings.env, settings.client, settings.network
    request = env.model_dump(mode="json", include={"id", "kwargs", "wrappers"}) | {
        "learner": {"algorithm": settings.algorithm, "network": network.name, "channels": network.channels},
        "seconds": min(_PLAYED_S, client.hang_seconds),
        "step_s": client.step_seconds,
        "delay_s": client.step_delay,
    }
    with tempfile.TemporaryFile() as errors:
        process = await asyncio.create_subprocess_exec(
            *own_command("probe"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=errors,
            limit=_LONGEST_MESSAGE_BYTES,
            env=os.environ | child_env(),
            **new_session_kwargs(),
        )
        try:
            report = await _report(process, request, settings, told)
        finally:
            if process.returncode is None:
                kill_group(process.pid)
                await process.wait()
        if report is None:
            errors.seek(0)
            raise _unchecked(settings, _last_words(errors.read(), process.returncode))
    if not all(isinstance(report.get(name), dict | None) for name in ("spaces", "misfit")):
        raise _unchecked(settings, repr(report))
    return report


async def _report(
    process: asyncio.subprocess.Process, request: dict[str, Any], settings: Settings, told: Told
) -> dict[str, Any] | None:
    """Return the report; None when the process ends before, or says what it should not.

    Raises:
        EnvironmentCheckError: The environment hangs, or the check does not begin.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    client = settings.client
    doing, limit_s = "", _LOAD_LIMIT_S
    while True:
        try:
            line = await asyncio.wait_for(process.stdout.readline(), limit_s)
        except TimeoutError as error:
            if not doing:
                raise EnvironmentCheckError(
                    f"{settings.env.id} was not checked: its check had not begun after {limit_s:g} s.",
                    "Try again when this computer is less busy.",
                ) from error
            raise EnvironmentCheckError(
                f"{settings.env.id} hangs: {doing} takes longer than {limit_s:g} s.",
                "Mend it, or give it more time: client.hang_seconds.",
            ) from error
        message = _read(line)
        if "doing" not in message:
            break
        told(str(message["doing"]))
        doing = f"{message['doing']}{message.get('place', '')}"
        limit_s = client.hang_seconds + client.step_seconds + client.step_delay
    if not line:
        await asyncio.wait({asyncio.ensure_future(process.wait())}, timeout=_EXIT_LIMIT_S)
    report = message.get("report")
    return report if isinstance(report, dict) else None


def _read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return message if isinstance(message, dict) else {}


def _last_words(errors: bytes, code: int | None) -> str:
    lines = printable(errors.decode(errors="replace"), None, lines=True).strip().splitlines()
    said = "\n".join(lines[-_LINES_SHOWN:])
    return said or f"It ended the process it was tried in with exit code {code}, and said nothing."


def _unchecked(settings: Settings, why: str) -> EnvironmentCheckError:
    return EnvironmentCheckError(
        f"{settings.env.id} could not be checked:\n{why}", "Mend the environment, or choose another: env.id."
    )
