"""Standard output, and the folders a command line names."""

import json
import shutil
import sys
import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders, default_config_dir, default_data_dir
from soulsgui.errors import UsageError, printable

if TYPE_CHECKING:
    from soulsgui.runner.run.agreed import RunNotAgreedError
    from soulsgui.wire.api_client import CommandFailedError
    from soulsgui.wire.control import LogLine
    from soulsgui.wire.messages.server_config import Execution


def say(text: str, stream: TextIO | None = None) -> None:
    """Write lines to standard output, or there; what others wrote in them can't steer the terminal."""
    stream = sys.stdout if stream is None else stream
    if stream is not None:  # it was closed before we began: `>&-`
        stream.write(f"{printable(text, None, lines=True)}\n")


def show_progress(doing: str) -> None:
    """Show progress in place of the line before, on a terminal only."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{printable(doing)}")
        sys.stderr.flush()


def say_json(document: Any) -> None:
    """Write one JSON document, which may hold messages of ours, to standard output."""
    say(json.dumps(document, indent=2, default=lambda message: message.model_dump(mode="json")))


def answer(arguments: Arguments, document: Any, text: str) -> int:
    """Write what a command found: a JSON document with `--json`, else words; return the exit code."""
    if arguments.as_json:
        say_json(document)
    elif text:
        say(text)
    return 0


def room() -> int | None:
    """Return the terminal's width in characters; None where output is no terminal."""
    return shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else None


def warn_without_effect(keys: Collection[str], algorithm: Callable[[], str]) -> None:
    """Say on standard error which settings are of another algorithm than the one that learns."""
    from soulsgui.config.schema import SECTIONS_OF_ALGORITHMS, without_effect

    if any(key.startswith(tuple(f"{name}." for name in SECTIONS_OF_ALGORITHMS)) for key in keys):
        words = without_effect(keys, algorithm())
        if words:
            say(words, sys.stderr)


def execution_text(execution: "Execution", **more: str) -> str:
    """Return what a server or a run executes, and more about it, a line for each part."""
    told = execution.words() | more
    return "\n".join(f"  {title.replace('_', ' ')}: {value}" for title, value in told.items())


def yes(question: str) -> bool:
    """Whether somebody at the terminal types a yes."""
    say(f"{question} [y/N]")
    return sys.stdin is not None and sys.stdin.readline().strip().lower() in ("y", "yes")


def agrees(error: "RunNotAgreedError | CommandFailedError") -> str:
    """Return the digest of what somebody at the terminal lets a run from elsewhere execute, or nothing."""
    asks = error.asks
    if asks is None or asks.too_long or sys.stdin is None or not sys.stdin.isatty():
        return ""
    say(f"As far as SoulsGUI knows, this run was not started here. It wants to run:\n{execution_text(asks)}")
    return asks.digest if yes("Run it here?") else ""


def check_target(path: Path, option: str) -> None:
    """Refuse what no file can be written to, before the work for it is done."""
    if path.is_dir():
        raise UsageError(f"{path} is a folder.", f"Give a file in it: {option} {path / 'NAME'}")
    if not path.parent.is_dir():
        raise UsageError(f"There is no folder {path.parent}.", f"Choose another place: {option} FILE")


def folders_of(arguments: Arguments) -> Folders:
    """Return the folders of a command."""
    config, data = arguments.config_dir or default_config_dir(), arguments.data_dir or default_data_dir()
    for path, option in ((config, "--config-dir"), (data, "--data-dir")):
        try:
            str(path.absolute()).encode()
        except UnicodeEncodeError as error:  # it stands in files of ours
            raise UsageError(
                f"The name of the folder {printable(str(path.absolute()))} is not valid UTF-8.",
                f"Choose another: {option} DIR",
            ) from error
    return Folders(config.absolute(), data.absolute())


def log_line(line: "LogLine") -> str:
    """Return a line of a log as it is printed."""
    return line.text if line.time is None else f"{moment(line.time)} {line.level.upper()} {line.text}"


def moment(seconds: float) -> str:
    """Return a time of the clock here, from seconds since the epoch."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
