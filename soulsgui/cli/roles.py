"""The roles of the program: a whole server, or one service of it in the foreground."""

import gc
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from soulsgui.cli.output import folders_of
from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import RunFolder
from soulsgui.errors import UsageError
from soulsgui.system import is_loopback, new_session_kwargs, stop_signals, terminate_group
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import check_client_name, name_of_machine

_LARGEST_RATE = 1e6


def serve(arguments: Arguments) -> int:
    """`serve`: a server with its runs."""
    from soulsgui.config.layers import Layer, parse_assignments
    from soulsgui.runner.headless import ServeOptions, serve

    overrides = parse_assignments(arguments.assignments)
    if arguments.local_clients is not None:
        values = overrides.values | {"clients.local": arguments.local_clients}
        overrides = Layer(overrides.source, values, problems=overrides.problems)
    options = ServeOptions(
        overrides=overrides,
        idle=arguments.idle,
        preset=arguments.preset,
        resume=arguments.resume,
        name=arguments.name,
        until_done=arguments.until_done,
        as_json=arguments.as_json,
    )
    return serve(folders_of(arguments), options)


def redis(arguments: Arguments) -> int:
    """`redis`: the server with the generated configuration, until it is stopped."""
    from soulsgui.config.load import load_settings
    from soulsgui.runner.invitations import Invitations
    from soulsgui.runner.redis_server import ensure_server, refuse_a_second

    folders = folders_of(arguments)
    settings = load_settings(folders, assignments=arguments.assignments)
    refuse_a_second(folders)
    invitations = Invitations(folders.invited)
    if invitations.damage:
        sys.stderr.write(f"The list of the invited is lost: {invitations.damage}\n")
    server = ensure_server(folders, settings.redis, invitations.user_lines(settings.redis.prefix))
    # In a session of its own: asked twice, by the terminal and by us, it would end without saving.
    process = subprocess.Popen(server.argv, **new_session_kwargs())
    for number in stop_signals():
        signal.signal(number, lambda *_: terminate_group(process.pid))
    return process.wait()


def trainer(arguments: Arguments) -> int:
    """`trainer`: the training node of a run."""
    from soulsgui.process import leave
    from soulsgui.runner.run.start import chosen_checkpoint

    run, address = _run(arguments), _address(arguments)
    # torch takes a second: not before it is clear that there is something to train. Hardly anything that it
    # makes meanwhile goes again, so nothing is gained by looking for garbage among it, now or later.
    gc.disable()
    from soulsgui.training.main import run_trainer

    gc.freeze()
    gc.enable()
    leave(run_trainer(run, address, arguments.checkpoint or chosen_checkpoint(run)))


def telemetry(arguments: Arguments) -> int:
    """`telemetry`: the telemetry node of a run."""
    from soulsgui.telemetry.main import run_telemetry

    return run_telemetry(_run(arguments), _address(arguments))


def evaluator(arguments: Arguments) -> int:
    """`evaluator`: the evaluator of a run."""
    from soulsgui.modes.evaluator_main import run_evaluator

    return run_evaluator(_run(arguments), _address(arguments))


def join(arguments: Arguments) -> int:
    """`join`: the runner of client mode, or what is asked of the one that goes on."""
    from soulsgui.cli import joined

    if joined.is_asked(arguments):
        return joined.ask(arguments)
    from soulsgui.cli.inviting import check_name, take_up
    from soulsgui.runner.join.headless import join
    from soulsgui.runner.join.saved import SavedInvitations

    if arguments.here and arguments.invitation:
        raise UsageError("--here plays for this computer's own server: it goes with no invitation.")
    saved = SavedInvitations(folders_of(arguments))
    if arguments.invitation or arguments.here:
        invitation = take_up(arguments) if arguments.invitation else None
        saved.choose(invitation)
    else:
        invitation = saved.chosen()
        if invitation is not None:
            check_name(arguments, invitation)
    name = _client_name(arguments) if invitation is None else invitation.client
    return join(folders_of(arguments), name, arguments.watched, invitation, arguments.idle)


def client(arguments: Arguments) -> int:
    """`client`: plays for a server."""
    for option in ("num_envs", "episodes", "simulate"):
        value = getattr(arguments, option)
        if value is not None and value < 1:
            raise UsageError(f"--{option.replace('_', '-')} should be at least 1, not {value}.")
    if arguments.workers is not None and arguments.workers < 0:
        raise UsageError(f"--workers should be at least 0, not {arguments.workers}.")
    if arguments.simulate is not None:
        return _fleet(arguments)
    if arguments.invitation:
        return _invited_client(arguments)
    from soulsgui.process import is_supervised, start_over
    from soulsgui.sampling.client import run_client
    from soulsgui.wire.messages.owner import ClientFolder

    name = _client_name(arguments)
    address = _server(arguments) if arguments.server else _address(arguments)
    owner = ClientFolder(arguments.state_dir) if arguments.state_dir is not None else None
    start_anew = None if is_supervised() else start_over
    return run_client(
        address, name, arguments.num_envs, arguments.episodes, owner, start_anew, arguments.workers
    )


def _fleet(arguments: Arguments) -> int:
    """Be many clients that step no environment."""
    if arguments.invitation or arguments.episodes is not None:
        raise UsageError("--simulate goes with neither an invitation nor --episodes.")
    if not 0 < arguments.rate <= _LARGEST_RATE:
        raise UsageError(f"--rate should be above 0 and at most {_LARGEST_RATE:,.0f}, not {arguments.rate}.")
    from soulsgui.sampling.simulate import run_fleet

    address = _server(arguments) if arguments.server else _address(arguments)
    name = arguments.name or "sim"
    return run_fleet(address, name, arguments.simulate, arguments.rate, arguments.num_envs or 1)


def _invited_client(arguments: Arguments) -> int:
    """Play for the server of an invitation, wherever it is found."""
    from soulsgui.cli.inviting import take_up
    from soulsgui.process import setup_logging, start_over, stop_on_signals
    from soulsgui.runner.join.finder import find_server

    if arguments.server or arguments.server_file:
        raise UsageError(
            "An invitation says where the server is: it goes with neither --server nor --server-file."
        )
    invitation = take_up(arguments)
    from soulsgui.sampling.client import run_client

    setup_logging()
    address = find_server(invitation, stop_on_signals())
    if address is None:
        return 0
    return run_client(
        address,
        invitation.client,
        arguments.num_envs,
        arguments.episodes,
        start_anew=start_over,
        workers=arguments.workers,
    )


def probe(_arguments: Arguments) -> int:
    """`probe`: examines the environment that standard input names; each line it writes is a message."""
    # Environments print what they like; the messages have standard output to themselves.
    with os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8") as output:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        from soulsgui.environments.check import check
        from soulsgui.environments.fit import fit_report
        from soulsgui.environments.realtime import StepClock

        def send(message: dict[str, Any]) -> None:
            output.write(json.dumps(message) + "\n")
            output.flush()

        wanted = json.load(sys.stdin)
        report = check(
            wanted["id"],
            wanted["kwargs"],
            wanted["wrappers"],
            seconds=wanted["seconds"],
            clock=StepClock(wanted["step_s"], wanted["delay_s"]),
            told=lambda doing, place: send({"doing": doing, "place": place}),
        )
        send({"report": report.to_json() | fit_report(report.spaces, wanted["learner"])})
    return 0


def worker(_arguments: Arguments) -> int:
    """`worker`: steps some of a client's environments, as its standard input asks."""
    from soulsgui.sampling.workers import run_worker

    return run_worker()


def learner(_arguments: Arguments) -> int:
    """`learner`: computes a part of each gradient of a trainer, as its standard input asks."""
    # The trainer ends it: not the terminal, nor who stops the whole group; also not while torch is imported.
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)
    from soulsgui.process import leave
    from soulsgui.training.helper import run_learner

    leave(run_learner())


def job(arguments: Arguments) -> int:
    """`job figure`: draws telemetry.json and telemetry.png of a run when standard input ends."""
    from soulsgui.telemetry.figure import main

    return main(arguments.run, arguments.ahead)


def _run(arguments: Arguments) -> RunFolder:
    for path in (Path(arguments.run), folders_of(arguments).runs / arguments.run):
        run = RunFolder(path.absolute())
        if run.config.exists():
            return run
    raise UsageError(f"{arguments.run} is no run: it has no config.json.", "See the runs: soulsgui runs list")


def _address(arguments: Arguments) -> Address:
    return Address.read(arguments.server_file or folders_of(arguments).server_address)


def _server(arguments: Arguments) -> Address:
    """The address of a server on this machine, whose password is the user's own."""
    from soulsgui.config.load import load_settings
    from soulsgui.runner.certificate import read_certificate
    from soulsgui.runner.redis_server import read_or_make_password

    host, colon, port = arguments.server.rpartition(":")
    host = host.strip("[]")
    if not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        raise UsageError(f"--server {arguments.server}: expected HOST:PORT.", "For instance: 127.0.0.1:6379")
    if not is_loopback(host):
        raise UsageError(
            f"--server {arguments.server}: only servers on this machine can be joined so.",
            "For instance: 127.0.0.1:6379",
        )
    folders = folders_of(arguments)
    if not folders.redis_secret.exists():
        raise UsageError(
            f"The password of the server is not here: {folders.redis_secret} is missing.",
            "Name the folder of the server's settings: --config-dir DIR",
        )
    settings = load_settings(folders, assignments=arguments.assignments)
    password = read_or_make_password(folders.redis_secret)
    pin = read_certificate(folders.server).pin if settings.redis.tls else ""
    return Address(host, int(port), password, settings.redis.prefix, pin=pin)


def _client_name(arguments: Arguments) -> str:
    return check_client_name(arguments.name) if arguments.name else name_of_machine()
