"""Checkpoints: folders that appear whole or not at all, with a manifest that names every file's hash.

A checkpoint holds only safetensors and JSON; nothing in it is executed when it is loaded.
"""

import hashlib
import json
import logging
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from soulsgui.config.paths import RunFolder
from soulsgui.errors import CheckpointError
from soulsgui.system import recover_dir, replace_dir

logger = logging.getLogger(__name__)

FORMAT = 1
MANIFEST = "manifest.json"
NOTE = "note.txt"
_WEIGHTS = "weights.safetensors"
_AGENT = "agent.safetensors"
_STATE = "state.json"
_ASIDE = ".new"

Tensors = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class CheckpointInfo:
    """What a checkpoint says of itself.

    Attributes:
        kind: `current`, `best` or `manual`.
        score: Mean training return it was saved with, None when unknown.
        resumable: Whether it holds the whole state of the training, or weights alone.
        created: Seconds since the epoch.
    """

    run_id: str
    attempt: int
    model_id: int
    update: int
    env_steps: int
    episodes: int
    algorithm: str
    env_id: str
    spaces: dict[str, Any]
    policy: dict[str, Any]
    kind: str = "current"
    score: float | None = None
    resumable: bool = True
    created: float = field(default_factory=time.time)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory: everything of one instant between two updates.

    Attributes:
        weights: What clients need to act, by name.
        agent: State of the agent, by name; empty for weights alone.
        state: Counters, random states, high-water marks; JSON-able.
        note: What the user said about it.
    """

    info: CheckpointInfo
    weights: Tensors
    agent: Tensors = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    note: str = ""


def write_checkpoint(target: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint in the place of `target`; an older one there survives until this one is whole.

    Raises:
        CheckpointError: It could not be written, the disk being full for instance; nothing is lost.
    """
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_ASIDE}")
    try:
        aside.mkdir(parents=True)
        files = {_WEIGHTS: _tensor_bytes(checkpoint.weights), _STATE: json.dumps(checkpoint.state).encode()}
        if checkpoint.agent:
            files[_AGENT] = _tensor_bytes(checkpoint.agent)
        for name, data in files.items():
            (aside / name).write_bytes(data)
        (aside / MANIFEST).write_bytes(_manifest(checkpoint.info, files))
        if checkpoint.note:
            (aside / NOTE).write_text(checkpoint.note, encoding="utf-8")
        replace_dir(aside, target)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        raise CheckpointError(
            f"The checkpoint {target} could not be saved: {error}",
            "Free some disk space; older ones are kept.",
        ) from error


def _tensor_bytes(tensors: Tensors) -> bytes:
    return safetensors.numpy.save({name: np.asarray(value, order="C") for name, value in tensors.items()})


def _manifest(info: CheckpointInfo, files: Mapping[str, bytes]) -> bytes:
    said = asdict(info)
    said["updates"] = said.pop("update")
    hashes = {
        name: {"sha256": hashlib.sha256(data).hexdigest(), "size": len(data)} for name, data in files.items()
    }
    return json.dumps({"format": FORMAT, **said, "files": hashes}, indent=1).encode()


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and check every file against its manifest.

    Raises:
        CheckpointError: Something is missing, damaged, or of a newer format.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        if manifest["format"] > FORMAT:
            raise CheckpointError(
                f"{path} was saved by a newer version.", "Install that version to go on with it."
            )
        files = {}
        for name, expected in manifest.pop("files").items():
            data = (path / Path(name).name).read_bytes()
            if hashlib.sha256(data).hexdigest() != expected["sha256"]:
                raise CheckpointError(f"{path} is damaged: {name} has changed.", "Use another checkpoint.")
            files[name] = data
        del manifest["format"]
        info = CheckpointInfo(update=manifest.pop("updates"), **manifest)
        state = json.loads(files[_STATE])
        if info.resumable and not ({"agent", "high_water"} <= set(state) and _AGENT in files):
            raise CheckpointError(f"{path} lacks a part of its state.", "Use another checkpoint.")
        return Checkpoint(
            info=info,
            weights=safetensors.numpy.load(files[_WEIGHTS]),
            agent=safetensors.numpy.load(files[_AGENT]) if _AGENT in files else {},
            state=state,
        )
    except CheckpointError:
        raise
    except FileNotFoundError as error:
        raise CheckpointError(
            f"{path} is not a whole checkpoint: {Path(error.filename).name} is missing.",
            "Use another checkpoint.",
        ) from error
    except Exception as error:
        raise CheckpointError(f"{path} can't be read: {error}", "Use another checkpoint.") from error


def recover_checkpoints(run: RunFolder) -> None:
    """Put right what a crash left of a save; nobody else may be writing checkpoints of this run.

    Raises:
        OSError: It can't be done.
    """
    recover_dir(run.checkpoint)
    recover_dir(run.best_model)
    for folder in (run.root, run.manual_saves):
        for torn in folder.glob(f".*{_ASIDE}"):
            shutil.rmtree(torn)


def newest_resumable(run: RunFolder) -> Path | None:
    """Return the newest whole checkpoint of a run that training can go on from, None when there is none.

    Raises:
        OSError: What a crash left can't be put right.
    """
    recover_checkpoints(run)
    candidates = [run.checkpoint, run.best_model]
    if run.manual_saves.is_dir():
        candidates += [path for path in run.manual_saves.iterdir() if not path.name.startswith(".")]
    found: list[tuple[int, int, Path]] = []
    for path in candidates:
        if not (path / MANIFEST).exists():
            continue
        try:
            info = read_checkpoint(path).info
        except CheckpointError as error:
            logger.warning("passed over: %s", error)
            continue
        if info.resumable:
            found.append((info.attempt, info.update, path))
    return max(found)[2] if found else None
