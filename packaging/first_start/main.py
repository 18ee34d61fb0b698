"""From the command line to the running program."""

import argparse
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import FrameType

from first_start import plan, screen
from first_start.failure import SAME_COMMAND, SetupError
from first_start.progress import Console
from first_start.set_up import ensure
from first_start.steps import clean_environment
from first_start.venv import Venv

ROOT = Path(__file__).resolve().parents[2]
# The tests of one file share a server and stay together. They wait for half of their time: four processes
# keep two cores busy. In the order of their folders: files of few tests would else come last, and those have
# whole servers and windows: three of four processes would wait for the last of them.
_PROCESSES = min((os.cpu_count() or 1) * 2, 8)
_SIDE_BY_SIDE = ("-n", str(_PROCESSES), "--dist", "loadfile", "--no-loadscope-reorder")


def main(argv: Sequence[str], root: Path = ROOT) -> int:
    """Run one command of `bootstrap.py`.

    Args:
        argv: What was typed, without the name of the file.
        root: The folder of `pyproject.toml`.

    Returns:
        The exit code. On POSIX the program takes this process over, and with it the exit code.
    """
    own, extra = split_arguments(argv)
    parser = _parser()
    arguments = parser.parse_args(own)
    action, invitation = arguments.action, arguments.invitation
    if action == "setup" and extra:
        parser.error("setup starts nothing that could take arguments")
    if invitation and action != "client":
        parser.error(f"{action} takes no invitation")
    console, venv = Console(sys.stderr), Venv(root)
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        if wrong := plan.wrong_invitation(invitation):
            raise SetupError(wrong, "Give the .soulsgui file or the link you were sent, or ask for it again.")
        if plan.is_link(invitation):
            return _go_on_with_file(invitation, extra, venv)
        ensure(venv, plan.EXTRAS[action], console, os.environ)
        if action == "setup":
            return 0
        env = clean_environment(os.environ)
        if action == "test":
            return _run_tests(extra, venv, console, env)
        if action == "client":
            return _start_program(plan.join_arguments(invitation, extra), venv, env)
        return _start(extra, venv, console, env)
    except SetupError as error:
        console.say(f"\n{error.message}\n{error.remedy}")
        return 1
    except OSError as error:
        console.say(f"\n{error}\n{SAME_COMMAND}")
        return 1
    except KeyboardInterrupt:
        console.say("\nInterrupted. Type the same command again; it continues where it stopped.")
        return 130


def split_arguments(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """What is for the set-up and what, after the first `--`, for the program."""
    arguments = list(argv)
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bootstrap.py",
        description="Sets SoulsGUI up in .venv (once) and starts it.",
        epilog="What follows -- goes to the program or to pytest:  bootstrap.py -- status",
    )
    parser.add_argument(
        "action", nargs="?", choices=tuple(plan.EXTRAS), default="start", help="default: start"
    )
    parser.add_argument("invitation", nargs="?", default="", help="for client: the file or the link")
    return parser


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def _run_tests(extra: Sequence[str], venv: Venv, console: Console, env: dict[str, str]) -> int:
    env["QT_QPA_PLATFORM"] = "offscreen"
    # The tests start hundreds of processes; each would compile the program anew.
    env.pop("PYTHONDONTWRITEBYTECODE", None)
    screen.ensure_libraries({**env, "DISPLAY": ""}, sys.platform, console.say)
    os.chdir(venv.root)
    console.say("Running the tests. pytest collects them first: nothing is shown for up to a minute.")
    return _become([str(venv.python), "-m", "pytest", *_SIDE_BY_SIDE, *extra], env)


def _start(extra: Sequence[str], venv: Venv, console: Console, env: dict[str, str]) -> int:
    has_window = (venv.root / "soulsgui/gui/app.py").is_file()
    arguments = plan.program_arguments(extra, window=has_window and screen.has_screen(env, sys.platform))
    if arguments[0] == "gui":
        screen.ensure_libraries(env, sys.platform, console.say)
    elif arguments[: len(plan.DEMO)] == list(plan.DEMO):
        why = "There is no screen here. " if has_window else ""
        console.say(f"{why}Starting the demo: CartPole, PPO, until it is solved. Ctrl-C stops it.")
    return _start_program(arguments, venv, env)


def _go_on_with_file(link: str, extra: Sequence[str], venv: Venv) -> int:
    """Put a link, which holds a secret, into a private file, and go on under a command line that names that.

    Everybody on this machine sees command lines, and a set-up takes minutes.
    """
    venv.folder.mkdir(exist_ok=True)
    path = venv.folder / "invitation.soulsgui"
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(link)
    after = ["--", *extra] if extra else []
    command = [sys.executable, str(Path(sys.argv[0]).resolve()), "client", str(path), *after]
    return _become(command, os.environ)


def _start_program(arguments: Sequence[str], venv: Venv, env: dict[str, str]) -> int:
    # -P: what lies in the folder where the user happens to be is no part of the program.
    return _become([str(venv.python), "-P", "-m", "soulsgui", *arguments], env)


def _become(command: Sequence[str], env: Mapping[str, str]) -> int:
    """Hand over to the program; where a process can't be replaced, wait for it and pass its exit code on."""
    sys.stdout.flush()
    sys.stderr.flush()
    if sys.platform != "win32":
        os.execve(command[0], list(command), dict(env))
    child = subprocess.Popen(command, env=dict(env))
    while True:
        try:
            return child.wait()
        except KeyboardInterrupt:
            continue  # the program has had Ctrl-C too and ends in its own time
