"""Commands that ask the runner of the data folder."""

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from soulsgui.cli.declaring import EMPTIES, typed_params
from soulsgui.cli.output import (
    agrees,
    answer,
    check_target,
    folders_of,
    log_line,
    moment,
    room,
    say,
    say_json,
    show_progress,
    warn_without_effect,
    yes,
)
from soulsgui.cli.parser import GROUPS, Arguments
from soulsgui.errors import ServerTimeoutError, ServerUnreachableError, SoulsGuiError, UsageError
from soulsgui.wire.api_client import COMMAND_TIMEOUT_S, CONTROL_FILE, ApiClient, CommandFailedError
from soulsgui.wire.control import (
    COMMANDS,
    START_ONE,
    CheckpointList,
    ClientLog,
    ControlFile,
    ErrorCode,
    Job,
    JobList,
    RunComparison,
    RunDetails,
    Status,
)

_WATCH_EVERY_S = 1.0
_LOOK_EVERY_S = 0.5
_IN_FILE = (
    "The observations of its replay memory are in a file in the run's folder (learner.memory_limit): they "
    "can only be used if training stops right then, with checkpoint.with_buffer."
)
_AS_SOON = "as soon as the trainer can; watch it: soulsgui status"


class RunnerClient(ApiClient):
    """Speaks with the runner of a data folder, and notices when somebody else has its place by now."""

    agent = "SoulsGUI command line"

    def __init__(self, path: Path, start: str = START_ONE) -> None:
        self.control = ControlFile.load(path)
        self._path = path
        self._start = start
        super().__init__(self.control)

    def _request(
        self, method: str, path: str, body: str | BinaryIO | None, timeout_s: float
    ) -> dict[str, Any]:
        try:
            return super()._request(method, path, body, timeout_s)
        except SoulsGuiError as error:
            from soulsgui.process import still_runs  # late: nothing of it is needed when all is well

            if still_runs(self.control.pid, self.control.process):
                raise
            raise ServerUnreachableError(
                f"No runner is running for this data folder: the one in {self._path} ended unexpectedly.",
                self._start,
            ) from error


def join_of(arguments: Arguments) -> RunnerClient:
    """Return the way to the runner of client mode of a command's data folder."""
    path = folders_of(arguments).client / CONTROL_FILE
    begin = "Start: soulsgui join INVITATION (the link or .soulsgui file from the owner of a server)"
    if not os.path.exists(path):  # noqa: PTH110 - a Path raises where the name is too long
        raise ServerUnreachableError(f"This computer plays for nobody ({path} is missing).", begin)
    return RunnerClient(path, begin)


def runner_of(arguments: Arguments) -> RunnerClient:
    """Return the way to the runner of a command's data folder."""
    return RunnerClient(folders_of(arguments).server / CONTROL_FILE)


def status(arguments: Arguments) -> int:
    """`status`: what the server does, once or every second, and what plays here for another one."""
    from soulsgui.cli.joined import join_text
    from soulsgui.runner.status_text import status_text, wrapped

    def of_join(told: dict[str, Any]) -> str:
        return "\n".join(wrapped(join_text(Status.model_validate(told)).split("\n"), room()))

    runners: list[tuple[RunnerClient, Callable[[dict[str, Any]], str]]] = []
    missing: list[ServerUnreachableError] = []
    for find, words in ((runner_of, lambda told: status_text(told, room())), (join_of, of_join)):
        try:
            runner = find(arguments)
            runner.status()  # the control file of one that has ended stays behind
            runners.append((runner, words))
        except ServerUnreachableError as error:
            missing.append(error)
    if not runners:
        raise missing[0]
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


def control(arguments: Arguments) -> int:
    """`control`: how to reach the runner, for tunnels."""
    client = runner_of(arguments)
    found = client.control
    hello = client.command("server.hello")
    told = f"{found.url}  server {hello['server_id']}  version {hello['version']}  process {hello['pid']}"
    code = answer(arguments, found, told)
    if arguments.hold:
        sys.stdout.flush()
        sys.stdin.read()
    return code


def call(arguments: Arguments) -> int:
    """`call`: any command, with its answer as JSON."""
    try:
        params = json.loads(arguments.params)
    except RecursionError as error:
        raise UsageError("The parameters are nested too deeply.") from error
    except ValueError as error:
        at = getattr(error, "pos", 0) + 1
        raise UsageError(
            f"The parameters are not JSON: look at character {at}.", "For instance: '{\"count\": 2}'"
        ) from error
    if not isinstance(params, dict):
        raise UsageError("The parameters are not a JSON object.", "For instance: '{\"count\": 2}'")
    if arguments.name not in COMMANDS:
        from soulsgui.runner.refusal import unknown_command  # late: it takes a while to import

        word = arguments.name.partition(".")[0]
        of_api = word in {name.partition(".")[0] for name in COMMANDS}
        own = not of_api and any(word in group for group in GROUPS.values())
        raise unknown_command(arguments.name, f"soulsgui {word}" if own else "")
    say_json(runner_of(arguments).command(arguments.name, params))
    return 0


def plain(arguments: Arguments) -> int:
    """Run a command of the API's table with typed parameters and print its result."""
    if getattr(arguments, "output", None):
        check_target(arguments.output, "--output")
    runner = runner_of(arguments)
    params = typed(arguments, arguments.command)
    if arguments.command in EMPTIES and not (params.get("path", params["run"]) or arguments.without_asking):
        whose = "" if arguments.command == "runs.purge" else f" of the run {params['run']}"
        if not yes(f"Delete everything in the bin{whose} for good?"):
            raise UsageError("You did not agree: nothing was deleted.", "To skip this question: --yes")
    if params.get("client"):
        # Names are unambiguous: the runner lets no client be called as another one, or by another one's id.
        ids = {one[name]: one["id"] for name in ("name", "id") for one in runner.status()["clients"]}
        params["client"] = ids.get(params["client"], params["client"])
    if arguments.command in ("run.pause", "clients.pause"):
        arguments.paused_before = _is_paused(runner.status(), params.get("client"))
    result = runner.command(arguments.command, params)
    if COMMANDS[arguments.command].job:
        from soulsgui.system import atomic_write  # late: what asks a runner needs nothing of the system

        job = wait_for(runner, Job.model_validate(result))
        result = job.result
        for file in job.files:
            arguments.output = arguments.output or Path(file.name)
            atomic_write(arguments.output, runner.fetch(file.id))
    said = _SAID[arguments.command]
    words = said.format(**{**vars(arguments), **result}) if isinstance(said, str) else said(arguments, result)
    if words:
        say(words)
    return 0


def import_run(arguments: Arguments) -> int:
    """`runs import`: takes a run from a file into the library of the server."""
    path: Path = arguments.file
    if path.is_dir():
        raise UsageError(
            f"{path} is a folder: runs are imported from .soulsrun files.",
            f"Export it there: soulsgui runs export. To see a run play: soulsgui evaluate {path}",
        )
    if not path.exists():
        raise UsageError(f"There is no file {path}.", "Export it: soulsgui runs export RUN")
    runner = runner_of(arguments)
    with path.open("rb") as file:
        brought = runner.bring(file)
    job = runner.command("runs.import", {"file": brought, "name": arguments.name})
    found = wait_for(runner, Job.model_validate(job)).result
    goes_on = found["resumable"] and not found["allowed"]["run.resume"]
    then = "resume it: soulsgui run resume" if goes_on else "look at it: soulsgui runs show"
    say(f"imported {found['id']}; {then} {found['id']}")
    return 0


def wait_for(runner: RunnerClient, job: Job) -> Job:
    """Return a job when it is done, showing what it does; whoever stops waiting cancels it."""
    try:
        while job.state == "running":
            part = "" if job.part is None else f"{job.part:4.0%} "
            show_progress(f"{part}{job.progress}")
            time.sleep(_LOOK_EVERY_S)
            job = runner.job(job.id)
    except KeyboardInterrupt:
        runner.command("job.cancel", {"job": job.id})
        raise
    finally:
        show_progress("")
    if job.error is not None:
        raise CommandFailedError(job.error)
    if job.state == "cancelled":
        raise SoulsGuiError(f"{job.command} was cancelled.")
    return job


def typed(arguments: Arguments, command: str) -> dict[str, Any]:
    """Return the parameters that were typed; a number that is out of bounds means the nearest one within."""
    params = COMMANDS[command].params
    found = {name: getattr(arguments, name) for name, _ in typed_params(params)}
    for name, value in found.items():
        if isinstance(value, int):
            for bound in params.model_fields[name].metadata:
                value = min(max(value, getattr(bound, "ge", value)), getattr(bound, "le", value))
            found[name] = value
    return found


def begin(arguments: Arguments) -> int:
    """`run start`, `run resume`: one that is slow to start is waited for, and what it does meanwhile told."""
    runner, command = runner_of(arguments), arguments.command
    done = "resumed {run_id} ({run_dir})" if command == "run.resume" else "started {run_id} ({run_dir})"
    try:
        overrides = overrides_of(arguments)
        params = typed(arguments, arguments.command) | {"overrides": overrides}
        try:
            result = runner.command(command, params)
        except CommandFailedError as error:
            if not (digest := agrees(error)):
                raise
            result = runner.command(command, params | {"trust": digest})
        said = done.format(**result) if result["run_id"] else ""
        say("\n".join(part for part in (said, _queued_words(result)) if part))
        warn_without_effect(overrides, lambda: str(runner.status()["run"]["algorithm"]))
        return 0
    except (CommandFailedError, ServerUnreachableError) as error:
        slow = not isinstance(error, CommandFailedError) or error.code == ErrorCode.NO_ANSWER
        if not slow or (run := runner.status()["run"])["state"] != "starting":
            raise
    begun, told = run["id"], ""
    _progress(f"{begun} is still starting, and continues also after Ctrl+C; see: soulsgui status")
    # A run that fails is saved and ended before it is called so.
    while run["id"] == begun and run["state"] in ("starting", "saving"):
        if run["detail"] != told:
            told = run["detail"]
            _progress(f"  {told}")
        time.sleep(_LOOK_EVERY_S)
        run = runner.status()["run"]
    if run["id"] != begun or run["state"] in ("none", "stopped", "failed"):
        why = run["error"] if run["id"] == begun else ""
        raise SoulsGuiError(f"{begun} did not start. {why}".rstrip(), "See the events: soulsgui events")
    say(done.format(run_id=run["id"], run_dir=run["dir"]))
    warn_without_effect(overrides_of(arguments), lambda: str(run["algorithm"]))
    return 0


def _queued_words(result: dict[str, Any]) -> str:
    """Say which runs wait in the queue now, and of which experiment they are."""
    numbers = result.get("queued", [])
    several = f"queued as {numbers[0]} to {numbers[-1]}" if len(numbers) > 1 else ""
    waits = several or (f"queued as {numbers[0]}" if numbers else "")
    experiment = f"experiment {result['experiment']}" if result.get("experiment") else ""
    return "; ".join(part for part in (waits, experiment) if part)


def hyper(arguments: Arguments) -> int:
    """`hyper set`: other values of live settings for the run that goes on."""
    runner, values = runner_of(arguments), assigned(arguments.values, "hyper set")
    say(_applied_words(runner.command("config.apply", {"keys": values})))
    return 0


def _applied_words(result: dict[str, Any]) -> str:
    change = result["change"]
    if change is None:
        return f"it takes effect {_AS_SOON}"
    words = (
        f"{key} = {json.dumps(new)} (was {json.dumps(change['before'][key])})"
        for key, new in change["after"].items()
    )
    return f"{', '.join(words)}: from update {change['update'] + 1:,} on"


def _progress(words: str) -> None:
    say(words, sys.stderr)


def overrides_of(arguments: Arguments) -> dict[str, Any]:
    """Return what was set on the command line, by dotted key."""
    count = getattr(arguments, "local_clients", None)
    local = {} if count is None else {"clients.local": count}
    return assigned(arguments.assignments) | local if arguments.assignments else local


def assigned(assignments: Sequence[str], source: str = "--set") -> dict[str, Any]:
    """Return settings that were typed, by dotted key."""
    from soulsgui.config.errors import ConfigError
    from soulsgui.config.parsing import parse_assignments

    layer = parse_assignments(assignments, source)
    if layer.problems:
        raise ConfigError(list(layer.problems))
    return layer.values


def _is_paused(status: dict[str, Any], client: str | None) -> bool:
    if client is None:
        return bool(status["run"]["wished_pause"])
    return any(one["id"] == client and one["wish"] == "pause" for one in status["clients"])


def _tell_pause(arguments: Arguments, result: dict[str, Any]) -> str:
    held = "was paused already" if arguments.paused_before else "is paused"
    return f"the run {held}; continue: soulsgui run continue" if result["done"] else f"it pauses {_AS_SOON}"


def _tell_queue(arguments: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import queue_rows

    said = queue_rows(result["queue"]) or "The queue is empty."
    if getattr(arguments, "as_json", False):
        say_json(result["queue"])
        return ""
    return said


def _tell_save(arguments: Arguments, result: dict[str, Any]) -> str:
    saved = result["checkpoint"]
    if arguments.as_json:
        say_json(saved)
        return ""
    memory = ", with its replay memory" if saved["memory"] else ""
    say(f"saved {saved['path']} ({saved['env_steps']:,} steps, {saved['size_bytes']:,} bytes{memory})")
    if saved["memory_in_file"]:
        say(_IN_FILE, sys.stderr)
    elif arguments.buffer and not saved["memory"]:
        say("It has no replay memory: the algorithm of this run uses none.", sys.stderr)
    return ""


def _tell_usage(arguments: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import usage_rows

    answer(arguments, result, usage_rows(result))
    return ""


def _tell_reach(arguments: Arguments, told: dict[str, Any]) -> str:
    places = ", ".join(f"{host}:{port}" for host, port in told["addresses"])
    lines = [f"invitations name {places}"]
    lines += [f"soulsgui invite {client} --reissue" for client in told["reissue"]]
    if told["reissue"]:
        lines.insert(1, "earlier invitations name another port; give these computers new ones:")
    if arguments.lan == "off":
        lines.append("other computers are no longer let in; those that were connected are cut off")
    return "\n".join(lines)


def _tell_log(arguments: Arguments, result: dict[str, Any]) -> str:
    found = ClientLog.model_validate(result)
    nothing = (
        f"{arguments.client} has written nothing yet."
        if found.whole
        else f"{arguments.client} has reported no problems; the rest of its log is on its own computer."
    )
    answer(arguments, found, "\n".join(map(log_line, found.lines)) or nothing)
    return ""


def _tell_rejects(arguments: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import reject_rows

    answer(arguments, result["rejects"], reject_rows(result["rejects"]))
    return ""


def _tell_verified(arguments: Arguments, result: dict[str, Any]) -> str:
    found = CheckpointList.model_validate(result).checkpoints
    damaged = [f"{info.id} is damaged: {info.error}" for info in found if not info.valid]
    whole = f"{len(found) - len(damaged)} of {len(found)} checkpoints are valid"
    answer(arguments, found, "\n".join([*damaged, whole]) if found else "There is no checkpoint yet.")
    return ""


def _tell_run(arguments: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import count_words, spread_words

    found = RunDetails.model_validate(result)
    run = found.run
    lines = [
        f"{run.id}  {run.name}  {run.env_id}  {run.algorithm} {run.agent}".rstrip(),
        f"{run.state}, {run.env_steps:,} steps, {run.episodes:,} episodes, {run.seconds:.0f} s",
        f"mean return of the best model {run.best_mean_return}" * (run.best_mean_return is not None),
        "pinned" * run.pinned,
        run.note,
        run.error,
        "versions  " + ", ".join(f"{name} {version}" for name, version in found.versions.items()),
        f"checkpoints  {', '.join(info.id for info in found.checkpoints) or 'none'}",
        *(
            f"evaluated  {moment(one.time)}  {one.checkpoint or 'in training'}, model {one.model_id}: "
            f"{spread_words(one)} over {count_words(one.episodes, 'episode')} from seed {one.seed}"
            for one in found.evaluations
        ),
        f"settings  soulsgui runs show {run.id} --json",
    ]
    answer(arguments, found, "\n".join(filter(None, lines)))
    return ""


def _tell_comparison(arguments: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import table

    found = RunComparison.model_validate(result)
    told = {
        "environment": [run.env_id for run in found.runs],
        "steps": [f"{run.env_steps:,}" for run in found.runs],
        "episodes": [f"{run.episodes:,}" for run in found.runs],
        "seconds": [f"{run.seconds:.0f}" for run in found.runs],
        "mean return of the best model": [f"{run.best_mean_return}" for run in found.runs],
    }
    told |= {key: [json.dumps(value) for value in values] for key, values in found.settings.items()}
    rows = [[key, *values] for key, values in told.items()]
    answer(arguments, found, table(rows, ["", *(run.id for run in found.runs)]))
    return ""


def _edited(arguments: Arguments, what: str, *options: str) -> str:
    if any(getattr(arguments, name) is not None for name in options):
        return f"{what} is changed"
    return f"{what} is unchanged; options: {', '.join(f'--{name}' for name in options)}"


def _freed(_: Arguments, result: dict[str, Any]) -> str:
    from soulsgui.runner.status_text import size_words

    return f"{size_words(result['freed_bytes'])} are free now"


def _tell_jobs(arguments: Arguments, result: dict[str, Any]) -> str:
    found = JobList.model_validate(result).jobs
    lines = [f"{job.id}  {job.command}  {job.state}  {_job_words(job)}".rstrip() for job in found]
    answer(arguments, found, "\n".join(lines) or "There are no jobs yet.")
    return ""


def _job_words(job: Job) -> str:
    if job.error is not None:
        return job.error.message
    return job.progress if job.state == "running" else ""


_CANCELLED = {"cancelled": "is cancelled", "done": "was done already", "failed": "had failed already"}

_SAID: dict[str, str | Callable[[Arguments, dict[str, Any]], str]] = {
    "run.stop": "stopped {run_id} ({run_dir})",
    "run.queue.list": _tell_queue,
    "run.queue.move": _tell_queue,
    "run.queue.remove": _tell_queue,
    "config.undo": lambda _, told: _applied_words(told),
    "run.pause": _tell_pause,
    "run.continue": lambda _, told: "the run continues" if told["done"] else f"it continues {_AS_SOON}",
    "checkpoint.save": _tell_save,
    "runs.show": _tell_run,
    "runs.compare": _tell_comparison,
    "runs.edit": lambda asked, told: _edited(asked, told["id"], "name", "note", "pin"),
    "runs.trash": "{id} is in the bin; restore it: soulsgui runs restore {id}",
    "runs.restore": "{id} is back",
    "runs.purge": _freed,
    "runs.export": "wrote {output}: {checked}",
    "server.usage": _tell_usage,
    "server.set": _tell_reach,
    "checkpoint.verify": _tell_verified,
    "checkpoint.load": lambda _, told: f"the run continues from {told['checkpoint']['id']}",
    "checkpoint.edit": lambda asked, told: _edited(asked, told["checkpoint"]["id"], "note", "pin"),
    "checkpoint.export": "wrote {output}: {checked}",
    "checkpoint.trash": "{path} is in the bin; restore it: soulsgui checkpoints restore {path} --run {run}",
    "checkpoint.restore": lambda _, told: f"{told['checkpoint']['id']} is back",
    "checkpoint.purge": _freed,
    "job.list": _tell_jobs,
    "job.cancel": lambda asked, told: f"{asked.job} {_CANCELLED[told['job']['state']]}",
    "clients.pause": lambda asked, _: (
        f"{asked.client}: {'it was paused already' if asked.paused_before else 'pause requested'}"
    ),
    "clients.resume": "{client}: resume requested",
    "clients.drain": "{client}: drain requested",
    "clients.stop": "{client}: stop requested",
    "clients.rename": lambda asked, _: f"{asked.client} is now called {asked.name or asked.client}",
    "clients.forget": "{client} is forgotten",
    "clients.log": _tell_log,
    "alerts.test": "The test reached {place}: HTTP status {status}.",
    "clients.release": "{client} is released",
    "clients.purge": lambda asked, told: (
        f"{told['transitions']:,} transitions of {asked.client} were removed from the replay memory"
    ),
    "clients.rejects": _tell_rejects,
    "clients.revoke": lambda asked, told: (
        f"{asked.client} is revoked and cut off{'' if told['cut_off'] else ' as soon as Redis answers'}."
    ),
}
"""What is said when a command of the table is done: a template for its parameters and result, or how.

What is empty was said already.
"""


def clients(arguments: Arguments) -> int:
    """`clients list`: everyone on the roster."""
    from soulsgui.runner.status_text import client_rows

    found = runner_of(arguments).status()["clients"]
    return answer(arguments, found, client_rows(found, room()))


def shutdown(arguments: Arguments) -> int:
    """`shutdown`: end the clients, the run, or everything; returns when it is done."""
    try:
        client = runner_of(arguments)
    except ServerUnreachableError as error:
        if not (folders_of(arguments).client / CONTROL_FILE).exists():
            raise
        raise ServerUnreachableError(
            f"{error.message} However, this computer plays for a server.",
            "Stop that: soulsgui join stop",
        ) from error
    if arguments.what == "run":
        arguments.command = "run.stop"
        return plain(arguments)
    if arguments.what == "clients":
        gone = ("left", "lost", "refused", "revoked")
        found = client.status()["clients"]
        # Of those who were invited and never came there is nobody to ask.
        here = [one for one in found if one["age_s"] is not None or one.get("invited") is None]
        names = [one["id"] for one in here if one["state"] not in gone]
        for name in names:
            client.command("clients.stop", {"client": name})
        say(f"{len(names)} clients were asked to stop")
        return 0
    client.command("server.shutdown")
    wait_for_end(client.control)
    say("the server has stopped")
    return 0


def wait_for_end(runner: ControlFile) -> None:
    """Return once a runner has ended."""
    from soulsgui.process import still_runs

    deadline = time.monotonic() + COMMAND_TIMEOUT_S
    while still_runs(runner.pid, runner.process):
        if time.monotonic() > deadline:
            raise ServerTimeoutError(
                f"The runner (process {runner.pid}) has not stopped within {COMMAND_TIMEOUT_S:.0f} s.",
                "Look at its log: soulsgui logs runner",
            )
        time.sleep(0.05)
