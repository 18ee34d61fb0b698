"""Refusals of commands, and every error as the answer the control API gives."""

import difflib
import logging

import redis
from pydantic import ValidationError

from soulsgui.config.errors import MOST_TOLD, ConfigError, reason_of
from soulsgui.errors import (
    EnvironmentCheckError,
    NoCheckpointError,
    NotAllowedError,
    ServerTimeoutError,
    ServerUnreachableError,
    SoulsGuiError,
    UsageError,
)
from soulsgui.runner.run.agreed import RunNotAgreedError
from soulsgui.system import explained
from soulsgui.wire.connection import disk_full, memory_full
from soulsgui.wire.control import COMMANDS, ApiError, ErrorCode
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)


Result = Message | None  # what a command answers; None for nothing but that it is done


class Refused(SoulsGuiError):
    """A command can't be carried out."""

    def __init__(self, code: ErrorCode, message: str, remedy: str = "") -> None:
        super().__init__(message, remedy)
        self.code = code


def unknown_command(name: str, typed: str = "") -> UsageError:
    """Return the error of a command that there is not, with what is typed instead, or those most like it."""
    near = [typed] if typed else difflib.get_close_matches(name.casefold(), COMMANDS)
    meant = f"Did you mean {', '.join(near)}? " if near else ""
    return UsageError(f"There is no command “{name}”.", f"{meant}All of them: docs/api.md")


def no_run() -> Refused:
    """Return the refusal of what needs a run."""
    return Refused(ErrorCode.NOT_NOW, "No run is active.", "Start one: soulsgui run start")


_CODES: list[tuple[type[SoulsGuiError], ErrorCode]] = [
    (ConfigError, ErrorCode.BAD_CONFIG),
    (EnvironmentCheckError, ErrorCode.BAD_CONFIG),
    (NoCheckpointError, ErrorCode.NOT_FOUND),
    (UsageError, ErrorCode.BAD_REQUEST),
    (NotAllowedError, ErrorCode.NOT_ALLOWED),
    (RunNotAgreedError, ErrorCode.NOT_AGREED),
    (ServerUnreachableError, ErrorCode.NO_ANSWER),
    (ServerTimeoutError, ErrorCode.NO_ANSWER),
]


def as_api_error(error: Exception, command: str) -> ApiError:
    """Return the control API's answer for an error; an unforeseen one is logged with its traceback."""
    if isinstance(error, SoulsGuiError):
        code = next((code for kind, code in _CODES if isinstance(error, kind)), ErrorCode.FAILED)
        code = error.code if isinstance(error, Refused) else code
        asks = error.asks if isinstance(error, RunNotAgreedError) else None
        told = error.problems[:MOST_TOLD] if isinstance(error, ConfigError) else ()
        mistakes = {one.key: one.reason for one in told if one.key}
        return ApiError(code=code, message=error.message, remedy=error.remedy, asks=asks, mistakes=mistakes)
    if isinstance(error, ValidationError):
        return bad_parameters(error, command)
    name, code = f"{type(error).__name__}: {error}", ErrorCode.NO_ANSWER
    if disk_full(error):
        what = "Redis refuses to write: the disk is full."
        remedy = "Free some space on the disk of the data folder, then try again."
    elif memory_full(error):
        what = "Redis refuses to write: its memory is full."
        remedy = "Raise redis.max_memory, or stop what fills it, then try again."
    elif isinstance(error, (redis.RedisError, ConnectionError, TimeoutError)):
        what = f"Redis does not answer ({name})."
        remedy = "Look at the redis service's log, then try again."
    elif isinstance(error, OSError):
        code, (what, remedy) = ErrorCode.FAILED, explained(error)
        remedy = remedy or "Check the permissions of this file or folder, and the free space of its disk."
    else:
        logger.error("%s failed", command, exc_info=error)
        remedy = "The runner's log holds the details: soulsgui logs runner"
        failed = f"{command} failed inside the runner: {name}"
        return ApiError(code=ErrorCode.FAILED, message=failed, remedy=remedy)
    return ApiError(code=code, message=what, remedy=remedy)


def bad_parameters(error: ValidationError, command: str) -> ApiError:
    """Return the answer to parameters that do not fit a command: each field with its reason."""
    reasons = []
    for detail in error.errors(include_url=False):
        field = ".".join(str(part) for part in detail["loc"])
        reasons.append(f"{field}: {reason_of(detail)}" if field else reason_of(detail))
    return ApiError(
        code=ErrorCode.BAD_REQUEST,
        message=f"{command}: {'; '.join(reasons)}",
        remedy="Correct the parameters and try again.",
    )
