"""What must be there before the services of a run are started: its configuration, folder, record, spaces."""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from soulsgui.config.layers import Layer, combine, unknown_key
from soulsgui.config.load import layers_of
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.config.settings_info import all_settings
from soulsgui.installing import NO_TORCH, can_train, how_to_train
from soulsgui.runner.library import Library
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run.record import CHECKING, RunRecord
from soulsgui.system import atomic_write
from soulsgui.wire.control import ErrorCode, RunStartParams

logger = logging.getLogger(__name__)

_RESUME_FROM = "resume_from"
"""File in a run's folder: the checkpoint (its path below that folder) the trainer is to begin from."""


def override_layer(values: Mapping[str, Any], source: str = "overrides") -> Layer:
    """Return settings by dotted key as the layer above all others."""
    known = all_settings()
    problems = tuple(unknown_key(source, None, key) for key in values if key not in known)
    return Layer(source, {key: value for key, value in values.items() if key in known}, problems=problems)


def effective_settings(folders: Folders, params: RunStartParams, base: Layer) -> Settings:
    """Return the configuration that a run would start with; its own values win over the runner's `base`."""
    return combine(layers_of(folders, params.preset, [base, override_layer(params.overrides)]))


def refuse_without_torch() -> None:
    """Make sure that this computer can train."""
    if not can_train():
        raise Refused(ErrorCode.NOT_NOW, NO_TORCH, f"To train here: {how_to_train()}")


def new_run(
    library: Library, settings: Settings, params: RunStartParams, wall_time: float
) -> tuple[RunFolder, RunRecord]:
    """Make folder, configuration and record of a new run; if that fails, nothing of it is left."""
    run = library.create(params.name, wall_time)
    try:
        record = RunRecord(
            id=run.run_id,
            name=params.name,
            note=params.note,
            dir=str(run.root),
            created=wall_time,
            number=library.next_number(),
            attempt=1,
            state="starting",
            detail=CHECKING,
            **goals(settings),
        )
        library.write_settings(run, settings)
        library.write_record(run, record)
    except BaseException:
        shutil.rmtree(run.root, ignore_errors=True)
        raise
    return run, record


def goals(settings: Settings) -> dict[str, Any]:
    """Return the fields of a record that its configuration tells."""
    return {
        "env_id": settings.env.id,
        "algorithm": settings.algorithm,
        "agent": settings.agent,
        "seed": settings.seed,
        "goal_return": settings.stop.mean_return,
        "goal_env_steps": settings.stop.env_steps,
        "goal_window": settings.stop.window,
        "goal_judged_by": settings.goal_judged_by,
        "local_clients": settings.clients.local,
    }


def write_spaces(run: RunFolder, report: Mapping[str, Any]) -> None:
    """Write what the probe found where the trainer looks for it."""
    atomic_write(run.spaces, json.dumps(report["spaces"], indent=1).encode())


def spaces_are_known(run: RunFolder) -> bool:
    """Whether what an earlier probe found can be read."""
    try:
        found = json.loads(run.spaces.read_bytes())
    except FileNotFoundError:
        return False
    except (OSError, ValueError, RecursionError) as error:
        logger.warning("%s is damaged (%r): the environment is probed again", run.spaces, error)
        return False
    return isinstance(found, dict) and all(isinstance(found.get(n), dict) for n in ("observation", "action"))


def choose_checkpoint(run: RunFolder, checkpoint: str) -> None:
    """Let the trainer begin from a checkpoint, by its path below the run's folder; empty takes that back."""
    if checkpoint:
        atomic_write(run.root / _RESUME_FROM, checkpoint.encode())
    else:
        (run.root / _RESUME_FROM).unlink(missing_ok=True)


def chosen_checkpoint(run: RunFolder) -> Path | None:
    """Return the checkpoint that was chosen for the trainer to begin from, None for the newest."""
    try:
        return run.root / (run.root / _RESUME_FROM).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
