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
    "watch and control": (
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
    "single services": (
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
    "run": "start, continue and stop the run of the server",
    "run queue": "the queue of runs",
    "hyper": "change settings of the active run",
    "server": "change the server while it runs",
    "checkpoints": "the checkpoints of runs",
    "jobs": "background work, such as an export",
    "runs": "the runs in the data folder",
    "experiments": "runs with several seeds, and statistics over them",
    "sweep": "searches for the best settings",
    "config": "your settings",
    "env": "check an environment",
    "clients": "everyone who plays for this server",
    "alerts": "messages to your webhook",
}
"""Commands that have commands of their own."""

_INVITATION = "link (soulsgui://join/...) or .soulsgui file from the owner of a server"
_WHICH_RUN = "id of the run, or the start of it; default: latest"

_TRUST = "run what the checkpoint names, even if it comes from another computer; default: ask"

_ARGUMENTS = {
    "--address": option(
        "HOST:PORT",
        "address to try first, such as a router that forwards the port; default: those of the invitation",
    ),
    "--after-episode": flag("with pause: finish the episode first; default: pause at once"),
    "--checkpoint": option("PATH", "checkpoint to start from; default: the newest", type=Path),
    "--csv": flag("print CSV, one line for each run; default: a table"),
    "--figure": option(
        "FILE", "also draw the interquartile means over the steps into a PNG file; default: no", type=Path
    ),
    "--score": {
        "choices": list(SCORES),
        "default": SCORES[0],
        "help": f"how runs are scored: {', '.join(SCORES)}; default: {SCORES[0]}",
    },
    "--episodes": option("N", "stop after this many episodes; default: keep playing", type=int),
    "--file": option("PATH", "file to write; default: NAME.soulsgui in this folder", type=Path),
    "--follow/-f": flag("keep printing new lines; default: end after the last line"),
    "--for": option(
        "TIME",
        "with pause: how long, such as 30m or 2h; default: until `soulsgui join continue`",
        dest="pause_for",
    ),
    "--from": option(
        "CHECKPOINT",
        "checkpoint to start from, with the settings it was saved with: RUN (its newest), RUN/best or "
        "RUN/PATH; default: new weights",
        dest="from_checkpoint",
    ),
    "--here": flag("play for the server on this computer, now and later; default: as last time"),
    "--hold": flag("stay until standard input ends, as tunnels need it; default: end at once"),
    "--idle": flag("start the server without a run; default: start a run"),
    "--inference": {
        "choices": ["local", "server"],
        "help": "who chooses actions: this client, or an inference server of the run; default: as the run is "
        "set",
    },
    "--json": JSON,
    "--lan": flag("also listen on the private addresses of this machine; default: on loopback only"),
    "--local-clients": option("N", "number of clients on this machine; default: clients.local", type=int),
    "--mode": {"choices": ["server", "client"], "help": "the mode to show; default: as last time"},
    "--name": option("ID", "id of the client; default: as invited, otherwise the name of this machine"),
    "--num-envs": option("N", "number of environments; default: env.num_envs of the run", type=int),
    "--preset": option("NAME", "preset to use; your own settings win over it; default: none"),
    "--public": flag("with --lan: also listen on public addresses; default: on private ones only"),
    "--rate": option(
        "R", "steps per second of each simulated client; default: 100", type=float, default=100.0
    ),
    "--reissue": flag("replace an earlier invitation of this client, which then ends; default: refuse"),
    "--resume": option(
        "RUN",
        "resume a run, or `latest`; --set changes some of its settings; default: start a new run",
    ),
    "--run": option("RUN", "folder or id of the run", required=True),
    "--seed": option("S", "seed of the first episode; default: 0", type=int, default=0),
    "--seeds": option(
        "N",
        "number of seeds; several make an experiment, one run after another; default: 1",
        type=int,
        default=1,
    ),
    "--space": option(
        "KEY=RANGE",
        "setting to search: LOW..HIGH, LOW..HIGH:log or [A, B]; may be repeated; default: --space-file",
        type=str,
        action="append",
        default=[],
    ),
    "--space-file": option("FILE", "YAML file with a map of such settings; default: none", type=Path),
    "--trials": option("N", "number of trials; default: 20", type=int, default=20),
    "--parallel": option(
        "N", "number of trials that are trained at the same time; default: 1", type=int, default=1
    ),
    "--sampler": {
        "choices": ["tpe", "random", "grid"],
        "default": "tpe",
        "help": "how values are sampled: tpe, random, or grid (choices only); default: tpe",
    },
    "--pruner": {
        "choices": ["median", "hyperband", "halving", "none"],
        "default": "median",
        "help": "how trials are pruned: median, hyperband, halving, none; default: median",
    },
    "--server": option("HOST:PORT", "address of a server on this machine; default: as in --server-file"),
    "--server-file": option(
        "FILE",
        "file with the address of the server; default: that of the runner in --data-dir",
        type=Path,
    ),
    "--simulate": option(
        "N",
        "simulate N clients without environments, to test what load a server can take; the trainer learns "
        "from their random samples, so use a separate run; default: play",
        type=int,
    ),
    "--since": option("NUMBER", "only events after this number; default: 0, all", type=int, default=0),
    "--agreement": option("FILE", argparse.SUPPRESS, type=Path),
    "--state-dir": option("DIR", argparse.SUPPRESS, type=Path),
    "--stochastic": flag("sample actions from the policy; default: take the best ones"),
    "--trashed": flag("list the bin instead; default: what is not in the bin"),
    "--trust": flag("agree to whatever this server wants to run here, now and later; default: ask"),
    "--until-done": flag("end when the run has reached its goal; default: continue until stopped"),
    "--video": option("FILE", "save a video of it, as .mp4 or .gif; default: none"),
    "--watch": flag("update it every second; default: show it once"),
    "--watched": flag(argparse.SUPPRESS),
    "--workers": option(
        "K",
        "processes that step the environments, 0 for none; default: client.workers of the run",
        type=int,
    ),
    "-n": option("LINES", "number of lines; default: 50", type=int, default=50),
    "checkpoint": word(
        "CHECKPOINT",
        "its folder; a run (id, start of the id, or name), RUN/CHECKPOINT or RUN/best; of the latest run "
        "also best, newest, or an id from `checkpoints list`; default: newest",
        "newest",
    ),
    "client": word("NAME", "id of the client, such as gamer-01"),
    "env_id": word("ID", "id of the environment; default: env.id of your settings", ""),
    "experiment": word(
        "EXPERIMENT", "its id, the start of the id, or the name in it; default: latest", "latest"
    ),
    "experiments": word(
        "EXPERIMENT", "its id, the start of the id, or the name in it; at least two", nargs="+"
    ),
    "file": word("FILE", "file to check; default: your config.yaml", nargs="?", type=Path),
    "soulsai_file": word(
        "FILE",
        "its config.yaml, which is read over the config_d.yaml beside it; or that one alone",
        type=Path,
    ),
    "invitation": word("INVITATION", f"{_INVITATION}; default: none", ""),
    "name": word("GROUP.COMMAND", "name of the command, such as run.start"),
    "params": word("JSON", "parameters of the command; default: {}", "{}"),
    "sweep": word("SWEEP", "its id, the start of the id, or the name in it; default: latest", "latest"),
    "part": word("SECTION", "a section, or one setting; default: all", ""),
    "run": word("RUN", _WHICH_RUN, "latest"),
    "url_file": word("FILE", "where its address stands", type=Path),
    "socket": word("PATH", "whatever comes there is passed on", type=Path),
    "service": word("SERVICE", "name of the service: runner, redis, trainer, telemetry, client-1 ..."),
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
    "evaluate --episodes": option("N", "number of episodes; default: 20", type=int, default=20),
    "job --ahead": flag(""),
    "job run": word("RUN_DIR", "", type=Path, nargs="?"),
    "job work": {"choices": ["figure", "export-run", "import-run", "export-checkpoint"]},
    "inference --name": option("ID", "its id; default: inference-1", default="inference-1"),
    "join --idle": flag(argparse.SUPPRESS),
    "join invitation": word(
        "INVITATION",
        f"{_INVITATION}; or, from a second terminal, what the client of this computer should do: pause, "
        "continue, stop, status, agree (to what its server wants to run); default: the invitation of last "
        "time, otherwise the server on this computer",
        "",
    ),
    "runs import file": word("FILE", "a .soulsrun file", type=Path),
    "runs import --name": option("TEXT", "name of the new run; default: the old name"),
    "logs --run": option("RUN", _WHICH_RUN, default="latest"),
    "sweep start --name": option("TEXT", "name of the sweep; default: sweep"),
    "serve --name": option("TEXT", "name of the new run; default: date and time only"),
}
"""What commands take, by name; of a single command by that command's words and the name."""


def _declare(
    typed: str, handler: str, text: str, names: str = "", *examples: str, hidden: bool = False, **more: Any
) -> Declared:
    arguments = [(one, _ARGUMENTS.get(f"{typed} {one}") or _ARGUMENTS[one]) for one in names.split()]
    return Declared(typed, handler, text, arguments, examples, hidden, more)


_DECLARED = (
    _declare("gui", "roles:gui", "open the window (also without any command)", "invitation --mode"),
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
    _declare("status", "remote:status", "show what the server is doing", "--json --watch"),
    _declare("shutdown", "remote:shutdown", "stop the clients, the run, or the server", "what"),
    _declare("control", "remote:control", "show port and token of the control API", "--json --hold"),
    _declare(
        "call",
        "remote:call",
        "send any command of the control API and print its answer as JSON",
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
        "let the server play episodes with a checkpoint, or with its current weights, alongside the run",
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
        "show the runs of an experiment, with statistics",
        "experiment --score --csv --figure --json",
        "experiments show",
        "experiments show compared --score evaluation_return --csv",
    ),
    _declare(
        "experiments compare",
        "experiments:comparison",
        "compare experiments, with the probability of improvement",
        "experiments --score --csv --figure --json",
        "experiments compare ppo vtrace --figure compared.png",
    ),
    _declare(
        "runs import",
        "remote:import_run",
        "import a run from a file into the library of the server",
        "file --name",
        "runs import 2026-11-20_10-00-00_first.soulsrun",
    ),
    _declare(
        "sweep start",
        "sweep:start",
        "search for the settings with which a run does best",
        "--space --space-file --trials --parallel --sampler --pruner --score --name --preset --json",
        "sweep start --space ppo.learning_rate=1e-4..1e-2:log --set stop.env_steps=50000",
        "sweep start --space 'ppo.epochs=[5, 10, 20]' --sampler grid --trials 3 --set stop.env_steps=50000",
    ),
    _declare(
        "sweep status",
        "sweep:status",
        "show the trials of a sweep, and which settings mattered",
        "sweep --json",
    ),
    _declare(
        "sweep best",
        "sweep:best",
        "show the best trial, and the command that starts a run like it",
        "sweep --json",
    ),
    _declare("sweep stop", "sweep:stop", "stop the active sweep, and the runs of its trials", "--json"),
    _declare(
        "config show",
        "local:show",
        "show the effective configuration",
        "part --preset --json",
        "config show ppo",
        "config show ppo.gamma --json",
        "config show --preset lunarlander_ppo",
    ),
    _declare(
        "config check", "local:check", "check a configuration and list its mistakes", "file --preset --json"
    ),
    _declare(
        "config presets",
        "local:presets",
        "list the presets, which are settings for tasks (--preset NAME)",
        "--json",
    ),
    _declare("config diff", "local:diff", "show what differs from the defaults", "--preset --json"),
    _declare(
        "config set",
        "local:change",
        "write settings into your config.yaml",
        "values",
        "config set ppo.gamma=0.98 clients.local=4",
        "config set 'network.hidden_sizes=[64, 64]'",
    ),
    _declare(
        "config import-soulsai",
        "local:import_soulsai",
        "write what a SoulsAI configuration sets into your config.yaml; lists what has no counterpart",
        "soulsai_file",
        "config import-soulsai SoulsAI/config/config.yaml",
    ),
    _declare(
        "env check",
        "evaluation:check",
        "make an environment, play it at random, and report problems",
        "env_id --preset --json",
    ),
    _declare(
        "hyper set",
        "remote:hyper",
        "change live settings of the active run (those with the effect `now` or `next round`)",
        "values",
        "hyper set ppo.learning_rate=0.0003 ppo.entropy_coef=0.01",
    ),
    _declare("clients list", "remote:clients", "list the clients", "--json"),
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
        "show the log of a service: trainer, redis, runner, client-1 ...",
        "service --run -n --follow/-f",
        "logs trainer",
        "logs runner -n 200 --follow",
    ),
    _declare("events", "local:events", "show what happened on this server", "--since --json"),
    _declare("audit", "local:audit", "show which commands changed something, and who gave them", "-n --json"),
    _declare("redis", "roles:redis", "run the Redis server alone, in the foreground"),
    _declare(
        "gateway",
        "roles:gateway",
        "run the gateway, which lets clients in, alone, in the foreground",
        "--server-file --lan --public",
        is_service=True,
    ),
    _declare(
        "exporter",
        "roles:exporter",
        "run the exporter for Prometheus and Grafana alone, in the foreground",
        "--server-file",
        is_service=True,
    ),
    *(
        _declare(
            name,
            f"roles:{name}",
            f"run the {name} of a run alone, in the foreground",
            f"--run --server-file{' --checkpoint' if name == 'trainer' else ''}",
            is_service=True,
        )
        for name in ("trainer", "telemetry", "evaluator")
    ),
    _declare(
        "inference",
        "roles:inference",
        "run an inference server alone, in the foreground",
        "--name --server-file",
        is_service=True,
    ),
    _declare(
        "sink",
        "roles:sink",
        "run the TensorBoard or W&B output of a run alone, in the foreground",
        "sink --run --server-file",
        is_service=True,
    ),
    _declare(
        "join",
        "roles:join",
        "let this computer play for a server; pause or stop it",
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
        "run a sampling client in the foreground",
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
