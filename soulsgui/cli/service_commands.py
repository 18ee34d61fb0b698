"""The services that can be started alone, as it is typed."""

import argparse
from pathlib import Path

from soulsgui.cli.declaring import Commands, add, invitation_argument, json_option, server_file_option


def add_services(commands: Commands) -> None:
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
