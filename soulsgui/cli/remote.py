"""Commands that ask the runner of the data folder."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from soulsgui.cli.output import folders_of, log_line, room, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.cli.runner import RunnerClient, client_id, join_of, runner_of
from soulsgui.errors import ServerTimeoutError, ServerUnreachableError, SoulsGuiError, UsageError
from soulsgui.printable import printable
from soulsgui.wire.api_client import COMMAND_TIMEOUT_S, CONTROL_FILE, CommandFailedError
from soulsgui.wire.control import ClientLog, ControlFile, ErrorCode, Status

_WATCH_EVERY_S = 1.0
_LOOK_EVERY_S = 0.5
_IN_FILE = (
    "The observations of its replay memory lie in a file of the run's folder (learner.memory_limit): they "
    "are of use only if training stops right there, with checkpoint.with_buffer."
)
_AS_SOON = "as soon as the trainer can; watch it: soulsgui status"


def status(arguments: Arguments) -> int:
    """`status`: what the server does, once or every second; without one, what plays here for another."""
    runners = _runners(arguments)
    while True:
        if arguments.as_json:
            say_json(runners[0][0].status())
        else:
            texts = [words(runner.status()) for runner, words in runners]
            if arguments.watch and sys.stdout.isatty():
                sys.stdout.write("\x1b[2J\x1b[H")
            say("\n\n".join(texts))
        if not arguments.watch:
            return 0
        sys.stdout.flush()
        time.sleep(_WATCH_EVERY_S)


def _runners(arguments: Arguments) -> list[tuple[RunnerClient, Callable[[dict[str, Any]], str]]]:
    """Return who can be asked here, the server's runner first, each with what makes words of its status.

    Raises:
        ServerUnreachableError: Neither a server runs here, nor does this computer play for one.
    """
    from soulsgui.runner.join.words import join_text
    from soulsgui.runner.words import status_text, wrapped

    def of_join(told: dict[str, Any]) -> str:
        return "\n".join(wrapped(join_text(Status.model_validate(told)).split("\n"), room()))

    ways: list[tuple[Callable[[], RunnerClient], Callable[[dict[str, Any]], str]]] = [
        (lambda: runner_of(arguments), lambda told: status_text(told, room())),
        (lambda: join_of(folders_of(arguments)), of_join),
    ]
    found = []
    missing: list[ServerUnreachableError] = []
    for way, words in ways:
        try:
            runner = way()
            # The place of one that has ended stays behind.
            runner.status()
            found.append((runner, words))
        except ServerUnreachableError as error:
            missing.append(error)
    if not found:
        raise missing[0]
    return found


def control(arguments: Arguments) -> int:
    """`control`: how to reach the runner, for tunnels."""
    client = runner_of(arguments)
    found = client.control
    hello = client.command("server.hello")
    if arguments.as_json:
        say_json(found.model_dump(mode="json"))
    else:
        say(f"{found.url}  server {hello['server_id']}  version {hello['version']}  process {hello['pid']}")
    return 0


def call(arguments: Arguments) -> int:
    """`call`: any command, with its answer as JSON."""
    try:
        params = json.loads(arguments.params)
    except ValueError as error:
        raise UsageError(f"The parameters are not JSON: {error}", "For instance: '{\"count\": 2}'") from error
    if not isinstance(params, dict):
        raise UsageError("The parameters are no JSON object.", "For instance: '{\"count\": 2}'")
    say_json(runner_of(arguments).command(arguments.name, params))
    return 0


def run_start(arguments: Arguments) -> int:
    """`run start`: begin a new run."""
    params = {
        "preset": arguments.preset,
        "name": arguments.name,
        "note": arguments.note,
        "overrides": _overrides(arguments),
        "if_active": _if_active(arguments),
    }
    return _begin(runner_of(arguments), "run.start", params, "started")


def run_resume(arguments: Arguments) -> int:
    """`run resume`: go on with a run."""
    params = {
        "run": arguments.run,
        "checkpoint": arguments.checkpoint,
        "without_goal": arguments.without_goal,
        "overrides": _overrides(arguments),
        "if_active": _if_active(arguments),
    }
    return _begin(runner_of(arguments), "run.resume", params, "resumed")


def run_stop(arguments: Arguments) -> int:
    """`run stop`: save and end the run."""
    return _say_run(runner_of(arguments).command("run.stop"), "stopped")


def run_pause(arguments: Arguments) -> int:
    """`run pause`: let the run rest."""
    done = runner_of(arguments).command("run.pause")["done"]
    say("the run is paused; go on with: soulsgui run continue" if done else f"it pauses {_AS_SOON}")
    return 0


def run_continue(arguments: Arguments) -> int:
    """`run continue`: let a paused run go on."""
    done = runner_of(arguments).command("run.continue")["done"]
    say("the run goes on" if done else f"it goes on {_AS_SOON}")
    return 0


def _begin(runner: RunnerClient, command: str, params: dict[str, Any], done: str) -> int:
    """Begin a run; one that is slow to start is waited for, and what it does meanwhile is told."""
    try:
        return _say_run(runner.command(command, params), done)
    except (CommandFailedError, ServerUnreachableError) as error:
        slow = not isinstance(error, CommandFailedError) or error.code == ErrorCode.NO_ANSWER
        if not slow or (run := runner.status()["run"])["state"] != "starting":
            raise
    begun, told = run["id"], ""
    _progress(f"{begun} is still starting; it goes on by itself, also after Ctrl+C: soulsgui status")
    # A run that fails is saved and ended before it is called so.
    while run["id"] == begun and run["state"] in ("starting", "saving"):
        if run["detail"] != told:
            told = run["detail"]
            _progress(f"  {told}")
        time.sleep(_LOOK_EVERY_S)
        run = runner.status()["run"]
    if run["id"] != begun or run["state"] in ("none", "stopped", "failed"):
        why = run["error"] if run["id"] == begun else ""
        raise SoulsGuiError(f"{begun} did not start. {why}".rstrip(), "See what happened: soulsgui events")
    return _say_run({"run_id": run["id"], "run_dir": run["dir"]}, done)


def _progress(words: str) -> None:
    sys.stderr.write(f"{printable(words)}\n")


def _say_run(result: dict[str, Any], what: str) -> int:
    say(f"{what} {result['run_id']} ({result['run_dir']})")
    return 0


def _if_active(arguments: Arguments) -> str:
    return "stop" if arguments.stop_active else "refuse"


def _overrides(arguments: Arguments) -> dict[str, Any]:
    """Return the settings a run is to have, by dotted key."""
    local = {} if arguments.local_clients is None else {"clients.local": arguments.local_clients}
    if not arguments.assignments:
        return local
    from soulsgui.config.errors import ConfigError
    from soulsgui.config.layers import parse_assignments

    layer = parse_assignments(arguments.assignments)
    if layer.problems:
        raise ConfigError(list(layer.problems))
    return layer.values | local


def quicksave(arguments: Arguments) -> int:
    """`quicksave`: save a checkpoint and say where."""
    wanted = {"note": arguments.note, "buffer": arguments.buffer}
    saved = runner_of(arguments).command("checkpoint.save", wanted)["checkpoint"]
    if arguments.as_json:
        say_json(saved)
    else:
        memory = ", with its replay memory" if saved["memory"] else ""
        say(f"saved {saved['path']} ({saved['env_steps']:,} steps, {saved['size_bytes']:,} bytes{memory})")
        if saved["memory_in_file"]:
            sys.stderr.write(f"{_IN_FILE}\n")
        elif arguments.buffer and not saved["memory"]:
            sys.stderr.write("There is no replay memory in it: the algorithm of this run keeps none.\n")
    return 0


def clients(arguments: Arguments) -> int:
    """`clients list`: everyone on the roster."""
    from soulsgui.runner.words import client_rows

    found = runner_of(arguments).status()["clients"]
    if arguments.as_json:
        say_json(found)
    else:
        say(client_rows(found, room()))
    return 0


def wish(arguments: Arguments) -> int:
    """`clients pause|resume|drain|stop`: what a client is wanted to do."""
    runner = runner_of(arguments)
    client = client_id(runner, arguments.client)
    runner.command(f"clients.{arguments.wish}", {"client": client})
    say(f"{arguments.client}: {arguments.wish} is wished")
    return 0


def forget(arguments: Arguments) -> int:
    """`clients forget`: take a client that is gone off the list."""
    runner = runner_of(arguments)
    client = client_id(runner, arguments.client)
    runner.command("clients.forget", {"client": client})
    say(f"{arguments.client} is forgotten")
    return 0


def client_log(arguments: Arguments) -> int:
    """`clients log`: what a client wrote last."""
    runner = runner_of(arguments)
    params = {"client": client_id(runner, arguments.client), "n": min(max(arguments.n, 1), 1000)}
    found = ClientLog.model_validate(runner.command("clients.log", params))
    if arguments.as_json:
        say_json(found.model_dump(mode="json"))
        return 0
    for line in found.lines:
        say(log_line(line))
    if not found.lines:
        say(
            f"{arguments.client} has written nothing yet."
            if found.whole
            else f"{arguments.client} has told of no trouble; the rest of its log is on its own computer."
        )
    return 0


def rename(arguments: Arguments) -> int:
    """`clients rename`: what a client is called on screen."""
    runner = runner_of(arguments)
    client = client_id(runner, arguments.client)
    runner.command("clients.rename", {"client": client, "name": arguments.name})
    say(f"{arguments.client} is called {arguments.name or arguments.client}")
    return 0


def release(arguments: Arguments) -> int:
    """`clients release`: let a client that was cut off send again."""
    runner = runner_of(arguments)
    client = client_id(runner, arguments.client)
    runner.command("clients.release", {"client": client})
    say(f"{arguments.client} is released")
    return 0


def rejects(arguments: Arguments) -> int:
    """`clients rejects`: the last chunks that were refused."""
    from soulsgui.runner.words import reject_rows

    runner = runner_of(arguments)
    client = client_id(runner, arguments.client)
    found = runner.command("clients.rejects", {"client": client})["rejects"]
    if arguments.as_json:
        say_json(found)
    else:
        say(reject_rows(found))
    return 0


def shutdown(arguments: Arguments) -> int:
    """`shutdown`: end the clients, the run, or everything; returns when it is done."""
    client = _runner_to_end(arguments)
    if arguments.what == "run":
        return run_stop(arguments)
    if arguments.what == "clients":
        gone = ("left", "lost", "refused", "revoked")
        found = client.status()["clients"]
        # Of those who were invited and never came there is nobody to ask.
        here = [one for one in found if one["age_s"] is not None or one.get("invited") is None]
        names = [one["id"] for one in here if one["state"] not in gone]
        for name in names:
            client.command("clients.stop", {"client": name})
        say(f"{len(names)} clients are asked to stop")
        return 0
    client.command("server.shutdown")
    wait_for_end(client.control)
    say("the server has ended")
    return 0


def _runner_to_end(arguments: Arguments) -> RunnerClient:
    try:
        return runner_of(arguments)
    except ServerUnreachableError as error:
        if (folders_of(arguments).client / CONTROL_FILE).exists():
            raise ServerUnreachableError(
                f"{error.message} But this computer plays for a server.", "End that: soulsgui join stop"
            ) from error
        raise


def wait_for_end(runner: ControlFile) -> None:
    """Return once a runner has ended.

    Raises:
        ServerTimeoutError: It has not in time.
    """
    from soulsgui.process import still_runs

    deadline = time.monotonic() + COMMAND_TIMEOUT_S
    while still_runs(runner.pid, runner.process):
        if time.monotonic() > deadline:
            raise ServerTimeoutError(
                f"The runner (process {runner.pid}) has not ended within {COMMAND_TIMEOUT_S:.0f} s.",
                "Look at its log: soulsgui logs runner",
            )
        time.sleep(0.05)
