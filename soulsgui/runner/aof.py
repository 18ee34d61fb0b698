"""The server's append-only file after a crash: what was lost is said, a damaged part is cut off."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from soulsgui.runner.server_binary import ServerBinary

_TRUNCATED = re.compile(r"Truncating the AOF (\S+) at offset (\d+)")
_DAMAGED = re.compile(r"Bad file format reading the append only file ([\w.-]+):")
_REPAIR_LIMIT_S = 120.0


def loss_at_start(lines: Sequence[str]) -> str:
    """Say what a start that went well had to leave out, from the server's log; empty when nothing."""
    for line in lines:
        match = _TRUNCATED.search(line)
        if match is not None:
            return (
                f"The end of the server's file {match[1]} was incomplete and was cut off at byte {match[2]}: "
                "what was stored in the last second before the crash may be missing."
            )
    return ""


def cut_off_damage(binary: ServerBinary, data_dir: Path, lines: Sequence[str]) -> str:
    """Repair the append-only file when the end of the log says that it stopped a start.

    Everything from the damaged place on is lost; a copy of the file is kept in `damaged/`.

    Args:
        binary: The server program, which is its own repair tool when called by that name.
        data_dir: The server's folder.
        lines: End of the server's log.

    Returns:
        What was done, in words; empty when nothing was damaged.
    """
    name = next((match[1] for line in lines if (match := _DAMAGED.search(line)) is not None), None)
    if name is None:
        return ""
    path = data_dir / "appendonlydir" / name
    if not name.endswith(".incr.aof"):
        return f"The server's file {path} can't be repaired: move its folder away to start without data."
    try:
        size, cut = path.stat().st_size, _cut(binary, path, data_dir / "damaged")
    except (OSError, subprocess.SubprocessError) as error:
        return f"The server's file {path} is damaged and its repair failed: {error}"
    return (
        f"The server's file {name} was damaged: {cut} of {size} bytes at its end were cut off. "
        f"A copy of it lies in {data_dir / 'damaged'}."
    )


def _cut(binary: ServerBinary, path: Path, aside: Path) -> int:
    aside.mkdir(exist_ok=True)
    shutil.copy2(path, aside / path.name)
    before = path.stat().st_size
    # Given the one file: Valkey 9.1's tool takes its own base file for damaged when given the manifest.
    subprocess.run(
        [f"{binary.product}-check-aof", "--fix", str(path)],
        executable=binary.path,
        input=b"y\n",
        capture_output=True,
        timeout=_REPAIR_LIMIT_S,
        check=True,
    )
    return before - path.stat().st_size
