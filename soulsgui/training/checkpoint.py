"""Checkpoints: folders that appear whole or not at all, with a manifest that names every file's hash.

A checkpoint holds only safetensors and JSON; nothing in it is executed when it is loaded.
"""

import hashlib
import json
import logging
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from soulsgui.config.paths import RunFolder
from soulsgui.config.schema import Settings, public_tree
from soulsgui.errors import CheckpointError
from soulsgui.system import no_room, no_room_words, recover_dir, replace_dir
from soulsgui.training.publisher import TrainingPosition
from soulsgui.wire.manifest import (
    CONFIG,
    MANIFEST,
    MEMORY,
    NOTE,
    Manifest,
    ManifestFile,
    packed_manifest,
    read_manifest,
    verify,
)

logger = logging.getLogger(__name__)

_WEIGHTS = "weights.safetensors"
_AGENT = "agent.safetensors"
_STATE = "state.json"
_ASIDE = ".new"

Tensors = Mapping[str, NDArray[Any]]


class UnsavedError(CheckpointError):
    """A checkpoint could not be saved; nothing that was there before is lost."""

    def __init__(self, target: Path, reason: str, disk_full: bool = False) -> None:
        remedy = "Free some space there" if disk_full else "Fix that"
        super().__init__(
            f"The checkpoint {target} could not be saved: {reason}", f"{remedy}; older ones are kept."
        )
        self.reason = reason
        self.disk_full = disk_full


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint in memory, of one instant; without a state of the agent it holds weights alone."""

    info: Manifest
    weights: Tensors
    agent: Tensors = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    note: str = ""
    memory: Tensors = field(default_factory=dict)
    settings: Settings | None = None


def manifest_of(
    settings: Settings,
    run_id: str,
    attempt: int,
    position: TrainingPosition,
    spaces: dict[str, Any],
    policy: dict[str, Any],
    **told: Any,
) -> Manifest:
    """Return what a checkpoint says of itself; `told` is what it is for and how good it is."""
    return Manifest(
        run_id=run_id,
        attempt=attempt,
        model_id=position.model_id,
        updates=position.update,
        env_steps=position.env_steps,
        episodes=position.episodes,
        algorithm=settings.algorithm,
        agent=settings.agent,
        env_id=settings.env.id,
        spaces=spaces,
        policy=policy,
        created=time.time(),
        **told,
    )


def write_checkpoint(target: Path, checkpoint: Checkpoint, keep: Sequence[Path] = ()) -> None:
    """Write a checkpoint in the place of `target`; an older one there survives until this one is whole.

    Then it goes into the first place of `keep` (`system.replace_dir`).
    """
    aside = target.with_name(f".{target.name}.{secrets.token_hex(4)}{_ASIDE}")
    try:
        aside.mkdir(parents=True)
        files = {_WEIGHTS: _tensor_bytes(checkpoint.weights), _STATE: json.dumps(checkpoint.state).encode()}
        if checkpoint.agent:
            files[_AGENT] = _tensor_bytes(checkpoint.agent)
        if checkpoint.memory:
            files[MEMORY] = _tensor_bytes(checkpoint.memory)
        if checkpoint.settings is not None:
            files[CONFIG] = json.dumps(public_tree(checkpoint.settings), indent=1).encode()
        for name, data in files.items():
            (aside / name).write_bytes(data)
        hashes = {name: ManifestFile.of(data) for name, data in files.items()}
        manifest = checkpoint.info.model_copy(update={"files": hashes})
        (aside / MANIFEST).write_bytes(packed_manifest(manifest))
        if checkpoint.note:
            (aside / NOTE).write_text(checkpoint.note, encoding="utf-8")
        replace_dir(aside, target, keep=keep)
    except OSError as error:
        shutil.rmtree(aside, ignore_errors=True)
        full = no_room(error)
        # Said once the torn one is gone: so much is free that it did not fit into.
        raise UnsavedError(target, no_room_words(target.parent) if full else str(error), full) from error


def _tensor_bytes(tensors: Tensors) -> bytes:
    return safetensors.numpy.save({name: np.asarray(value, order="C") for name, value in tensors.items()})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and check every file against its manifest."""
    files: dict[str, bytes] = {}

    def keep_and_hash(file: Path) -> str:
        files[file.name] = file.read_bytes()
        return hashlib.sha256(files[file.name]).hexdigest()

    try:
        info = read_manifest(path)
        verify(path, info, keep_and_hash)
        state = json.loads(files[_STATE])
        if info.resumable and not ({"agent", "high_water"} <= set(state) and _AGENT in files):
            raise CheckpointError("it lacks a part of its state", "Use another checkpoint.")
        return Checkpoint(
            info=info,
            weights=safetensors.numpy.load(files[_WEIGHTS]),
            agent=safetensors.numpy.load(files[_AGENT]) if _AGENT in files else {},
            state=state,
            memory=safetensors.numpy.load(files[MEMORY]) if MEMORY in files else {},
        )
    except CheckpointError as error:
        raise CheckpointError(f"{path} can't be used: {error.message}.", error.remedy) from error
    except Exception as error:
        raise CheckpointError(f"{path} can't be read: {error}", "Use another checkpoint.") from error


def recover_checkpoints(run: RunFolder) -> None:
    """Put right what a crash left of a save; nobody else may be writing checkpoints of this run."""
    for place in (run.checkpoint, run.best_model, *run.older):
        recover_dir(place)
    for folder in (run.root, run.manual_saves, run.history):
        for torn in folder.glob(f".*{_ASIDE}"):
            shutil.rmtree(torn)


def newest_resumable(
    run: RunFolder, passed_over: Callable[[CheckpointError], object] = lambda _: None
) -> Path | None:
    """Return the newest whole checkpoint to go on from, None without any; where none is whole, it raises.

    One that was chosen goes before all others. Where the regular ones hold the replay memory, one with it
    goes before those of the same attempt without: a few updates are sooner made again than a memory filled.
    `passed_over` is told of each better one that is damaged.
    """
    recover_checkpoints(run)
    damaged: list[CheckpointError] = []

    def pass_over(error: CheckpointError, better: bool = True) -> None:
        logger.warning("passed over: %s", error)
        damaged.append(error)
        if better:
            passed_over(error)

    for path in _best_first(run, pass_over):
        try:
            read_checkpoint(path)
        except CheckpointError as error:
            pass_over(error)
        else:
            return path
    if damaged:
        raise CheckpointError(
            f"No checkpoint of {run.root} can be resumed: {damaged[0].message}",
            "Restore a valid one, or move the damaged ones away to start again.",
        )
    return None


def _best_first(run: RunFolder, pass_over: Callable[[CheckpointError, bool], None]) -> Iterator[Path]:
    """Yield what a run may go on from; the manifests are read only where the chosen one was not enough."""
    chosen = run.chosen
    if chosen is not None:
        yield chosen
    regular = [run.checkpoint, *run.older]
    asked_for = [path for folder in (run.manual_saves, run.history) for path in folder.glob("[!.]*")]
    found: dict[Path, Manifest] = {}
    for path in (*regular, run.best_model, *asked_for):
        if not path.is_dir() or path == chosen:
            continue
        try:
            info = read_manifest(path)
        except CheckpointError as error:
            damage = CheckpointError(f"{path} can't be used: {error.message}.", error.remedy)
            # Without its manifest only of the current one it is known that no other is newer.
            pass_over(damage, path == run.checkpoint)
        else:
            if info.resumable:
                found[path] = info
    newest = next((found[path] for path in regular if path in found), None)
    kept = newest is not None and MEMORY in newest.files and not newest.memory_in_file

    def rank(path: Path) -> tuple[int, bool, int, bool, Path]:
        info = found[path]
        memory = MEMORY in info.files
        return info.attempt, kept and memory, info.updates, memory, path

    yield from sorted(found, key=rank, reverse=True)
