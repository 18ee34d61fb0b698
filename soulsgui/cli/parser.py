"""What can be typed. Nothing here is slow to import: a command's own module is imported when it is run."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from soulsgui import __version__
from soulsgui.cli.declaring import (
    JSON,
    CommandParser,
    Declared,
    common_options,
    flag,
    of_the_api,
    option,
    typed_arguments,
    word,
)
from soulsgui.wire.control.results import SCORES
from soulsgui.wire.keys import SINKS


class Arguments(argparse.Namespace):
    """A command line taken apart. Options of single commands are further attributes."""

    handler: str  # `module:function` of what carries it out
    config_dir: Path | None  # folder of the user's settings; None takes the system's
    data_dir: Path | None  # folder of runs and server state; None takes the system's
    assignments: list[str]  # every `--set key=value`, in order
    is_service: bool  # whether it is a service of a server rather than a command for a person
    words: list[str]  # the command line, as it was typed

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


GROUPS = {
    "run a server": ("gui", "serve", "shutdown", "invite", "revoke", "server", "config"),
    "watch and steer": (
        "status",
        "run",
        "hyper",
        "quicksave",
        "runs",
        "checkpoints",
        "jobs",
        "clients",
        "alerts",
    ),
    "compare and search": ("experiments", "sweep"),
    "look back": ("logs", "events", "audit", "usage"),
    "help a server": ("join", "client"),
    "tools": ("evaluate", "env", "control", "call"),
    "services, each alone": (
        "redis",
        "gateway",
        "exporter",
        "trainer",
        "telemetry",
        "evaluator",
        "inference",
        "sink",
    ),
}
"""The commands as `soulsgui --help` shows them."""

_FAMILIES = {
    "run": "begin, continue and end the run of the server",
    "run queue": "the runs that wait for their turn",
    "hyper": "change the run while it goes on",
    "server": "the server while it runs",
    "checkpoints": "the checkpoints of runs",
    "jobs": "what goes on beside the run, such as an export",
    "runs": "the runs in the data folder",
    "experiments": "runs with several seeds, and statistics over them",
    "sweep": "the search for the best settings",
    "config": "your settings",
    "env": "the environment that is played",
    "clients": "everyone who plays for this server",
    "alerts": "what you are told wherever you are",
}
"""Commands that have commands of their own."""

_INVITATION = "link (soulsgui://join/...) or .soulsgui file of a server's owner"
_WHICH_RUN = "id of the run, or how it begins; default: latest"

_TRUST = "run what the checkpoint names on this computer, though it comes from elsewhere; default: be asked"

_ARGUMENTS = {
    "--address": option(
        "HOST:PORT",
        "where to look for the server first, such as a router that passes the port on; default: as invited",
    ),
    "--after-episode": flag("with pause: finish the episode first; default: at once"),
    "--checkpoint": option("PATH", "begin from it; default: the newest", type=Path),
    "--csv": flag("a line for each run, as CSV; default: a table"),
    "--figure": option(
        "FILE", "also draw the interquartile means along the steps into it, as PNG; default: no", type=Path
    ),
    "--score": {
        "choices": list(SCORES),
        "default": SCORES[0],
        "help": f"what a run is judged by: {', '.join(SCORES)}; default: {SCORES[0]}",
    },
    "--episodes": option("N", "stop after so many episodes; default: play on", type=int),
    "--file": option("PATH", "where to write it; default: NAME.soulsgui, here", type=Path),
    "--follow/-f": flag("go on with what is written from now on; default: end after the last line"),
    "--for": option(
        "TIME",
        "with pause: how long, such as 30m or 2h; default: until `soulsgui join continue`",
        dest="pause_for",
    ),
    "--from": option(
        "CHECKPOINT",
        "begin from one, with the settings it was saved with: a run (its newest), RUN/best, RUN/PATH; "
        "default: new weights",
        dest="from_checkpoint",
    ),
    "--here": flag("for the server that runs on this computer, now and later; default: as last time"),
    "--hold": flag("stay until the input ends, as a tunnel does with its window; default: end at once"),
    "--idle": flag("start no run; default: start one"),
    "--inference": {
        "choices": ["local", "server"],
        "help": "who chooses actions: it, or the inference server of the run; default: as the run says",
    },
    "--json": JSON,
    "--lan": flag("at this machine's private addresses, too; default: on loopback alone"),
    "--local-clients": option("N", "clients on this machine; default: clients.local", type=int),
    "--mode": {"choices": ["server", "client"], "help": "the side to show; default: as last time"},
    "--name": option("ID", "its id; default: as invited, else the name of this machine"),
    "--num-envs": option("N", "environments side by side; default: env.num_envs of the run", type=int),
    "--preset": option("NAME", "a preset below your own settings; default: none"),
    "--public": flag("with --lan: also at those that are not private; default: at private ones alone"),
    "--rate": option("R", "of each: steps per second; default: 100", type=float, default=100.0),
    "--reissue": flag("it was invited before: end that, and invite it anew; default: refuse then"),
    "--resume": option(
        "RUN",
        "go on with a run, or with `latest`, and with what --set may change of it; default: begin a new one",
    ),
    "--run": option("RUN", "folder or id of the run", required=True),
    "--seed": option("S", "seed of the first episode; default: 0", type=int, default=0),
    "--seeds": option(
        "N", "runs with so many seeds, one after another: an experiment; default: 1", type=int, default=1
    ),
    "--space": option(
        "KEY=RANGE",
        "what is searched: LOW..HIGH, LOW..HIGH:log or [A, B]; may be repeated; default: --space-file",
        type=str,
        action="append",
        default=[],
    ),
    "--space-file": option("FILE", "the same from a YAML file: a map of them; default: none", type=Path),
    "--trials": option("N", "how many runs; default: 20", type=int, default=20),
    "--sampler": {
        "choices": ["tpe", "random", "grid"],
        "default": "tpe",
        "help": "how values are drawn: tpe, random, or grid (choices alone); default: tpe",
    },
    "--pruner": {
        "choices": ["median", "hyperband", "halving", "none"],
        "default": "median",
        "help": "by what a trial is given up early: median, hyperband, halving, none; default: median",
    },
    "--server": option("HOST:PORT", "a server on this machine; default: what --server-file says"),
    "--server-file": option(
        "FILE",
        "the file that tells where the server is; default: that of the runner of --data-dir",
        type=Path,
    ),
    "--simulate": option(
        "N",
        "be N clients that step no environment, to see what a server stands; the trainer learns from their "
        "random samples: use a run of its own; default: play",
        type=int,
    ),
    "--since": option("NUMBER", "those after this number; default: 0, all", type=int, default=0),
    "--agreement": option("FILE", argparse.SUPPRESS, type=Path),
    "--state-dir": option("DIR", argparse.SUPPRESS, type=Path),
    "--stochastic": flag("draw actions from what the policy says; default: take the best ones"),
    "--trashed": flag("those in the bin instead; default: those that are not"),
    "--trust": flag("agree to whatever this server wants to run here, now and later; default: be asked"),
    "--until-done": flag("end when the run has reached its goal; default: go on until stopped"),
    "--video": option("FILE", "film it, as .mp4 or .gif; default: film nothing"),
    "--watch": flag("show it again every second; default: once"),
    "--watched": flag(argparse.SUPPRESS),
    "--workers": option(
        "K",
        "processes that they are spread over, 0 for none; default: client.workers of the run",
        type=int,
    ),
    "-n": option("LINES", "how many lines; default: 50", type=int, default=50),
    "checkpoint": word(
        "CHECKPOINT",
        "its folder; or a run (id, its beginning, or name), RUN/CHECKPOINT, RUN/best; of the latest run "
        "best, newest, or what `checkpoints list` shows; default: newest",
        "newest",
    ),
    "client": word("NAME", "its id, such as gamer-01"),
    "env_id": word("ID", "its id; default: env.id of your settings", ""),
    "experiment": word("EXPERIMENT", "its id, how it begins, or the name in it; default: latest", "latest"),
    "experiments": word("EXPERIMENT", "its id, how it begins, or the name in it; at least two", nargs="+"),
    "file": word("FILE", "check it instead; default: your config.yaml", nargs="?", type=Path),
    "invitation": word("INVITATION", f"{_INVITATION}; default: none", ""),
    "name": word("GROUP.COMMAND", "its name, such as run.start"),
    "params": word("JSON", "its parameters; default: {}", "{}"),
    "sweep": word("SWEEP", "its id, how it begins, or the name in it; default: latest", "latest"),
    "part": word("SECTION", "a section, or one setting; default: all", ""),
    "run": word("RUN", _WHICH_RUN, "latest"),
    "url_file": word("FILE", "where its address stands", type=Path),
    "socket": word("PATH", "whatever comes there is passed on", type=Path),
    "service": word("SERVICE", "whose: runner, redis, trainer, telemetry, client-1 ..."),
    "sink": {"choices": SINKS, "help": "which one"},
    "values": word("KEY=VALUE", "a setting and its value, such as ppo.gamma=0.98", nargs="+"),
    "what": {
        "nargs": "?",
        "choices": ["clients", "run", "server"],
        "default": "server",
        "help": "what to end: clients, run or server; default: server",
    },
    # Called as others, and meant otherwise.
    "evaluate --trust": flag(_TRUST),
    "serve --trust": flag(_TRUST),
    "evaluate --episodes": option("N", "how many to play; default: 20", type=int, default=20),
    "job --ahead": flag(""),
    "job run": word("RUN_DIR", "", type=Path, nargs="?"),
    "job work": {"choices": ["figure", "export-run", "import-run", "export-checkpoint"]},
    "inference --name": option("ID", "its id; default: inference-1", default="inference-1"),
    "join --idle": flag(argparse.SUPPRESS),
    "join invitation": word(
        "INVITATION",
        f"{_INVITATION}; or, from a second terminal, what to do with what plays here: pause, continue, stop, "
        "status, agree (to what its server wants to run); default: the one of last time, else the server "
        "that runs on this computer",
        "",
    ),
    "runs import file": word("FILE", "a .soulsrun file", type=Path),
    "runs import --name": option("TEXT", "name of the new run; default: the one it had"),
    "logs --run": option("RUN", _WHICH_RUN, default="latest"),
    "sweep start --name": option("TEXT", "name of the sweep; default: sweep"),
    "serve --name": option("TEXT", "name of the new run; default: date and time alone"),
}
"""What commands take, by name; of a single command by that command's words and the name."""


def _declare(
    typed: str, handler: str, text: str, names: str = "", *examples: str, hidden: bool = False, **more: Any
) -> Declared:
    arguments = [(one, _ARGUMENTS.get(f"{typed} {one}") or _ARGUMENTS[one]) for one in names.split()]
    return Declared(typed, handler, text, arguments, examples, hidden, more)


_DECLARED = (
    _declare("gui", "roles:gui", "the window; what is started when no command is named", "invitation --mode"),
    _declare(
        "serve",
        "roles:serve",
        "run a server: Redis, the control API, and a run",
        "--idle --preset --resume --from --trust --name --seeds --local-clients --until-done --json",
        "serve --set stop.mean_return=475 --local-clients 2 --until-done",
        "serve --preset lunarlander_ppo --until-done --json",
        "serve --resume latest --set stop.env_steps=2000000",
        "serve --idle",
    ),
    _declare("status", "remote:status", "what the server does at this moment", "--json --watch"),
    _declare("shutdown", "remote:shutdown", "end the clients, the run, or the whole server", "what"),
    _declare("control", "remote:control", "port and token of the control API", "--json --hold"),
    _declare(
        "call",
        "remote:call",
        "any command of the control API; its answer as JSON",
        "name params",
        "call runs.list",
        "call service.local_clients '{\"count\": 4}'",
    ),
    _declare(
        "checkpoints list",
        "local:checkpoints",
        "list and verify the checkpoints of a run",
        "run --trashed --json",
    ),
    _declare(
        "evaluate",
        "evaluation:evaluate",
        "play episodes with a checkpoint",
        "checkpoint --episodes --seed --stochastic --video --trust --json",
        "evaluate",
        "evaluate best --episodes 100 --json",
        "evaluate best --episodes 1 --video best.mp4",
        "evaluate 2026-11-20_10-00-00_first/best",
    ),
    Declared(
        "checkpoints evaluate",
        "evaluation:on_server",
        "let the server play episodes with a checkpoint, or with the weights it trains, beside its run",
        [
            *typed_arguments("checkpoint.evaluate"),
            *((name, _ARGUMENTS[name]) for name in ("--video", "--json")),
        ],
        [
            "checkpoints evaluate best --episodes 100",
            "checkpoints evaluate newest --episodes 1 --video now.mp4",
            "checkpoints evaluate --set 'env.kwargs={gravity: -5.0}'",
        ],
    ),
    _declare("runs list", "local:runs", "list the runs", "--trashed --json"),
    _declare("experiments list", "experiments:listing", "list the experiments", "--score --json"),
    _declare(
        "experiments show",
        "experiments:show",
        "the runs of an experiment, and statistics over them",
        "experiment --score --csv --figure --json",
        "experiments show",
        "experiments show compared --score evaluation_return --csv",
    ),
    _declare(
        "experiments compare",
        "experiments:comparison",
        "experiments side by side, with the probability of improvement",
        "experiments --score --csv --figure --json",
        "experiments compare ppo vtrace --figure compared.png",
    ),
    _declare(
        "runs import",
        "remote:import_run",
        "take a run from a file into the library of the server",
        "file --name",
        "runs import 2026-11-20_10-00-00_first.soulsrun",
    ),
    _declare(
        "sweep start",
        "sweep:start",
        "search values of settings with which a run does best (needs Optuna)",
        "--space --space-file --trials --sampler --pruner --score --name --preset --json",
        "sweep start --space ppo.learning_rate=1e-4..1e-2:log --set stop.env_steps=50000",
        "sweep start --space 'ppo.epochs=[5, 10, 20]' --sampler grid --trials 3 --set stop.env_steps=50000",
    ),
    _declare("sweep status", "sweep:status", "its trials, and which settings mattered", "sweep --json"),
    _declare("sweep best", "sweep:best", "the settings of the best trial", "sweep --json"),
    _declare("sweep stop", "sweep:stop", "end the sweep that goes on, and the run of its trial", "--json"),
    _declare(
        "config show",
        "local:show",
        "the effective configuration",
        "part --preset --json",
        "config show ppo",
        "config show ppo.gamma --json",
        "config show --preset lunarlander_ppo",
    ),
    _declare("config check", "local:check", "say what is wrong with it", "file --preset --json"),
    _declare("config presets", "local:presets", "the shipped settings for tasks (--preset NAME)", "--json"),
    _declare("config diff", "local:diff", "what differs from the shipped settings", "--preset --json"),
    _declare(
        "config set",
        "local:change",
        "write settings into your config.yaml",
        "values",
        "config set ppo.gamma=0.98 clients.local=4",
        "config set 'network.hidden_sizes=[64, 64]'",
    ),
    _declare(
        "env check",
        "evaluation:check",
        "make an environment, play it at random, and report",
        "env_id --preset --json",
    ),
    _declare(
        "hyper set",
        "remote:hyper",
        "let the run that goes on have other values of live settings (`now`, `next round`)",
        "values",
        "hyper set ppo.learning_rate=0.0003 ppo.entropy_coef=0.01",
    ),
    _declare("clients list", "remote:clients", "list them", "--json"),
    *of_the_api([("--local-clients", _ARGUMENTS["--local-clients"])]),
    _declare(
        "invite",
        "inviting:invite",
        "let another computer play for this server",
        "client --file --reissue --json",
        "invite gamer-01",
        "invite gamer-01 --reissue --file /media/stick/gamer-01.soulsgui",
    ),
    _declare(
        "logs",
        "local:logs",
        "the log of a service: trainer, redis, runner, client-1 ...",
        "service --run -n --follow/-f",
        "logs trainer",
        "logs runner -n 200 --follow",
    ),
    _declare("events", "local:events", "what happened on this server", "--since --json"),
    _declare("audit", "local:audit", "which commands changed something, and who gave them", "-n --json"),
    _declare("redis", "roles:redis", "the Redis server alone, in the foreground"),
    _declare(
        "gateway",
        "roles:gateway",
        "what lets clients in to the server of a runner, alone, in the foreground",
        "--server-file --lan --public",
        is_service=True,
    ),
    _declare(
        "exporter",
        "roles:exporter",
        "what Prometheus and Grafana read of a runner, alone, in the foreground",
        "--server-file",
        is_service=True,
    ),
    *(
        _declare(
            name,
            f"roles:{name}",
            f"the {name} of a run alone, in the foreground",
            f"--run --server-file{' --checkpoint' if name == 'trainer' else ''}",
            is_service=True,
        )
        for name in ("trainer", "telemetry", "evaluator")
    ),
    _declare(
        "inference",
        "roles:inference",
        "an inference server alone, in the foreground",
        "--name --server-file",
        is_service=True,
    ),
    _declare(
        "sink",
        "roles:sink",
        "one that takes what a run records elsewhere, alone, in the foreground",
        "sink --run --server-file",
        is_service=True,
    ),
    _declare(
        "join",
        "roles:join",
        "let this computer play for a server; pause and stop that",
        "invitation --here --address --name --trust --for --after-episode --json --watched --idle",
        "join gamer-01.soulsgui",
        "join gamer-01.soulsgui --address my-router.example.org",
        "join pause --for 30m",
        "join continue",
        "join stop",
    ),
    _declare(
        "client",
        "roles:client",
        "a sampling client, in the foreground",
        "invitation --server --server-file --name --trust --num-envs --workers --episodes --inference "
        "--simulate --rate --state-dir --agreement",
        "client --name second-player",
        "client --simulate 1000 --rate 100",
        is_service=True,
    ),
    _declare(
        "relay",
        "roles:relay",
        "pass on to a Redis elsewhere",
        "url_file socket",
        hidden=True,
        is_service=True,
    ),
    _declare("probe", "roles:probe", "examine an environment", hidden=True),
    _declare("worker", "roles:worker", "step environments for a client", hidden=True, is_service=True),
    _declare("learner", "roles:learner", "compute gradients for a trainer", hidden=True, is_service=True),
    _declare("evaluation", "roles:evaluation", "play for a runner", hidden=True, is_service=True),
    _declare(
        "job",
        "roles:job",
        "do one piece of work for a service",
        "work run --ahead",
        hidden=True,
        is_service=True,
    ),
)


def parse(argv: Sequence[str]) -> Arguments:
    """Take a command line apart; wrong use ends the process with code 2, help with 0."""
    # The common options may stand anywhere, also before the command.
    found = Arguments(config_dir=None, data_dir=None, assignments=[], is_service=False, words=list(argv))
    _, rest = common_options().parse_known_args(argv, namespace=found)
    first = rest[0].lower() if rest else ""
    # Whoever names no command wants to see something; a desktop names none with an invitation that it opens.
    if first in ("", "--mode") or first.startswith("soulsgui:") or first.endswith(".soulsgui"):
        rest = ["gui", *rest]
    return make_parser().parse_args(rest, namespace=found)


def make_parser() -> CommandParser:
    """Make the parser of all commands."""
    parser = CommandParser(
        prog="soulsgui",
        description="Distributed reinforcement learning: one server trains, many clients sample.",
        epilog="Every command takes --config-dir DIR, --data-dir DIR and --set KEY=VALUE.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"soulsgui {__version__}")
    parser.groups = GROUPS
    alone = {declared.typed: declared for declared in _DECLARED}
    for name in (name for names in GROUPS.values() for name in names):
        if name not in _FAMILIES:
            parser.add(alone[name])
            continue
        family = parser.add_family(name, _FAMILIES[name])
        below = [other for other in _FAMILIES if other.startswith(f"{name} ")]
        inner = {other: family.add_family(other.split()[-1], _FAMILIES[other]) for other in below}
        for declared in _DECLARED:
            if declared.typed.startswith(f"{name} "):
                inner.get(declared.typed.rpartition(" ")[0], family).add(declared)
    for declared in _DECLARED:
        if declared.hidden:
            parser.add(declared)
    return parser
