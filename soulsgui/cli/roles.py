"""The roles of the program: a whole server, or one service of it in the foreground."""

import contextlib
import gc
import logging
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from soulsgui.cli.output import agrees, folders_of, say, warn_without_effect
from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.errors import SoulsGuiError, UsageError
from soulsgui.system import (
    confine,
    explained,
    has_screen,
    is_loopback,
    new_session_kwargs,
    stop_signals,
    terminate_group,
    why_not_confined,
)
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import check_client_name, inference_number, name_of_machine

logger = logging.getLogger(__name__)

_LARGEST_RATE = 1e6


def serve(arguments: Arguments) -> int:
    """`serve`: a server with its runs."""
    from soulsgui.config.layers import combine, layers_of, load_run_settings
    from soulsgui.config.parsing import parse_assignments
    from soulsgui.runner.headless import ServeOptions, serve
    from soulsgui.runner.run.agreed import RunNotAgreedError
    from soulsgui.runner.run.library import Library, find_checkpoint
    from soulsgui.wire.control import TRUST_ANY
    from soulsgui.wire.manifest import CONFIG

    folders = folders_of(arguments)
    overrides = parse_assignments(arguments.assignments)
    if arguments.local_clients is not None:
        values = overrides.values | {"clients.local": arguments.local_clients}
        overrides = replace(overrides, values=values)

    def algorithm() -> str:
        library = Library(folders.runs)
        if arguments.resume:
            return load_run_settings(library.find(arguments.resume).config).algorithm
        if arguments.from_checkpoint:
            return load_run_settings(find_checkpoint(library, arguments.from_checkpoint) / CONFIG).algorithm
        return combine(layers_of(folders, arguments.preset, [overrides])).algorithm

    with contextlib.suppress(SoulsGuiError):  # told by what starts the run
        warn_without_effect(overrides.values, algorithm)
    asked = ("idle", "preset", "resume", "name", "from_checkpoint", "seeds", "until_done", "as_json")
    trust = TRUST_ANY if arguments.trust else ""
    options = ServeOptions(overrides, trust=trust, **{name: getattr(arguments, name) for name in asked})
    try:
        return serve(folders, options)
    except RunNotAgreedError as error:
        if options.as_json or not (digest := agrees(error)):
            raise
    return serve(folders, replace(options, trust=digest))


def redis(arguments: Arguments) -> int:
    """`redis`: the server with the generated configuration, until it is stopped."""
    from soulsgui.config.layers import load_settings
    from soulsgui.runner.access.access_control import user_lines
    from soulsgui.runner.access.invitations import Invitations
    from soulsgui.runner.server.redis_server import ensure_server, refuse_a_second

    folders = folders_of(arguments)
    settings = load_settings(folders, assignments=arguments.assignments)
    refuse_a_second(folders)
    invitations = Invitations(folders.invited)
    if invitations.damage:
        say(f"The list of invited clients is lost: {invitations.damage}", sys.stderr)
    users = user_lines(invitations.hashes, settings.redis.prefix)
    server = ensure_server(folders, settings.redis, users)
    # In a session of its own: asked twice, by the terminal and by us, it would end without saving.
    process = subprocess.Popen(server.argv, **new_session_kwargs())
    for number in stop_signals():
        signal.signal(number, lambda *_: terminate_group(process.pid))
    return process.wait()


def relay(arguments: Arguments) -> int:
    """`relay`: passes on what comes to a socket to the server of `redis.url`."""
    from soulsgui.runner.server.external import run_relay

    return run_relay(arguments.url_file, str(arguments.socket))


def gateway(arguments: Arguments) -> int:
    """`gateway`: lets clients in to the server of a runner."""
    from soulsgui.runner.server.gateway import run_gateway

    folder = (arguments.server_file or folders_of(arguments).server_address).parent
    return run_gateway(_address(arguments), folder, arguments.lan, arguments.public)


def exporter(arguments: Arguments) -> int:
    """`exporter`: what Prometheus and Grafana read."""
    from soulsgui.config.layers import load_settings
    from soulsgui.telemetry.sinks.exporter import run_exporter

    folders = folders_of(arguments)
    settings = load_settings(folders, assignments=arguments.assignments)
    return run_exporter(folders, settings.exporter, _address(arguments))


def trainer(arguments: Arguments) -> int:
    """`trainer`: the training node of a run."""
    from soulsgui.process import leave

    run, address = _run(arguments), _address(arguments)
    # torch takes a second: not before it is clear that there is something to train. Hardly anything that it
    # makes meanwhile goes again, so nothing is gained by looking for garbage among it, now or later.
    gc.disable()
    from soulsgui.training.nodes import run_trainer

    gc.freeze()
    gc.enable()
    leave(run_trainer(run, address, arguments.checkpoint))


def telemetry(arguments: Arguments) -> int:
    """`telemetry`: the telemetry node of a run."""
    from soulsgui.telemetry.node import run_telemetry

    return run_telemetry(_run(arguments), _address(arguments))


def evaluator(arguments: Arguments) -> int:
    """`evaluator`: the evaluator of a run."""
    from soulsgui.modes.evaluator import run_evaluator

    return run_evaluator(_run(arguments), _address(arguments))


def inference(arguments: Arguments) -> int:
    """`inference`: an inference server of the run that goes on."""
    from soulsgui.modes.seed.inference_server import run_inference_server

    if not inference_number(arguments.name):
        raise UsageError(f"--name {arguments.name}: expected inference-1, or inference- with another number.")
    return run_inference_server(_address(arguments), arguments.name)


def sink(arguments: Arguments) -> int:
    """`sink`: takes what a run records elsewhere."""
    from soulsgui.telemetry.sinks.process import run_sink

    server = (arguments.server_file or folders_of(arguments).server_address).parent
    return run_sink(arguments.sink, _run(arguments), _address(arguments), server)


def join(arguments: Arguments) -> int:
    """`join`: the runner of client mode, or what is asked of the one that goes on."""
    from soulsgui.cli import joined

    if joined.is_asked(arguments):
        return joined.ask(arguments)
    from soulsgui.cli.inviting import check_name, take_up
    from soulsgui.runner.join.app import join
    from soulsgui.runner.join.servers import SavedInvitations

    if arguments.here and arguments.invitation:
        raise UsageError(
            "--here plays for the server on this computer: it can't be combined with an invitation."
        )
    saved = SavedInvitations(folders_of(arguments))
    before = saved.find(saved.chosen_id)
    is_new = bool(arguments.invitation or arguments.here or arguments.address)
    if arguments.address and not arguments.invitation:
        if before is None or arguments.here:
            raise UsageError(
                "--address only works with an invitation.", "soulsgui join INVITATION --address HOST"
            )
        arguments.invitation = str(saved.path_of(before.server_id))
    if is_new:
        invitation = take_up(arguments) if arguments.invitation else None
    else:
        invitation = saved.chosen()
        if invitation is not None:
            check_name(arguments, invitation)
    if invitation is not None and not arguments.watched:
        joined.agree(arguments, saved, invitation)
    if is_new:
        saved.choose(invitation)
        if joined.takes_over(arguments, before, invitation):
            return 0
    name = _client_name(arguments) if invitation is None else invitation.client
    return join(folders_of(arguments), name, arguments.watched, invitation, arguments.idle)


def client(arguments: Arguments) -> int:
    """`client`: plays for a server."""
    for option, least in {"num_envs": 1, "episodes": 1, "simulate": 1, "workers": 0}.items():
        value = getattr(arguments, option)
        if value is not None and value < least:
            raise UsageError(f"--{option.replace('_', '-')} should be at least {least}, not {value}.")
    if arguments.simulate is not None:
        return _fleet(arguments)
    if arguments.invitation:
        return _invited_client(arguments)
    if arguments.trust:
        raise UsageError("--trust only works with an invitation.")
    name, address = _client_name(arguments), _address(arguments)
    from soulsgui.process import is_supervised, start_over

    return _play(arguments, name, address, None if is_supervised() else start_over)


def _play(arguments: Arguments, name: str, address: Address, start_anew: Callable[[], None] | None) -> int:
    from soulsgui.process import setup_logging
    from soulsgui.wire.messages.owner import ClientFolder, read_rules

    owner = ClientFolder(arguments.state_dir) if arguments.state_dir is not None else None
    shows_game = False
    if arguments.agreement is not None:
        folder = owner or ClientFolder(folders_of(arguments).client)
        rules = read_rules(folder.rules)
        shows_game = rules.shows_game
        if not rules.writes_anywhere:
            # Before the libraries of the client begin threads, which would be free.
            confine(folder.writable)
            setup_logging()
            if not why_not_confined():
                logger.info("by its owner's rules, what runs here may only write in %s", folder.writable)
    from soulsgui.sampling.client import ClientOptions, run_client

    options = ClientOptions(
        num_envs=arguments.num_envs,
        episodes=arguments.episodes,
        workers=arguments.workers,
        inference=arguments.inference,
        agreement=arguments.agreement,
        shows_game=shows_game,
    )
    return run_client(address, name, options, owner, start_anew)


def _fleet(arguments: Arguments) -> int:
    if arguments.invitation or arguments.episodes is not None:
        raise UsageError("--simulate can't be combined with an invitation or --episodes.")
    if not 0 < arguments.rate <= _LARGEST_RATE:
        raise UsageError(f"--rate should be above 0 and at most {_LARGEST_RATE:,.0f}, not {arguments.rate}.")
    address = _address(arguments)
    from soulsgui.sampling.simulate import run_fleet

    name = arguments.name or "sim"
    return run_fleet(address, name, arguments.simulate, arguments.rate, arguments.num_envs or 1)


def _invited_client(arguments: Arguments) -> int:
    """Play for the server of an invitation, wherever it is found."""
    from soulsgui.cli.inviting import take_up
    from soulsgui.cli.joined import agree
    from soulsgui.process import setup_logging, start_over, stop_on_signals
    from soulsgui.runner.join.finder import find_server
    from soulsgui.runner.join.servers import SavedInvitations

    if arguments.server or arguments.server_file:
        raise UsageError(
            "An invitation says where the server is: it can't be combined with --server or --server-file."
        )
    invitation = take_up(arguments)
    saved = SavedInvitations(folders_of(arguments))
    agree(arguments, saved, invitation)
    setup_logging()
    address = find_server(invitation, stop_on_signals())
    if address is None:
        return 0
    arguments.agreement = saved.agreement_path(invitation)
    return _play(arguments, invitation.client, address, start_over)


def probe(_arguments: Arguments) -> int:
    """`probe`: examines the environment that standard input names; each line it writes is a message."""
    from soulsgui.process import asked

    with asked() as (wanted, send):
        from soulsgui.environments.check import check
        from soulsgui.environments.images import fit_report
        from soulsgui.environments.step import StepClock

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


def evaluation(_arguments: Arguments) -> int:
    """`evaluation`: plays a checkpoint, as its standard input asks."""
    from soulsgui.modes.evaluation_job import run_evaluation_job

    return run_evaluation_job()


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
    from soulsgui.training.group import run_learner

    leave(run_learner())


def job(arguments: Arguments) -> int:
    """`job WORK`: does a piece of work, as standard input asks; `figure` draws a run when that ends."""
    if arguments.work == "figure":
        from soulsgui.telemetry.figure import main

        return main(arguments.run, arguments.ahead)
    from soulsgui.process import asked

    with asked() as (request, send):

        def tell(doing: str, part: float) -> None:
            send({"doing": doing, "part": part})

        try:
            send({"report": _WORK[arguments.work](request, tell)})
        except SoulsGuiError as error:
            send({"error": {"message": error.message, "remedy": error.remedy}})
        except OSError as error:
            message, remedy = explained(error)
            send({"error": {"message": message, "remedy": remedy}})
    return 0


def _export_run(request: dict[str, str], tell: Callable[[str, float], None]) -> dict[str, str]:
    from soulsgui.runner.run.bundle import export_run

    return {"checked": export_run(RunFolder(Path(request["run"])), Path(request["target"]), tell)}


def _import_run(request: dict[str, str], tell: Callable[[str, float], None]) -> dict[str, str]:
    from soulsgui.runner.run.bundle import import_run

    places = Path(request["source"]), Path(request["runs"])
    run = import_run(*places, request["name"], tell, request["aside"])
    return {"run": str(run.root)}


def _export_checkpoint(request: dict[str, str], tell: Callable[[str, float], None]) -> dict[str, str]:
    from soulsgui.modes.export import FORMATS

    export = FORMATS[request["format"]]
    return {"checked": export(Path(request["checkpoint"]), Path(request["target"]), tell)}


_WORK: Mapping[str, Callable[[dict[str, str], Callable[[str, float], None]], dict[str, str]]] = {
    "export-run": _export_run,
    "import-run": _import_run,
    "export-checkpoint": _export_checkpoint,
}
"""What `job` can be asked for."""


def _run(arguments: Arguments) -> RunFolder:
    for path in (Path(arguments.run), folders_of(arguments).runs / arguments.run):
        run = RunFolder(path.absolute())
        if run.config.exists():
            return run
    raise UsageError(
        f"{arguments.run} is not a run: it has no config.json.", "See the runs: soulsgui runs list"
    )


def _address(arguments: Arguments) -> Address:
    """Return the address in a file, or that of a server on this machine, whose password is the user's own."""
    folders = folders_of(arguments)
    if not getattr(arguments, "server", ""):
        return Address.read(arguments.server_file or folders.server_address)
    from soulsgui.config.layers import load_settings
    from soulsgui.runner.server.redis_server import read_or_make_password

    # As `status` says it; of our own server the file knows the certificate, too.
    host, colon, port = re.sub("^rediss?://", "", arguments.server).rpartition(":")
    host = host.strip("[]")
    wrong = "" if is_loopback(host) else "only servers on this machine can be joined this way."
    if not colon or not port.isdigit() or not 0 < int(port) < 65_536:
        wrong = "expected HOST:PORT."
    if wrong:
        raise UsageError(f"--server {arguments.server}: {wrong}", "For instance: 127.0.0.1:6379")
    if not folders.redis_secret.exists():
        raise UsageError(
            f"The password of the server is not here: there is no file {folders.redis_secret}.",
            "Give the folder of the server's settings: --config-dir DIR",
        )
    with contextlib.suppress(UsageError):
        ours = Address.read(folders.server_address)
        if ours.port == int(port):  # of a runner: its gateway is for those who were invited
            return ours
    settings = load_settings(folders, assignments=arguments.assignments)
    return Address(host, int(port), read_or_make_password(folders.redis_secret), settings.redis.prefix)


def _client_name(arguments: Arguments) -> str:
    return check_client_name(arguments.name) if arguments.name else name_of_machine()


_TIMEOUT_S = 3.0
_X11_PORT = 6000
_WITHOUT_WINDOW = "Start the server without a window: soulsgui serve"


def gui(arguments: Arguments) -> int:
    """`gui`: the window, until it is closed."""
    if arguments.assignments:
        raise UsageError(
            "--set only works with commands that start a run; the window has a page for settings.",
            "To save it: soulsgui config set KEY=VALUE",
        )
    refusal = without_screen(os.environ)
    if refusal:
        raise SoulsGuiError(refusal, _WITHOUT_WINDOW)
    gc.disable()  # imports leave no garbage; from then on the window collects it itself
    try:
        from soulsgui.gui.app import run_window
        from soulsgui.gui.preferences import Mode
    except ImportError as error:
        raise SoulsGuiError(
            f"The window can't be loaded: {error}",
            f"Set it up with: python3 packaging/bootstrap.py\n{_WITHOUT_WINDOW}",
        ) from error
    folders = folders_of(arguments)
    opened = _opened(arguments, folders) if arguments.invitation else ""
    return run_window(folders, Mode(arguments.mode) if arguments.mode else None, opened)


def _opened(arguments: Arguments, folders: Folders) -> str:
    """Return the path of the invitation that was opened; a damaged link as it is: the window says so.

    A link holds the secret, and everybody on this machine sees a command line: this process goes on under
    another one, which names a file.
    """
    from soulsgui.cli.inviting import go_on_with_file
    from soulsgui.gui.shell.instance import opened_file
    from soulsgui.wire.invitation import Invitation, is_link

    word: str = arguments.invitation
    if not is_link(word):
        return str(Path(word).absolute())
    try:
        invitation = Invitation.parse(word)
    except UsageError:
        return word
    path = opened_file(folders)
    path.parent.mkdir(parents=True, exist_ok=True)
    invitation.save(path)
    go_on_with_file(arguments.words, word, path)
    return str(path)


def without_screen(env: Mapping[str, str], platform: str = sys.platform) -> str:
    """Return why no window can be shown, empty when one can. Qt itself would end the process with a crash."""
    if env.get("QT_QPA_PLATFORM"):
        return ""
    if not has_screen(env, platform):
        return "There is no screen here: neither DISPLAY nor WAYLAND_DISPLAY is set."
    display = env.get("DISPLAY", "")
    if platform == "linux" and not env.get("WAYLAND_DISPLAY") and not _answers(display):
        return f"There is no screen here: nothing answers at DISPLAY={display}."
    return ""


def _answers(display: str) -> bool:
    """Whether an X server listens: `:0` on this machine, `host:10.0` (SSH) over TCP."""
    found = re.fullmatch(r"(.*):(\d+)(?:\.\d+)?", display)
    if found is None:
        return False
    host, number = found[1], int(found[2])
    try:
        if host not in ("", "unix"):
            socket.create_connection((host, _X11_PORT + number), _TIMEOUT_S).close()
            return True
        with socket.socket(socket.AF_UNIX) as local:
            local.connect(f"/tmp/.X11-unix/X{number}")
    except OSError:
        return False
    return True
