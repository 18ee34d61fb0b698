"""What can be typed. Nothing here is slow to import: a command's own module is imported when it is run."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soulsgui import __version__
from soulsgui.cli.declaring import (
    WHICH_RUN,
    CommandParser,
    Commands,
    add,
    add_from_table,
    commands_of,
    common_options,
    group,
    invitation_argument,
    json_option,
    local_clients_option,
    preset_option,
    run_name_option,
    server_file_option,
)


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


GROUPS = {
    "run a server": ("gui", "serve", "shutdown", "invite", "revoke", "config"),
    "watch and steer": ("status", "run", "quicksave", "runs", "checkpoints", "clients", "logs", "events"),
    "help a server": ("join", "client"),
    "tools": (
        "evaluate", "env", "control", "call", "redis", "trainer", "telemetry", "evaluator",
    ),
}  # fmt: skip
"""The commands as `soulsgui --help` shows them."""


def parse(argv: Sequence[str]) -> Arguments:
    """Take a command line apart; wrong use ends the process with code 2, help with 0."""
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
    _add_clients(commands)
    _add_looking(commands)
    _add_services(commands)
    parser.groups = GROUPS
    return parser


def _add_window(commands: Commands) -> None:
    window = add(commands, "gui", "roles:gui", "the window; what is started when no command is named")
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
    parsers = add_from_table(run, "run")
    for name in ("run.start", "run.resume"):
        parsers[name].set_defaults(handler="soulsgui.cli.remote:begin")
        local_clients_option(parsers[name])
    add_from_table(commands, "quicksave")


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
        help="its folder; or a run (id, its beginning, or name), RUN/CHECKPOINT, RUN/best; of the newest run "
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
        "local:show",
        "the effective configuration",
        examples=("config show ppo", "config show ppo.gamma --json", "config show --preset lunarlander_ppo"),
    )
    show.add_argument(
        "part", nargs="?", default="", metavar="SECTION", help="a section, or one setting; default: all"
    )
    check = add(config, "check", "local:check", "say what is wrong with it")
    diff = add(config, "diff", "local:diff", "what differs from the shipped settings")
    for command in (show, check, diff):
        preset_option(command)
        json_option(command)
    changing = add(
        config,
        "set",
        "local:change",
        "write settings into your config.yaml",
        examples=("config set ppo.gamma=0.98 clients.local=4", "config set 'network.hidden_sizes=[64, 64]'"),
    )
    changing.add_argument(
        "values", nargs="+", metavar="KEY=VALUE", help="a setting and its value, such as ppo.gamma=0.98"
    )


def _add_env(commands: Commands) -> None:
    env = group(commands, "env", "the environment that is played")
    check = add(env, "check", "evaluation:check", "make an environment, play it at random, and report")
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


def _add_clients(commands: Commands) -> None:
    """Add the commands about the clients of a server."""
    clients = group(commands, "clients", "everyone who plays for this server")
    json_option(add(clients, "list", "remote:clients", "list them"))
    add_from_table(clients, "clients")
    invite = add(
        commands,
        "invite",
        "inviting:invite",
        "let another computer play for this server",
        examples=("invite gamer-01", "invite gamer-01 --reissue --file /media/stick/gamer-01.soulsgui"),
    )
    invite.add_argument("client", metavar="NAME", help="its id, such as gamer-01")
    invite.add_argument(
        "--file", type=Path, metavar="PATH", help="where to write it; default: NAME.soulsgui, here"
    )
    invite.add_argument(
        "--reissue",
        action="store_true",
        help="it was invited before: end that, and invite it anew; default: refuse then",
    )
    json_option(invite)
    add_from_table(commands, "revoke")


def _add_services(commands: Commands) -> None:
    """Add the services of a server and of a game PC, each a process of its own."""
    add(commands, "redis", "roles:redis", "the Redis server alone, in the foreground")
    for name in ("trainer", "telemetry", "evaluator"):
        node = add(commands, name, f"roles:{name}", f"the {name} of a run alone, in the foreground")
        node.add_argument("--run", required=True, metavar="RUN", help="folder or id of the run")
        server_file_option(node)
        node.set_defaults(is_service=True)
        if name == "trainer":
            node.add_argument(
                "--checkpoint", type=Path, metavar="PATH", help="begin from it; default: the newest"
            )
    join = add(
        commands,
        "join",
        "roles:join",
        "let this computer play for a server; pause and stop that",
        examples=("join gamer-01.soulsgui", "join pause --for 30m", "join continue", "join stop"),
    )
    invitation_argument(
        join,
        "the one of last time, else the server that runs on this computer",
        "; or, from a second terminal, what to do with what plays here: pause, continue, stop, status",
    )
    join.add_argument(
        "--here",
        action="store_true",
        help="for the server that runs on this computer, now and later; default: as last time",
    )
    join.add_argument(
        "--name", default="", metavar="ID", help="its id; default: as invited, else the name of this machine"
    )
    join.add_argument(
        "--for",
        default="",
        dest="pause_for",
        metavar="TIME",
        help="with pause: how long, such as 30m or 2h; default: until `soulsgui join continue`",
    )
    join.add_argument(
        "--after-episode", action="store_true", help="with pause: finish the episode first; default: at once"
    )
    json_option(join)
    for hidden in ("--watched", "--idle"):
        join.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    client = add(
        commands,
        "client",
        "roles:client",
        "a sampling client, in the foreground",
        examples=("client --name second-player", "client --simulate 1000 --rate 100"),
    )
    client.set_defaults(is_service=True)
    invitation_argument(client, "none")
    client.add_argument(
        "--server",
        default="",
        metavar="HOST:PORT",
        help="a server on this machine; default: what --server-file says",
    )
    server_file_option(client)
    client.add_argument(
        "--name", default="", metavar="ID", help="its id; default: as invited, else the name of this machine"
    )
    client.add_argument(
        "--num-envs",
        type=int,
        metavar="N",
        help="environments side by side; default: env.num_envs of the run",
    )
    client.add_argument(
        "--workers",
        type=int,
        metavar="K",
        help="processes that they are spread over, 0 for none; default: client.workers of the run",
    )
    client.add_argument(
        "--episodes", type=int, metavar="N", help="stop after so many episodes; default: play on"
    )
    client.add_argument(
        "--simulate",
        type=int,
        metavar="N",
        help="be N clients that step no environment, to see what a server stands; the trainer learns from "
        "their random samples: use a run of its own; default: play",
    )
    client.add_argument(
        "--rate", type=float, default=100.0, metavar="R", help="of each: steps per second; default: 100"
    )
    client.add_argument("--state-dir", type=Path, help=argparse.SUPPRESS)
    add(commands, "probe", "roles:probe", "examine an environment", hidden=True)
    worker = add(commands, "worker", "roles:worker", "step environments for a client", hidden=True)
    worker.set_defaults(is_service=True)
    learner = add(commands, "learner", "roles:learner", "compute gradients for a trainer", hidden=True)
    learner.set_defaults(is_service=True)
    job = add(commands, "job", "roles:job", "do one piece of work for a service", hidden=True)
    job.set_defaults(is_service=True)
    job.add_argument("work", choices=["figure"])
    job.add_argument("run", type=Path, metavar="RUN_DIR")
    job.add_argument("--ahead", action="store_true")
