"""`sweep start|status|best|stop`: asked of the runner."""

import json
import shlex
from pathlib import Path
from typing import Any

from soulsgui.cli.output import answer
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import assigned, runner_of
from soulsgui.config.parsing import read_settings, read_value
from soulsgui.errors import UsageError
from soulsgui.runner.status_text import return_words, table
from soulsgui.wire.control import SweepStatus


def start(arguments: Arguments) -> int:
    """`sweep start`: search values of settings."""
    space = _space_of(arguments.space_file) if arguments.space_file is not None else {}
    for one in arguments.space:
        key, there, asked = one.partition("=")
        if not there:
            raise UsageError(f"--space {one}: expected a key and its range, such as ppo.clip=0.1..0.3")
        space[key] = asked
    if not space:
        raise UsageError("There is nothing to search.", "For instance: --space ppo.clip=0.1..0.3")
    names = ("trials", "parallel", "sampler", "pruner", "score", "name", "preset")
    params = {name: getattr(arguments, name) for name in names}
    params |= {"space": space, "overrides": assigned(arguments.assignments)}
    told = SweepStatus.model_validate(runner_of(arguments).command("sweep.start", params))
    crowded = f"{told.crowded}: they slow each other down\n" if told.crowded else ""
    return answer(
        arguments, told, f"{crowded}started sweep {told.id}; see its progress: soulsgui sweep status"
    )


def _space_of(path: Path) -> dict[str, Any]:
    found, why = read_value(read_settings(path)) if path.exists() else (None, "is not there.")
    if why or not isinstance(found, dict):
        why = why or "does not contain a map of settings."
        raise UsageError(f"{path} {why}", "For instance: ppo.learning_rate: 0.0001..0.01:log")
    return found


def status(arguments: Arguments) -> int:
    """`sweep status`: its trials."""
    told = _sweep(arguments)
    return answer(arguments, told, _text(told))


def stop(arguments: Arguments) -> int:
    """`sweep stop`: end the one that goes on."""
    told = SweepStatus.model_validate(runner_of(arguments).command("sweep.stop"))
    return answer(arguments, told, _text(told))


def best(arguments: Arguments) -> int:
    """`sweep best`: how the best trial is made again, as it is typed."""
    told = _sweep(arguments)
    if told.best is None:
        raise UsageError(f"No trial of {told.id} is complete yet.", "See its progress: soulsgui sweep status")
    again = ["soulsgui run start", *([f"--preset {shlex.quote(told.preset)}"] if told.preset else [])]
    for key, value in (told.overrides | told.best.values).items():
        again.append(f"--set {shlex.quote(f'{key}={json.dumps(value)}')}")
    words = f"trial {told.best.number} ({told.best.run_id}): {_number(told.best.score)}"
    return answer(arguments, told.best, f"{words}\n{' '.join(again)}")


def _sweep(arguments: Arguments) -> SweepStatus:
    return SweepStatus.model_validate(
        runner_of(arguments).command("sweep.status", {"sweep": arguments.sweep})
    )


def _text(told: SweepStatus) -> str:
    rows = [
        [
            str(one.number),
            one.state,
            _number(one.score),
            "  ".join(f"{key}={_short(value)}" for key, value in one.values.items()),
            one.run_id,
        ]
        for one in told.trials
    ]
    done = sum(one.state not in ("running", "waiting") for one in told.trials)
    lines = [
        f"Sweep {told.id}  {told.env_id}  {told.algorithm}  {told.state}: {done} of {told.wanted} trials "
        f"({told.sampler}, {told.pruner}{f', {told.parallel} at a time' if told.parallel > 1 else ''})",
        table(rows, ("TRIAL", "STATE", told.score.upper(), "SETTINGS", "RUN")),
    ]
    if told.best is not None:
        lines.append(f"best: trial {told.best.number}, {_number(told.best.score)}")
    if told.importance:
        shares = (f"{key} {share:.0%}" for key, share in told.importance.items())
        lines.append(f"importance: {', '.join(shares)}")
    return "\n".join(line for line in lines if line)


def _number(value: float | None) -> str:
    return "" if value is None else return_words(value)


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else json.dumps(value)
