"""What can be typed. Nothing here is slow to import: a command's own module is imported when it is run."""

import argparse
import difflib
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from soulsgui import __version__


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


_HERE = "soulsgui.cli"

_NO_COMMAND = "the following arguments are required: COMMAND"
_WRONG_COMMAND = re.compile(r"argument COMMAND: invalid choice: '(.*?)' \(")

_WHICH_RUN = "id of the run, or how it begins; default: latest"

Commands = Any
"""The object argparse makes subcommands with; it has no public name."""


class _Parser(argparse.ArgumentParser):
    """Says what could have been meant, and shows its help where a command is missing.

    Attributes:
        shown: The commands it shows; others exist.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.shown: list[str] = []

    def error(self, message: str) -> NoReturn:
        """End the process with code 2, saying what is wrong."""
        if message == _NO_COMMAND:
            self.print_help(sys.stderr)
            self.exit(2)
        wrong = _WRONG_COMMAND.match(message)
        if wrong is not None:
            near = difflib.get_close_matches(wrong[1], self.shown, n=1, cutoff=0.5)
            hint = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(self.shown)}."
            message = f"{wrong[1]!r} is no command. {hint}"
        super().error(message)


def parse(argv: Sequence[str]) -> Arguments:
    """Take a command line apart; wrong use ends the process with code 2, help with 0.

    Args:
        argv: The command line without the program's name.
    """
    # The common options may stand anywhere, also before the command.
    found = Arguments(config_dir=None, data_dir=None, assignments=[], is_service=False, words=list(argv))
    _, rest = _common().parse_known_args(argv, namespace=found)
    if not rest or rest[0] == "--mode" or _is_invitation(rest[0]):
        # Whoever names no command wants to see something.
        rest = ["gui", *rest]
    return _parser().parse_args(rest, namespace=found)


def _is_invitation(word: str) -> bool:
    """Whether somebody opened an invitation: a desktop names no command."""
    return word.lower().startswith("soulsgui:") or word.lower().endswith(".soulsgui")


def _common() -> argparse.ArgumentParser:
    # Without defaults of its own: as a parent it would undo what stood before the command.
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, argument_default=argparse.SUPPRESS)
    group = parser.add_argument_group("everywhere")
    group.add_argument(
        "--config-dir",
        type=Path,
        metavar="DIR",
        help="folder of your settings; default: your system's place for them",
    )
    group.add_argument(
        "--data-dir",
        type=Path,
        metavar="DIR",
        help="folder of runs and server state; default: your system's place for them",
    )
    group.add_argument(
        "--set",
        action="append",
        dest="assignments",
        metavar="KEY=VALUE",
        help="a setting that wins over every file; may be repeated; default: none",
    )
    return parser


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="soulsgui",
        description="Distributed reinforcement learning: one server trains, many clients sample.",
        epilog="Every command takes --config-dir DIR, --data-dir DIR and --set KEY=VALUE.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"soulsgui {__version__}")
    commands = _commands_of(parser)
    _add_window(commands)
    _add_server(commands)
    _add_run(commands)
    _add_library(commands)
    _add_config(commands)
    _add_env(commands)
    _add_clients(commands)
    _add_looking(commands)
    _add_services(commands)
    return parser


def _add(
    commands: Commands, name: str, handler: str, text: str, hidden: bool = False
) -> argparse.ArgumentParser:
    shown = {} if hidden else {"help": text}
    parser: argparse.ArgumentParser = commands.add_parser(
        name, description=text, allow_abbrev=False, parents=[_common()], **shown
    )
    parser.set_defaults(handler=f"{_HERE}.{handler}")
    if not hidden:
        commands.shown.append(name)
    return parser


def _group(commands: Commands, name: str, text: str) -> Commands:
    parser = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
    commands.shown.append(name)
    return _commands_of(parser)


def _commands_of(parser: _Parser) -> Commands:
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)
    # One list for both: whoever adds a command also tells the parser what it may name.
    commands.shown = parser.shown  # type: ignore[attr-defined]
    return commands


def _json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--json",
        action="store_true",
        dest="as_json",
        help="one JSON document on standard output; default: words",
    )


def _preset(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--preset", default="", metavar="NAME", help="a preset below your own settings; default: none"
    )


def _run_name(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--name", default="", metavar="TEXT", help="name of the new run; default: date and time alone"
    )


def _local_clients(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--local-clients", type=int, metavar="N", help="clients on this machine; default: clients.local"
    )


def _note(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--note", default="", metavar="TEXT", help="your own words about it; default: none")


def _server_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--server-file",
        type=Path,
        metavar="FILE",
        help="the file that tells where the server is; default: that of the runner of --data-dir",
    )


def _add_window(commands: Commands) -> None:
    window = _add(commands, "gui", "window:gui", "the window; what is started when no command is named")
    _invitation(window, "none")
    window.add_argument(
        "--mode", choices=["server", "client"], help="the side to show; default: as last time"
    )


def _add_server(commands: Commands) -> None:
    serve = _add(commands, "serve", "roles:serve", "run a server: Redis, the control API, and a run")
    serve.add_argument("--idle", action="store_true", help="start no run; default: start one")
    _preset(serve)
    serve.add_argument(
        "--resume",
        default="",
        metavar="RUN",
        help="go on with a run, or with `latest`; default: begin a new one",
    )
    _run_name(serve)
    _local_clients(serve)
    serve.add_argument(
        "--until-done",
        action="store_true",
        help="end when the run has reached its goal; default: go on until stopped",
    )
    _json(serve)
    status = _add(commands, "status", "remote:status", "what the server does at this moment")
    _json(status)
    status.add_argument("--watch", action="store_true", help="show it again every second; default: once")
    shutdown = _add(commands, "shutdown", "remote:shutdown", "end the clients, the run, or the whole server")
    shutdown.add_argument(
        "what",
        nargs="?",
        choices=["clients", "run", "server"],
        default="server",
        help="what to end: clients, run or server; default: server",
    )
    control = _add(commands, "control", "remote:control", "port and token of the control API")
    _json(control)
    call = _add(commands, "call", "remote:call", "any command of the control API; its answer as JSON")
    call.add_argument("name", metavar="GROUP.COMMAND", help="its name, such as run.start")
    call.add_argument("params", nargs="?", default="{}", metavar="JSON", help="its parameters; default: {}")


def _add_run(commands: Commands) -> None:
    run = _group(commands, "run", "begin, continue and end the run of the server")
    start = _add(run, "start", "remote:run_start", "begin a new run")
    _preset(start)
    _run_name(start)
    _local_clients(start)
    _note(start)
    resume = _add(run, "resume", "remote:run_resume", "go on with a run as a new attempt")
    resume.add_argument("run", nargs="?", default="latest", metavar="RUN", help=_WHICH_RUN)
    resume.add_argument(
        "--checkpoint", default="", metavar="ID", help="a checkpoint of it; default: the newest"
    )
    resume.add_argument("--without-goal", action="store_true", help="leave its goals out; default: keep them")
    for command in (start, resume):
        command.add_argument(
            "--stop-active",
            action="store_true",
            help="stop the run that goes on first; default: refuse while one goes on",
        )
    _add(run, "stop", "remote:run_stop", "save and end the run")
    _add(run, "pause", "remote:run_pause", "let the run rest, with everything kept")
    _add(run, "continue", "remote:run_continue", "let a paused run go on")
    save = _add(commands, "quicksave", "remote:quicksave", "save a checkpoint now")
    _note(save)
    _json(save)


def _add_library(commands: Commands) -> None:
    checkpoints = _group(commands, "checkpoints", "the checkpoints of runs")
    listing = _add(checkpoints, "list", "local:checkpoints", "list and verify the checkpoints of a run")
    listing.add_argument("run", nargs="?", default="latest", metavar="RUN", help=_WHICH_RUN)
    _json(listing)
    _add_evaluate(commands)
    runs = _group(commands, "runs", "the runs in the data folder")
    _json(_add(runs, "list", "local:runs", "list the runs"))


def _add_evaluate(commands: Commands) -> None:
    evaluate = _add(commands, "evaluate", "evaluation:evaluate", "play episodes with a checkpoint")
    evaluate.add_argument(
        "checkpoint",
        nargs="?",
        default="latest",
        metavar="CHECKPOINT",
        help="its folder; or a run (id, or how it begins), RUN/CHECKPOINT, RUN/best; latest or best of the "
        "newest run; default: latest",
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
    _json(evaluate)


def _add_config(commands: Commands) -> None:
    config = _group(commands, "config", "your settings")
    for name, text in (
        ("show", "the effective configuration"),
        ("check", "say what is wrong with it"),
        ("diff", "what differs from the shipped settings"),
    ):
        command = _add(config, name, f"settings:{name}", text)
        _preset(command)
        _json(command)
    changing = _add(config, "set", "settings:change", "write settings into your config.yaml")
    changing.add_argument(
        "values", nargs="+", metavar="KEY=VALUE", help="a setting and its value, such as ppo.gamma=0.98"
    )


def _add_env(commands: Commands) -> None:
    env = _group(commands, "env", "the environment that is played")
    check = _add(env, "check", "environments:check", "make an environment, play it at random, and report")
    check.add_argument(
        "env_id", nargs="?", default="", metavar="ID", help="its id; default: env.id of your settings"
    )
    _preset(check)
    _json(check)


_WHO = "its id or its name, as `soulsgui clients list` shows them"


def _add_clients(commands: Commands) -> None:
    clients = _group(commands, "clients", "everyone who plays for this server")
    _json(_add(clients, "list", "remote:clients", "list them"))
    for name, text in (
        ("pause", "let a client wait"),
        ("resume", "let a client go on"),
        ("drain", "let a client finish its episodes and stop"),
        ("stop", "let a client stop at once"),
    ):
        command = _add(clients, name, "remote:wish", text)
        command.add_argument("client", metavar="NAME", help=_WHO)
        command.set_defaults(wish=name)
    rename = _add(clients, "rename", "remote:rename", "call a client something else on screen")
    rename.add_argument("client", metavar="NAME", help=_WHO)
    rename.add_argument("name", nargs="?", default="", metavar="TEXT", help="the name; default: its id again")
    forgetting = _add(clients, "forget", "remote:forget", "take a client that is gone off the list")
    forgetting.add_argument("client", metavar="NAME", help=_WHO)
    log = _add(clients, "log", "remote:client_log", "what a client wrote last")
    log.add_argument("client", metavar="NAME", help=_WHO)
    log.add_argument("-n", type=int, default=50, metavar="LINES", help="how many lines; default: 50")
    _json(log)
    releasing = _add(clients, "release", "remote:release", "let a client that was cut off send again")
    releasing.add_argument("client", metavar="NAME", help=_WHO)
    rejects = _add(clients, "rejects", "remote:rejects", "the last samples that were refused, and why")
    rejects.add_argument(
        "client", nargs="?", default="", metavar="NAME", help="only those of this client; default: of all"
    )
    _json(rejects)
    invite = _add(commands, "invite", "inviting:invite", "let another computer play for this server")
    invite.add_argument("client", metavar="NAME", help="its id, such as gamer-01")
    invite.add_argument(
        "--file", type=Path, metavar="PATH", help="where to write it; default: NAME.soulsgui, here"
    )
    invite.add_argument(
        "--reissue",
        action="store_true",
        help="it was invited before: end that, and invite it anew; default: refuse then",
    )
    _json(invite)
    revoke = _add(commands, "revoke", "inviting:revoke", "take an invitation back and cut its computer off")
    revoke.add_argument("client", metavar="NAME", help=_WHO)


def _invitation(parser: argparse.ArgumentParser, default: str) -> None:
    parser.add_argument(
        "invitation",
        nargs="?",
        default="",
        metavar="INVITATION",
        help=f"the link (soulsgui://join/...) or .soulsgui file of a server's owner; default: {default}",
    )


def _add_looking(commands: Commands) -> None:
    logs = _add(commands, "logs", "local:logs", "the log of a service: trainer, redis, runner, client-1 ...")
    logs.add_argument(
        "service", metavar="SERVICE", help="whose: runner, redis, trainer, telemetry, client-1 ..."
    )
    logs.add_argument("--run", default="latest", metavar="RUN", help=_WHICH_RUN)
    logs.add_argument("-n", type=int, default=50, metavar="LINES", help="how many lines; default: 50")
    logs.add_argument(
        "--follow",
        "-f",
        action="store_true",
        help="go on with what is written from now on; default: end after the last line",
    )
    events = _add(commands, "events", "local:events", "what happened on this server")
    events.add_argument(
        "--since", type=int, default=0, metavar="NUMBER", help="those after this number; default: 0, all"
    )
    _json(events)


def _add_services(commands: Commands) -> None:
    _add(commands, "redis", "roles:redis", "the Redis server alone, in the foreground")
    for name in ("trainer", "telemetry", "evaluator"):
        node = _add(commands, name, f"roles:{name}", f"the {name} of a run alone, in the foreground")
        node.add_argument("--run", required=True, metavar="RUN", help="folder or id of the run")
        _server_file(node)
        node.set_defaults(is_service=True)
        if name == "trainer":
            node.add_argument(
                "--checkpoint", type=Path, metavar="PATH", help="begin from it; default: the newest"
            )
    join = _add(commands, "join", "roles:join", "let this computer play for a server")
    _invitation(join, "the one of last time, else the server that runs on this computer")
    join.add_argument(
        "--here",
        action="store_true",
        help="for the server that runs on this computer, now and later; default: as last time",
    )
    join.add_argument(
        "--name", default="", metavar="ID", help="its id; default: as invited, else the name of this machine"
    )
    join.add_argument(
        "--stop",
        action="store_true",
        help="end what plays here, after this window or that terminal was left; default: begin",
    )
    for hidden in ("--watched", "--idle"):
        join.add_argument(hidden, action="store_true", help=argparse.SUPPRESS)
    client = _add(commands, "client", "roles:client", "a sampling client, in the foreground")
    client.set_defaults(is_service=True)
    _invitation(client, "none")
    client.add_argument(
        "--server",
        default="",
        metavar="HOST:PORT",
        help="a server on this machine; default: what --server-file says",
    )
    _server_file(client)
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
    _add(commands, "probe", "roles:probe", "examine an environment", hidden=True)
    worker = _add(commands, "worker", "roles:worker", "step environments for a client", hidden=True)
    worker.set_defaults(is_service=True)
    job = _add(commands, "job", "roles:job", "do one piece of work for a service", hidden=True)
    job.set_defaults(is_service=True)
    job.add_argument("work", choices=["figure"])
    job.add_argument("run", type=Path, metavar="RUN_DIR")
    job.add_argument("--ahead", action="store_true")
