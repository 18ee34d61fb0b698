"""What can be typed. Nothing here is slow to import: a command's own module is imported when it is run."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soulsgui import __version__
from soulsgui.cli.client_commands import add_clients
from soulsgui.cli.declaring import (
    WHICH_RUN,
    CommandParser,
    Commands,
    add,
    commands_of,
    common_options,
    group,
    invitation_argument,
    json_option,
    local_clients_option,
    note_option,
    preset_option,
    run_name_option,
)
from soulsgui.cli.service_commands import add_services


class Arguments(argparse.Namespace):
    """A command line taken apart. Options of single commands are further attributes.

    Attributes:
        handler: `module:function` of what carries it out.
        config_dir: Folder of the user's settings; None takes the system's.
        data_dir: Folder of runs and server state; None takes the system's.
        assignments: Every `--set key=value`, in order.
        is_service: Whether it is a service of a server rather than a command for a person.
        words: The command line, as it was typed.
    """

    handler: str
    config_dir: Path | None
    data_dir: Path | None
    assignments: list[str]
    is_service: bool
    words: list[str]

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def parse(argv: Sequence[str]) -> Arguments:
    """Take a command line apart; wrong use ends the process with code 2, help with 0.

    Args:
        argv: The command line without the program's name.
    """
    # The common options may stand anywhere, also before the command.
    found = Arguments(config_dir=None, data_dir=None, assignments=[], is_service=False, words=list(argv))
    _, rest = common_options().parse_known_args(argv, namespace=found)
    if not rest or rest[0] == "--mode" or _is_invitation(rest[0]):
        # Whoever names no command wants to see something.
        rest = ["gui", *rest]
    return _parser().parse_args(rest, namespace=found)


def _is_invitation(word: str) -> bool:
    """Whether somebody opened an invitation: a desktop names no command."""
    return word.lower().startswith("soulsgui:") or word.lower().endswith(".soulsgui")


def _parser() -> argparse.ArgumentParser:
    parser = CommandParser(
        prog="soulsgui",
        description="Distributed reinforcement learning: one server trains, many clients sample.",
        epilog="Every command takes --config-dir DIR, --data-dir DIR and --set KEY=VALUE.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"soulsgui {__version__}")
    commands = commands_of(parser)
    _add_window(commands)
    _add_server(commands)
    _add_run(commands)
    _add_library(commands)
    _add_config(commands)
    _add_env(commands)
    add_clients(commands)
    _add_looking(commands)
    add_services(commands)
    return parser


def _add_window(commands: Commands) -> None:
    window = add(commands, "gui", "window:gui", "the window; what is started when no command is named")
    invitation_argument(window, "none")
    window.add_argument(
        "--mode", choices=["server", "client"], help="the side to show; default: as last time"
    )


def _add_server(commands: Commands) -> None:
    serve = add(
        commands,
        "serve",
        "roles:serve",
        "run a server: Redis, the control API, and a run",
        examples=(
            "serve --set stop.mean_return=475 --local-clients 2 --until-done",
            "serve --preset lunarlander_ppo --until-done --json",
            "serve --resume latest --set stop.env_steps=2000000",
            "serve --idle",
        ),
    )
    serve.add_argument("--idle", action="store_true", help="start no run; default: start one")
    preset_option(serve)
    serve.add_argument(
        "--resume",
        default="",
        metavar="RUN",
        help="go on with a run, or with `latest`, and with what --set may change of it; default: begin a "
        "new one",
    )
    run_name_option(serve)
    local_clients_option(serve)
    serve.add_argument(
        "--until-done",
        action="store_true",
        help="end when the run has reached its goal; default: go on until stopped",
    )
    json_option(serve)
    status = add(commands, "status", "remote:status", "what the server does at this moment")
    json_option(status)
    status.add_argument("--watch", action="store_true", help="show it again every second; default: once")
    shutdown = add(commands, "shutdown", "remote:shutdown", "end the clients, the run, or the whole server")
    shutdown.add_argument(
        "what",
        nargs="?",
        choices=["clients", "run", "server"],
        default="server",
        help="what to end: clients, run or server; default: server",
    )
    control = add(commands, "control", "remote:control", "port and token of the control API")
    json_option(control)
    call = add(
        commands,
        "call",
        "remote:call",
        "any command of the control API; its answer as JSON",
        examples=("call runs.list", "call service.local_clients '{\"count\": 4}'"),
    )
    call.add_argument("name", metavar="GROUP.COMMAND", help="its name, such as run.start")
    call.add_argument("params", nargs="?", default="{}", metavar="JSON", help="its parameters; default: {}")


def _add_run(commands: Commands) -> None:
    run = group(commands, "run", "begin, continue and end the run of the server")
    start = add(
        run,
        "start",
        "remote:run_start",
        "begin a new run",
        examples=("run start --name first", "run start --preset pendulum_sac --local-clients 1"),
    )
    preset_option(start)
    run_name_option(start)
    local_clients_option(start)
    note_option(start)
    resume = add(
        run,
        "resume",
        "remote:run_resume",
        "go on with a run as a new attempt",
        examples=("run resume", "run resume 2026-11-20_10-00-00_first --set stop.env_steps=2000000"),
    )
    resume.add_argument("run", nargs="?", default="latest", metavar="RUN", help=WHICH_RUN)
    resume.add_argument(
        "--checkpoint", default="", metavar="ID", help="a checkpoint of it; default: the newest"
    )
    local_clients_option(resume)
    resume.add_argument("--without-goal", action="store_true", help="leave its goals out; default: keep them")
    for command in (start, resume):
        command.add_argument(
            "--stop-active",
            action="store_true",
            help="stop the run that goes on first; default: refuse while one goes on",
        )
    add(run, "stop", "remote:run_stop", "save and end the run")
    add(run, "pause", "remote:run_pause", "let the run rest, with everything kept")
    add(run, "continue", "remote:run_continue", "let a paused run go on")
    save = add(commands, "quicksave", "remote:quicksave", "save a checkpoint now")
    note_option(save)
    save.add_argument(
        "--buffer",
        action="store_true",
        help="with the replay memory, where there is one; it may be large; default: without",
    )
    json_option(save)


def _add_library(commands: Commands) -> None:
    checkpoints = group(commands, "checkpoints", "the checkpoints of runs")
    listing = add(checkpoints, "list", "local:checkpoints", "list and verify the checkpoints of a run")
    listing.add_argument("run", nargs="?", default="latest", metavar="RUN", help=WHICH_RUN)
    json_option(listing)
    _add_evaluate(commands)
    runs = group(commands, "runs", "the runs in the data folder")
    json_option(add(runs, "list", "local:runs", "list the runs"))


def _add_evaluate(commands: Commands) -> None:
    evaluate = add(
        commands,
        "evaluate",
        "evaluation:evaluate",
        "play episodes with a checkpoint",
        examples=(
            "evaluate",
            "evaluate best --episodes 100 --json",
            "evaluate 2026-11-20_10-00-00_first/best",
        ),
    )
    evaluate.add_argument(
        "checkpoint",
        nargs="?",
        default="latest",
        metavar="CHECKPOINT",
        help="its folder; or a run (id, or how it begins), RUN/CHECKPOINT, RUN/best; of the newest run "
        "latest, best, or what `checkpoints list` shows; default: latest",
    )
    evaluate.add_argument(
        "--episodes", type=int, default=20, metavar="N", help="how many to play; default: 20"
    )
    evaluate.add_argument(
        "--seed", type=int, default=0, metavar="S", help="seed of the first episode; default: 0"
    )
    evaluate.add_argument(
        "--stochastic",
        action="store_true",
        help="draw actions from what the policy says; default: take the best ones",
    )
    json_option(evaluate)


def _add_config(commands: Commands) -> None:
    config = group(commands, "config", "your settings")
    show = add(
        config,
        "show",
        "settings:show",
        "the effective configuration",
        examples=("config show ppo", "config show ppo.gamma --json", "config show --preset lunarlander_ppo"),
    )
    show.add_argument(
        "part", nargs="?", default="", metavar="SECTION", help="a section, or one setting; default: all"
    )
    check = add(config, "check", "settings:check", "say what is wrong with it")
    diff = add(config, "diff", "settings:diff", "what differs from the shipped settings")
    for command in (show, check, diff):
        preset_option(command)
        json_option(command)
    changing = add(
        config,
        "set",
        "settings:change",
        "write settings into your config.yaml",
        examples=("config set ppo.gamma=0.98 clients.local=4", "config set 'network.hidden_sizes=[64, 64]'"),
    )
    changing.add_argument(
        "values", nargs="+", metavar="KEY=VALUE", help="a setting and its value, such as ppo.gamma=0.98"
    )


def _add_env(commands: Commands) -> None:
    env = group(commands, "env", "the environment that is played")
    check = add(env, "check", "environments:check", "make an environment, play it at random, and report")
    check.add_argument(
        "env_id", nargs="?", default="", metavar="ID", help="its id; default: env.id of your settings"
    )
    preset_option(check)
    json_option(check)


def _add_looking(commands: Commands) -> None:
    logs = add(
        commands,
        "logs",
        "local:logs",
        "the log of a service: trainer, redis, runner, client-1 ...",
        examples=("logs trainer", "logs runner -n 200 --follow"),
    )
    logs.add_argument(
        "service", metavar="SERVICE", help="whose: runner, redis, trainer, telemetry, client-1 ..."
    )
    logs.add_argument("--run", default="latest", metavar="RUN", help=WHICH_RUN)
    logs.add_argument("-n", type=int, default=50, metavar="LINES", help="how many lines; default: 50")
    logs.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="go on with what is written from now on; default: end after the last line",
    )
    events = add(commands, "events", "local:events", "what happened on this server")
    events.add_argument(
        "--since", type=int, default=0, metavar="NUMBER", help="those after this number; default: 0, all"
    )
    json_option(events)
