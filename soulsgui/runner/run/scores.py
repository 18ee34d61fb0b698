"""What evaluations gave that somebody asked for, kept in the folder of their run."""

import logging
import time

from pydantic import ValidationError

from soulsgui.config.paths import RunFolder
from soulsgui.system import atomic_write, read_small
from soulsgui.wire.control import MOST_RETURNS, CheckpointInfo, Evaluated, KeptEvaluation

logger = logging.getLogger(__name__)

_MOST = 100
_MOST_BYTES = 4 * 2**20  # more than so many of the longest ones take


def kept_evaluations(run: RunFolder) -> list[KeptEvaluation]:
    """Return the newest ones, the oldest of them first; what is none is left out, whoever has written it."""
    try:
        lines = read_small(run.evaluations, _MOST_BYTES).splitlines()
    except OSError:
        return []
    found = (KeptEvaluation.read(line) for line in lines[-_MOST:])
    return [one for one in found if one is not None]


def keep_evaluation(run: RunFolder, found: Evaluated, checkpoint: str) -> None:
    """Keep an evaluation with its run; of episodes beyond `MOST_RETURNS` only what all came to together."""
    told = found.model_dump(include=set(KeptEvaluation.model_fields))
    told |= {"checkpoint": checkpoint, "returns": found.returns[:MOST_RETURNS], "time": time.time()}
    told["notes"] = " ".join(found.notes)
    try:
        kept = [*kept_evaluations(run)[1 - _MOST :], KeptEvaluation.model_validate(told)]
        if run.evaluations.is_symlink():  # of a run from elsewhere
            raise OSError(f"{run.evaluations} leads elsewhere")
        atomic_write(run.evaluations, "".join(f"{one.to_json()}\n" for one in kept).encode())
    except (OSError, ValidationError) as error:  # such as a full disk, or returns that are no numbers
        logger.error("an evaluation of %s is not kept: %s", run.run_id, error)


def with_evaluations(run: RunFolder, checkpoints: list[CheckpointInfo]) -> list[CheckpointInfo]:
    """Return checkpoints, each with the evaluation of its weights that has most episodes, or its newest."""
    best: dict[int, KeptEvaluation] = {}
    for one in kept_evaluations(run):
        if one.model_id not in best or one.episodes >= best[one.model_id].episodes:
            best[one.model_id] = one.model_copy(update={"returns": []})
    return [info.model_copy(update={"evaluated": best.get(info.model_id)}) for info in checkpoints]
