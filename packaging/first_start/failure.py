"""What went wrong during the set-up, in words, with what to do about it."""

import platform
import re

SAME_COMMAND = "Then type the same command again; it continues where it stopped."


class SetupError(Exception):
    """The set-up can't go on.

    Args:
        message: What happened, and where.
        remedy: What to do about it.
    """

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class StepFailed(SetupError):
    """A command of the set-up failed; its output is in the log."""


# The first pattern that occurs decides: without a network pip ends with "No matching distribution" too.
_CAUSES = [
    (
        r"No space left on device|Errno 28|not enough space on the disk",
        "The disk is full.",
        "Free some space (set TMPDIR to another disk if it is the one of temporary files).",
    ),
    (
        r"CERTIFICATE_VERIFY_FAILED|SSLCertVerificationError",
        "The certificate of the package index is not trusted here (a company's proxy, or a wrong clock?).",
        "Check date and time; behind a proxy set PIP_CERT to the file with its certificate.",
    ),
    (
        r"NewConnectionError|NameResolutionError|ConnectTimeout|ReadTimeout|ProxyError|Max retries exceeded"
        r"|Network is unreachable|Name or service not known|name resolution|ConnectionReset|IncompleteRead",
        "The package index could not be reached: no connection to the internet, or a proxy is missing.",
        "Check the connection (behind a proxy set HTTPS_PROXY).",
    ),
    (
        r"No matching distribution found for ([\w.-]+)|The user requested \(constraint\) ([\w.-]+)==",
        "There is no build of {name} for this machine ({machine}).",
        "Use 64-bit Linux (glibc 2.34 or newer), Windows or macOS 14 with Python 3.11 to 3.13.",
    ),
    (
        r"Failed building wheel for ([\w.-]+)|Failed to build ([\w.-]+)",
        "There is no ready build of {name} for this machine ({machine}), and building it here failed.",
        "Use Python 3.11 to 3.13.",
    ),
    (
        r"Permission denied|Errno 13|WinError 5\b",
        "A file can't be written: it belongs to somebody else, or a program is using it.",
        "Stop SoulsGUI if it is running, or run this as the owner of the folder.",
    ),
]


def this_machine() -> str:
    """The machine as far as the choice of packages depends on it: "Linux x86_64, Python 3.11.2"."""
    return f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"


def explain(output: str, machine: str) -> StepFailed:
    """What the output of a failed step means.

    Args:
        output: Everything the step wrote.
        machine: `this_machine()`.
    """
    for pattern, message, remedy in _CAUSES:
        match = re.search(pattern, output)
        if match:
            name = next((group for group in match.groups() if group), "")
            return StepFailed(message.format(name=name, machine=machine), f"{remedy} {SAME_COMMAND}")
    return StepFailed(
        "A step of the set-up failed.", "Type the same command again; if it fails again, see the log."
    )
