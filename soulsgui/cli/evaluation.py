"""`evaluate`: how good a checkpoint plays, on this computer, with or without a runner."""

import asyncio
import os
import shutil
import sys
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from soulsgui.cli.output import agrees, answer, check_target, folders_of, say, show_progress
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import overrides_of, runner_of, typed, wait_for
from soulsgui.config.layers import combine, layers_of
from soulsgui.config.parsing import parse_assignments
from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings
from soulsgui.environments.spaces import report_lines
from soulsgui.errors import ProcessFault, UsageError
from soulsgui.runner.run.agreed import AgreedRuns, RunNotAgreedError
from soulsgui.runner.run.checkpoints import copy_whole
from soulsgui.runner.run.evaluations import settings_to_play
from soulsgui.runner.run.library import Library, find_checkpoint
from soulsgui.runner.run.scores import keep_evaluation
from soulsgui.runner.run.start import examine
from soulsgui.runner.status_text import count_words
from soulsgui.system import atomic_write, kill_descendants
from soulsgui.wire.api_client import CommandFailedError
from soulsgui.wire.control import Evaluated, Job
from soulsgui.wire.manifest import CONFIG, Manifest
from soulsgui.wire.messages.server_config import algorithm_name

_MOST_EPISODES = 1_000_000
_SHOW_EVERY_S = 1.0
_PART_BYTES = 2**20


def evaluate(arguments: Arguments) -> int:
    """`evaluate`: plays episodes with a checkpoint and says what they gave."""
    if not 1 <= arguments.episodes <= _MOST_EPISODES:
        raise UsageError(
            f"--episodes should be at least 1 and at most {_MOST_EPISODES:,}, not {arguments.episodes:,}."
        )
    if arguments.seed < 0:
        raise UsageError(f"--seed should be at least 0, not {arguments.seed}.")
    from soulsgui.modes.video import check_video, video

    target = Path(arguments.video).absolute() if arguments.video else None
    if target is not None:
        check_video(target.name)
        check_target(target, "--video")
    path = find_checkpoint(Library(folders_of(arguments).runs), arguments.checkpoint)
    agreed = AgreedRuns(folders_of(arguments))
    with TemporaryDirectory(prefix="soulsgui-", ignore_cleanup_errors=True) as folder:
        # Whoever trains may put another one into its place meanwhile.
        aside = Path(folder, path.name)
        info = copy_whole(path, aside, memory=False)
        settings = _agreed_settings(agreed, path, aside, info, arguments)
        # Late: what is wrong with the command line is said before Gymnasium is imported.
        from soulsgui.modes.evaluate import Asked, evaluate_checkpoint

        def end_hanging(fault: ProcessFault) -> None:
            shutil.rmtree(folder, ignore_errors=True)
            _end_hanging(fault)

        # What is killed while it plays leaves nothing beside the target.
        made = None if target is None else Path(folder, target.name)
        with nullcontext() if made is None else video(made) as film:
            try:
                show = None if film is None else lambda frame: film.add(frame())
                greedy = not arguments.stochastic
                asked = Asked(arguments.episodes, arguments.seed, greedy, _Progress(), show)
                found, report = evaluate_checkpoint(aside, info, settings, asked, end_hanging)
            finally:
                show_progress("")
        if target is not None and made is not None:
            with made.open("rb") as whole:
                atomic_write(target, iter(partial(whole.read, _PART_BYTES), b""))
    report["checkpoint"] = str(path)
    notes = [found.cut_words]
    if not arguments.assignments:
        _keep(folders_of(arguments).runs.resolve(), path.resolve(), report)
    if film is not None:
        report["video"] = str(target)
        notes += [f"video: {target}", film.words]
    return answer(arguments, report, _words(report, *filter(None, notes)))


def _keep(runs: Path, path: Path, report: dict[str, Any]) -> None:
    """Keep what a checkpoint of the library came to with its run."""
    if runs in path.parents:
        run, *checkpoint = path.relative_to(runs).parts
        keep_evaluation(RunFolder(runs / run), Evaluated.model_validate(report), "/".join(checkpoint))


def _end_hanging(fault: ProcessFault) -> None:
    """End this process, whose main thread is in an environment that does not answer."""
    show_progress("")
    remedy = "Fix it, or allow more time: --set client.hang_seconds=SECONDS"
    say(f"{fault.message}\n{fault.details}{remedy}", sys.stderr)
    sys.stderr.flush()
    kill_descendants()
    os._exit(1)


class _Progress:
    """Shows how far an evaluation is, once a second."""

    def __init__(self) -> None:
        self._next = time.monotonic() + _SHOW_EVERY_S

    def __call__(self, episodes: int, steps: int) -> None:
        if (now := time.monotonic()) >= self._next:
            self._next = now + _SHOW_EVERY_S
            show_progress(f"{count_words(episodes, 'episode')} have ended, {count_words(steps, 'step')} made")


def _agreed_settings(
    agreed: AgreedRuns, path: Path, aside: Path, info: Manifest, arguments: Arguments
) -> Settings:
    """Return the settings to play with, once somebody has agreed to what they have executed."""
    changes = parse_assignments(arguments.assignments)
    settings, asks = settings_to_play(agreed, aside if CONFIG in info.files else path, info, changes)
    if asks is not None and not arguments.trust:
        error = RunNotAgreedError(f"The checkpoint {path}", asks)
        if arguments.as_json or not agrees(error):
            raise error
    if asks is not None:
        agreed.agree(settings)
    return settings


def on_server(arguments: Arguments) -> int:
    """`checkpoints evaluate`: the server plays, beside its run, and sends the video."""
    target = Path(arguments.video).absolute() if arguments.video else None
    if target is not None and target.suffix.lower() not in (".mp4", ".gif"):
        raise UsageError(f"{target.name}: the name of a video should end with .mp4 or .gif.")
    if target is not None:
        check_target(target, "--video")
    runner = runner_of(arguments)
    params = typed(arguments, "checkpoint.evaluate")
    params |= {"overrides": overrides_of(arguments), "video": target.suffix.lower()[1:] if target else ""}

    def play(trust: str) -> Job:
        job = runner.command("checkpoint.evaluate", params | {"trust": trust or params["trust"]})
        return wait_for(runner, Job.model_validate(job))

    try:
        job = play("")
    except CommandFailedError as error:
        if arguments.as_json or not (digest := agrees(error)):
            raise
        job = play(digest)
    report, notes = job.result, list(job.result["notes"])
    if target is not None:
        atomic_write(target, runner.fetch(job.files[0].id))
        report["video"] = str(target)
        notes.append(f"video: {target}")
    return answer(arguments, report, _words(report, *notes))


def _words(report: dict[str, Any], *notes: str) -> str:
    how = "greedy" if report["greedy"] else "stochastic"
    lengths, episodes = report["lengths"], count_words(report["episodes"], "episode")
    algorithm = algorithm_name(report["algorithm"], report["agent"])
    lines = [
        f"{report['checkpoint']}",
        f"{report['env_id']}, {algorithm}, model {report['model_id']} after "
        f"{count_words(report['env_steps'], 'step')}; {episodes}, {how}, from seed {report['seed']}, "
        f"in {report['seconds']:.1f} s",
        f"mean return {report['mean_return']:.2f} ± {report['std_return']:.2f} "
        f"(from {report['min_return']:.2f} to {report['max_return']:.2f})",
        f"mean length {report['mean_length']:.1f} (from {min(lengths)} to {max(lengths)})",
    ]
    return "\n".join([*lines, *notes])


def check(arguments: Arguments) -> int:
    """`env check`: what the environment shows and takes, how fast it is, and what is wrong with it."""
    overrides = [parse_assignments(arguments.assignments)]
    if arguments.env_id:
        overrides.append(parse_assignments([f"env.id={arguments.env_id}"], "the argument ID"))
    layers = layers_of(folders_of(arguments), arguments.preset, overrides)
    settings = combine(layers)
    try:
        report = asyncio.run(examine(settings, show_progress))
    finally:
        show_progress("")
    if not report["ok"]:
        written: dict[str, str] = {}
        for layer in layers[1:]:
            lines = {key: f", line {line}" for key, line in layer.lines.items()}
            written |= {key: f"{layer.source}{lines.get(key, '')}" for key in layer.values}
        told = ("env.id", "env.kwargs", "env.wrappers")
        report["places"] = {key: written[key] for key in told if key in written}
    answer(arguments, report, "\n".join(report_lines(report)))
    return 0 if report["ok"] else 1
