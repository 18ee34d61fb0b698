"""The errors this program raises on purpose: what happened, where, and what to do."""

DIVERGED = 6
"""Exit code of a trainer that goes on from its last checkpoint: no failure of the program."""


class SoulsGuiError(Exception):
    """Base of every error with a message meant for the user.

    Args:
        message: What happened, and where.
        remedy: What the user can do about it; shown on its own line.
    """

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}" if self.remedy else self.message


class UsageError(SoulsGuiError):
    """The command was called in a way that can't work."""

    exit_code = 2


class ServerUnreachableError(SoulsGuiError):
    """The runner or the Redis server can't be reached."""

    exit_code = 3


class NotAllowedError(SoulsGuiError):
    """The server knows us and says no: wrong token, wrong password, missing right."""

    exit_code = 4


class ServerTimeoutError(SoulsGuiError):
    """The server did not answer within the time given to it."""

    exit_code = 3


class ClientRegistrationError(SoulsGuiError):
    """The server refused this client: name in use, other contract, other protocol."""


class NotAgreedError(SoulsGuiError):
    """A server names code to which the owner of this computer has not agreed."""


class CheckpointError(SoulsGuiError):
    """A checkpoint is incomplete, damaged, or does not fit this run."""


class NoCheckpointError(CheckpointError):
    """The run has no such checkpoint."""


class CheckpointMisfitError(CheckpointError):
    """A checkpoint is whole, but was saved for something else than it is to go on with: it never fits."""

    exit_code = 2


class MemoryGoneError(CheckpointError):
    """A checkpoint is whole, but a part of its replay memory lay elsewhere and is gone."""


class StorageError(SoulsGuiError):
    """What has to be kept finds no room."""


class EnvironmentCheckError(SoulsGuiError):
    """The environment can't be made here, or its spaces are not supported."""

    exit_code = 2


class EnvironmentMissingError(EnvironmentCheckError):
    """What brings the environment is not installed on this computer."""


class EnvironmentFault(SoulsGuiError):
    """An environment that worked does so no more: it raised, hung, became too slow or ate the memory.

    Args:
        message: What happened.
        details: Where it happened: a traceback, several lines; may be empty.
    """

    def __init__(self, message: str, details: str = "") -> None:
        super().__init__(message, "See the traceback on the client's card and in its log.")
        self.details = details


class ProcessFault(EnvironmentFault):
    """A fault that only a new process mends."""


class ServiceError(SoulsGuiError):
    """A service could not be started or ended with a failure."""


class HardwareError(ServiceError):
    """The settings want hardware that this computer does not have."""

    exit_code = 2


LONGEST_TEXT = 500  # characters of a message of others that are kept, unless told otherwise

_SPACE = "\N{NO-BREAK SPACE}"  # harmless, and what keeps a number with its unit
_KEPT = "\n\t"


def printable(text: str, most: int | None = LONGEST_TEXT, lines: bool = False) -> str:
    """Return a text without anything that steers a terminal."""
    if most is not None and len(text) > most:
        text = f"{text[: most - 1]}…"
    if text.isprintable():
        return text
    kept = _SPACE + (_KEPT if lines else "")
    rest = text
    for harmless in kept:
        rest = rest.replace(harmless, "")
    if rest.isprintable():
        return text
    return "".join(one if one.isprintable() or one in kept else _instead(one) for one in text)


def counted(count: int, thing: str) -> str:
    """Return how many there are of something: `1 client`, `2,048 steps`."""
    return f"{count:,} {thing}" + ("" if count == 1 else "s")


def error_words(error: BaseException) -> str:
    """Return an exception of foreign code in words: `ValueError: bad`; also one that can't say itself."""
    try:
        said = str(error)
    except Exception as broken:
        said = f"(its words can't be read: {type(broken).__name__})"
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def _instead(one: str) -> str:
    return " " if one.isspace() else "\ufffd"
