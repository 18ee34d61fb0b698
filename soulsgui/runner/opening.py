"""What must be there before the services of a run are started: its configuration, folder, record, spaces."""

import json
import logging
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from soulsgui.config.errors import ConfigError
from soulsgui.config.layers import Layer, combine, unknown_key
from soulsgui.config.load import layers_of
from soulsgui.config.paths import Folders, RunFolder
from soulsgui.config.schema import Settings
from soulsgui.config.settings_info import all_settings
from soulsgui.installing import NO_TORCH, can_train, how_to_train
from soulsgui.runner.library import Library
from soulsgui.runner.refusal import Refused
from soulsgui.runner.run import CHECKING, Reached, RunRecord
from soulsgui.system import atomic_write
from soulsgui.wire.control import ErrorCode, RunStartParams
from soulsgui.wire.messages.base import Message

logger = logging.getLogger(__name__)

RESUME_FROM = "resume_from"
"""File in a run's folder: the checkpoint (its path below that folder) the trainer is to begin from."""


_ACTIVE_FILE = "active_run.json"


class ActiveRun(Message):
    """`active_run.json`: which run goes on, for the runner after a crash of this one.

    Attributes:
        run_id: The run.
        clients: Names of the clients the server starts itself.
        began: When this attempt began, seconds since the epoch.
        seconds_before: How long the run had gone on before it.
        ending: Why it is being ended; empty while it is not.
        error: What is wrong with it, when that is why.
        saves: Whether it is saved at its end.
    """

    run_id: str
    clients: list[str]
    began: float = 0.0
    seconds_before: float = 0.0
    ending: Reached = ""
    error: str = ""
    saves: bool = True

    def seconds(self, wall_time: float) -> float:
        """Return how long the run has gone on; a clock that was set back counts as nothing."""
        return self.seconds_before + max(wall_time - self.began, 0.0)


def remember_active(folders: Folders, active: ActiveRun | None) -> None:
    """Write down which run goes on; None when none does.

    Raises:
        OSError: It can't be written.
    """
    path = folders.server / _ACTIVE_FILE
    if active is None:
        path.unlink(missing_ok=True)
    else:
        atomic_write(path, active.to_json().encode())


def left_run(folders: Folders, library: Library) -> tuple[ActiveRun, RunFolder, Settings] | None:
    """Return the run that went on when the last runner ended, None when none did or it can't be read."""
    try:
        left = ActiveRun.read((folders.server / _ACTIVE_FILE).read_bytes())
        run = RunFolder(folders.runs / left.run_id) if left is not None else None
        if left is None or run is None or not run.run.exists():
            return None
        return left, run, library.settings(run)
    except FileNotFoundError:
        return None
    except ConfigError as error:
        logger.error("the run that went on can't be taken over: %s", error)
        return None


def override_layer(values: Mapping[str, Any], source: str = "overrides") -> Layer:
    """Return settings by dotted key as the layer above all others."""
    known = all_settings()
    problems = tuple(unknown_key(source, None, key) for key in values if key not in known)
    return Layer(source, {key: value for key, value in values.items() if key in known}, problems=problems)


def effective_settings(folders: Folders, params: RunStartParams, base: Layer) -> Settings:
    """Return the configuration that a run would start with.

    Args:
        folders: The user's folders.
        params: What was asked for.
        base: What the runner itself was started with (`--set`); the request's own values win over it.

    Raises:
        ConfigError: With every mistake.
    """
    return combine(layers_of(folders, params.preset, [base, override_layer(params.overrides)]))


def refuse_without_torch() -> None:
    """Make sure that this computer can train.

    Raises:
        Refused: There is none.
    """
    if not can_train():
        raise Refused(ErrorCode.NOT_NOW, NO_TORCH, f"To train here: {how_to_train()}")


def new_run(
    library: Library, settings: Settings, params: RunStartParams, wall_time: float
) -> tuple[RunFolder, RunRecord]:
    """Make folder, configuration and record of a new run; if that fails, nothing of it is left.

    Raises:
        OSError: They can't be written.
    """
    run = library.create(params.name, wall_time)
    try:
        return run, _written(library, run, settings, params, wall_time)
    except BaseException:
        shutil.rmtree(run.root, ignore_errors=True)
        raise


def _written(
    library: Library, run: RunFolder, settings: Settings, params: RunStartParams, wall_time: float
) -> RunRecord:
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
    return record


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
    """Write what the probe found where the trainer looks for it.

    Raises:
        OSError: It can't be written.
    """
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
    """Let the trainer begin from this checkpoint until the choice is taken back; empty takes it back.

    Args:
        run: The run.
        checkpoint: Path below the run's folder.

    Raises:
        OSError: It can't be written.
    """
    if checkpoint:
        atomic_write(run.root / RESUME_FROM, checkpoint.encode())
    else:
        (run.root / RESUME_FROM).unlink(missing_ok=True)


def chosen_checkpoint(run: RunFolder) -> Path | None:
    """Return the checkpoint that was chosen for the trainer to begin from, None for the newest."""
    try:
        return run.root / (run.root / RESUME_FROM).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
