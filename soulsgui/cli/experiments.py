"""`experiments list|show|compare`: asked of the runner, or read from the data folder without one."""

import csv
import io
from collections.abc import Sequence

from soulsgui.cli.output import answer, check_target, folders_of, say
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import RunnerClient
from soulsgui.config.paths import RunFolder
from soulsgui.errors import ServerUnreachableError, UsageError
from soulsgui.installing import how_to_install
from soulsgui.runner.run.experiments import compare, experiments, find
from soulsgui.runner.run.library import Library
from soulsgui.runner.status_text import count_words, return_words, table
from soulsgui.system import atomic_write
from soulsgui.telemetry.store import query_history
from soulsgui.wire.api_client import CONTROL_FILE
from soulsgui.wire.control import Experiment, ExperimentList, HistoryQueryParams
from soulsgui.wire.messages.server_config import algorithm_name

_POINTS = 1000
_CSV = ("experiment", "env_id", "algorithm", "agent", "run", "seed", "state", "env_steps", "score")


def _found(arguments: Arguments) -> list[Experiment]:
    if getattr(arguments, "figure", None) is not None:
        check_target(arguments.figure, "--figure")
    folders = folders_of(arguments)
    try:
        client = RunnerClient(folders.server / CONTROL_FILE)
        told = client.command("experiments.list", {"score": arguments.score})
        return ExperimentList.model_validate(told).experiments
    except ServerUnreachableError:  # nothing goes on
        return experiments(Library(folders.runs).summaries(None), (), arguments.score)


def listing(arguments: Arguments) -> int:
    """`experiments list`."""
    found = _found(arguments)
    return answer(
        arguments, found, _rows(found) or "There is no experiment yet: soulsgui run start --seeds 5"
    )


def show(arguments: Arguments) -> int:
    """`experiments show`: each run, and statistics over them."""
    found = find(_found(arguments), arguments.experiment)
    rows = [
        [run.id, str(run.seed), run.state, f"{run.env_steps:,}", _number(getattr(run, found.score))]
        for run in found.runs
    ]
    text = f"{table(rows, ('RUN', 'SEED', 'STATE', 'STEPS', found.score.upper()))}\n\n{_rows([found])}"
    return _answer(arguments, found, [found], text)


def comparison(arguments: Arguments) -> int:
    """`experiments compare`: side by side, with the probability of improvement."""
    known = _found(arguments)
    chosen = [find(known, name) for name in arguments.experiments]
    if len({one.id for one in chosen}) < max(len(chosen), 2):
        raise UsageError("Name at least two experiments to compare, each once.")
    found = compare(chosen)
    lines = [
        f"P({one.better} > {one.than}) = {one.probability:.2f}  [{one.low:.2f}, {one.high:.2f}]"
        for one in found.improvements
    ]
    return _answer(arguments, found, chosen, "\n".join([_rows(chosen), "", *lines]))


def _answer(arguments: Arguments, document: object, chosen: Sequence[Experiment], text: str) -> int:
    if arguments.figure is not None:
        _draw(arguments, chosen)
    if arguments.csv:
        say(_csv(chosen))
        return 0
    return answer(arguments, document, text)


def _draw(arguments: Arguments, chosen: Sequence[Experiment]) -> None:
    """Draw the runs that are over, along their steps, into the file that was named."""
    from soulsgui.telemetry.figure import draw_experiments

    runs = folders_of(arguments).runs
    curves = {
        one.id: [curve for run in one.runs if run.reached and (curve := _curve(RunFolder(runs / run.id)))]
        for one in chosen
    }
    if not all(curves.values()):
        raise UsageError("An experiment has no finished run with a curve.", "Wait until one has ended.")
    try:
        png = draw_experiments(curves, chosen[0].env_id)
    except ImportError as error:
        raise UsageError(
            "matplotlib is not installed here.", f"Install it: {how_to_install('matplotlib')}"
        ) from error
    atomic_write(arguments.figure, png)


def _curve(run: RunFolder) -> tuple[list[int], list[float]] | None:
    """Return steps and mean returns of a run, without what a resume has overwritten; None for none."""
    asked = HistoryQueryParams(metric="mean_return", x="env_step", points=_POINTS)
    found = query_history(run.store, asked)
    kept = [place for place, gone in enumerate(found.overwritten) if not gone]
    return ([found.env_steps[at] for at in kept], [found.value[at] for at in kept]) if kept else None


def _rows(found: Sequence[Experiment]) -> str:
    rows = [
        [
            one.id,
            one.env_id,
            algorithm_name(one.algorithm, one.agent),
            count_words(len(one.runs), "run") + (f", {one.waiting} to come" if one.waiting else ""),
            str(one.scored),
            _number(one.mean) + (f" ± {_number(one.deviation)}" if one.deviation is not None else ""),
            _number(one.iqm),
            f"[{_number(one.low)}, {_number(one.high)}]" if one.scored else "",
        ]
        for one in found
    ]
    heads = ("EXPERIMENT", "ENVIRONMENT", "ALGORITHM", "RUNS", "SCORED", "MEAN", "IQM", "95 %")
    return table(rows, heads)


def _number(value: float | None) -> str:
    return "" if value is None else return_words(value)


def _csv(chosen: Sequence[Experiment]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV)
    for one in chosen:
        about = one.id, one.env_id, one.algorithm, one.agent
        writer.writerows(
            (*about, run.id, run.seed, run.state, run.env_steps, getattr(run, one.score)) for run in one.runs
        )
    return text.getvalue().rstrip("\n")
