"""The manifest of a checkpoint: its facts, and the hashes its files are verified with."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_core import PydanticCustomError

from soulsgui.errors import CheckpointError, printable
from soulsgui.wire.messages.base import Message, Moment
from soulsgui.wire.messages.heartbeat import Count

FORMAT = 1  # newest format of checkpoints known here

MANIFEST = "manifest.json"
CONFIG = "config.json"  # the configuration it was saved under; not in those of older versions
MEMORY = "memory.safetensors"  # the replay memory, in checkpoints that were asked to hold it
NOTE = "note.txt"  # what the user says of a checkpoint; it may change, so it has no hash

PINNED = "pinned"  # an empty file: what stands in the history with it is not thinned away

CheckpointKind = Literal["current", "best", "manual", "history", "watched"]
ScoredBy = Literal["", "training", "evaluation"]
"""What the score of a checkpoint is the mean return of: the last training episodes, or one evaluation."""

_REMEDY = "Use another checkpoint."
_OWN_HASH = "sha256"  # of all else that a manifest says; not in those of older versions


class ManifestFile(Message):
    """One file of a checkpoint."""

    sha256: str
    size: int

    @classmethod
    def of(cls, data: bytes) -> "ManifestFile":
        """Return the entry of a file with these contents."""
        return cls(sha256=hashlib.sha256(data).hexdigest(), size=len(data))


class Manifest(Message):
    """What a checkpoint says of itself.

    Attributes:
        agent: The agent of a family (`dqn.agent`, `sac.agent`); empty for others, and where an older version
            saved.
        spaces: `SpacesSpec.to_json()` of what it was trained on.
        score: Mean return it was saved with, None when unknown.
        scored_by: What that is the mean of; empty without one, and where an older version saved.
        created: Seconds since the epoch.
        resumable: Whether it holds the whole state of the training, or weights alone.
        memory_in_file: Whether the observations of its replay memory lie in a file of the run's folder, which
            goes on changing: they are of use to it only while training stands where it was saved.
    """

    format: int = FORMAT
    run_id: str
    attempt: Count
    model_id: Count
    updates: Count
    env_steps: Count
    episodes: Count
    algorithm: str
    agent: str = ""
    env_id: str
    spaces: dict[str, Any]
    policy: dict[str, Any]
    kind: CheckpointKind = "current"
    score: float | None = None
    scored_by: ScoredBy = ""
    created: Moment = 0.0
    resumable: bool = True
    memory_in_file: bool = False
    files: dict[str, ManifestFile] = Field(default_factory=dict)

    @field_validator("format")
    @classmethod
    def _known(cls, value: int) -> int:
        if value > FORMAT:
            raise PydanticCustomError(
                "newer", "it was saved by a newer version (format {format})", {"format": value}
            )
        return value


def packed_manifest(manifest: Manifest) -> bytes:
    """Return the contents of a manifest's file, with the hash of what it says."""
    # Not `to_json`, which would make null of the infinite bounds of a space.
    told = manifest.model_dump(mode="json")
    return json.dumps(told | {_OWN_HASH: _hash_of(told)}, indent=1).encode()


def _hash_of(told: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a checkpoint.

    Raises:
        CheckpointError: It is missing, damaged or too new.
    """
    from soulsgui.system import read_small  # commands that only ask a runner do without what that loads

    try:
        data = read_small(folder / MANIFEST)
        manifest = Manifest.model_validate_json(data)
    except FileNotFoundError as error:
        raise CheckpointError(f"{MANIFEST} is missing", _REMEDY) from error
    except OSError as error:
        raise CheckpointError(f"{MANIFEST} can't be read: {error}", _REMEDY) from error
    except ValidationError as error:
        detail = error.errors(include_url=False)[0]
        if detail["type"] == "newer":
            raise CheckpointError(detail["msg"], "Install that version to continue with it.") from error
        place = f"{'.'.join(map(str, detail['loc']))}: ".removeprefix(": ")
        raise CheckpointError(f"{MANIFEST} can't be read: {place}{detail['msg']}", _REMEDY) from error
    told = json.loads(data)
    if told.pop(_OWN_HASH, None) not in (None, _hash_of(told)):
        raise CheckpointError(f"{MANIFEST} is damaged", _REMEDY)
    return manifest


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file as hexadecimal digits.

    Raises:
        OSError: It can't be read.
    """
    if not path.is_file():  # a pipe would keep whoever reads it for ever
        raise FileNotFoundError(f"{path} is not a file")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def verify(folder: Path, manifest: Manifest, sha256: Callable[[Path], str] = sha256_of) -> None:
    """Check every file of a checkpoint against its manifest.

    `sha256` returns a file's hash; a caller that remembers hashes or contents brings its own.

    Raises:
        CheckpointError: A file is missing, damaged, or outside the folder.
        OSError: A file can't be read.
    """
    for name, expected in manifest.files.items():
        path = folder / name
        if Path(name).name != name:
            raise CheckpointError(f"“{printable(name, 100)}” is outside the checkpoint", _REMEDY)
        if not path.is_file():
            raise CheckpointError(f"{name} is missing", _REMEDY)
        if path.stat().st_size != expected.size:
            raise CheckpointError(
                f"{name} has {path.stat().st_size} bytes instead of {expected.size}", _REMEDY
            )
        if sha256(path) != expected.sha256:
            raise CheckpointError(f"{name} is damaged", _REMEDY)
