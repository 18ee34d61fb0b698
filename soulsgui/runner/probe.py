"""Asks a process of its own what an environment looks like, so that it can harm nobody."""

import asyncio
import json
import os
from typing import Any

from soulsgui.config.schema import Settings
from soulsgui.errors import EnvironmentCheckError, EnvironmentMissingError
from soulsgui.printable import printable
from soulsgui.process import child_env, own_command
from soulsgui.system import kill_group, new_session_kwargs

TIMEOUT_S = 60.0
_LINES_SHOWN = 5


async def probe_environment(settings: Settings) -> dict[str, Any]:
    """Return what `environments.check.check` reports of the environment of a configuration.

    Raises:
        EnvironmentMissingError: It is not installed on this computer.
        EnvironmentCheckError: It can't be made, does not work, or is none for the algorithm or the network.
    """
    report = await examine(settings)
    problems = [str(problem) for problem in report.get("problems", [])]
    if problems or not report["spaces"]:
        found = "\n".join(problems) or "It has no spaces."
        kind = EnvironmentMissingError if report.get("missing") is True else EnvironmentCheckError
        raise kind(f"{settings.env.id} can't be trained on. {found}")
    if misfit := report.get("misfit"):
        raise EnvironmentCheckError(str(misfit["message"]), str(misfit["remedy"]))
    return report


async def examine(settings: Settings) -> dict[str, Any]:
    """Return what `environments.check.check` and `environments.fit` report, whether it is good or bad.

    Raises:
        EnvironmentCheckError: It could not be examined to the end.
    """
    env = settings.env.model_dump(mode="json")
    network = settings.network
    learner = {"algorithm": settings.algorithm, "network": network.name, "channels": network.channels}
    wanted = {name: env[name] for name in ("id", "kwargs", "wrappers")}
    request = json.dumps(wanted | {"learner": learner})
    process = await asyncio.create_subprocess_exec(
        *own_command("probe"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=os.environ | child_env(),
        **new_session_kwargs(),
    )
    try:
        output, errors = await asyncio.wait_for(process.communicate(request.encode()), TIMEOUT_S)
    except TimeoutError as error:
        raise EnvironmentCheckError(
            f"{settings.env.id} did not answer within {TIMEOUT_S:.0f} s of its first steps.",
            "Try it in Python: gymnasium.make(...), reset(), step().",
        ) from error
    finally:
        if process.returncode is None:
            kill_group(process.pid)
            await process.wait()
    return _report(settings, output, errors, process.returncode)


def _report(settings: Settings, output: bytes, errors: bytes, code: int | None) -> dict[str, Any]:
    try:
        report = json.loads(output)
    except (ValueError, RecursionError) as error:
        last = "\n".join(
            printable(errors.decode(errors="replace"), None, lines=True).strip().splitlines()[-_LINES_SHOWN:]
        )
        last = last or f"It ended the process it was tried in with exit code {code}, and said nothing."
        raise EnvironmentCheckError(
            f"{settings.env.id} could not be checked:\n{last}",
            "Mend the environment, or choose another: env.id.",
        ) from error
    if not isinstance(report, dict) or not all(
        isinstance(report.get(name), dict | None) for name in ("spaces", "misfit")
    ):
        raise EnvironmentCheckError(f"{settings.env.id} could not be checked: {report!r}")
    return report
