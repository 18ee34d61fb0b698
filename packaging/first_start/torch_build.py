"""Which build of torch to install: on Linux the one of PyPI carries 3 GB of CUDA, useless without a GPU."""

import re
import threading
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

CPU_INDEX = "https://download.pytorch.org/whl/cpu"

# Wheels (torch's own and CUDA's) and their size installed; measured on Linux x86-64 with torch 2.13 and 2.14.
_CPU_MB = (192, 760)
_CUDA_MB = (3000, 6200)


@dataclass(frozen=True)
class TorchBuild:
    """The choice and its reason.

    Attributes:
        download_mb: To be downloaded, with all CUDA packages where they come along.
        disk_mb: Needed on the disk when installed.
        reason: For the user.
        index: An index to ask besides PyPI.
    """

    download_mb: float
    disk_mb: float
    reason: str
    index: str = ""


def choose(
    *, platform: str, nvidia: bool, local_wheel: Path | None, cpu_index_answers: Callable[[], bool]
) -> TorchBuild:
    """Choose the build for this machine.

    Args:
        platform: A value of `sys.platform`.
        nvidia: Whether the machine has an NVIDIA driver.
        local_wheel: The wheel that pip's own `find-links` folders hold; pip takes it first.
        cpu_index_answers: Asks whether PyTorch's index of CPU builds can be reached; called where it matters.
    """
    download_mb, disk_mb = _CPU_MB
    if local_wheel is not None:
        return TorchBuild(0, disk_mb, f"torch: the build in {local_wheel.parent}, nothing to download")
    if platform != "linux":
        return TorchBuild(download_mb, disk_mb, "torch: the build of PyPI")
    if nvidia:
        return TorchBuild(*_CUDA_MB, "torch: the build with CUDA, because this machine has an NVIDIA driver")
    if cpu_index_answers():
        return TorchBuild(
            download_mb, disk_mb, "torch: the CPU build, because no NVIDIA driver was found", CPU_INDEX
        )
    return TorchBuild(
        *_CUDA_MB,
        f"torch: the large build of PyPI (with CUDA, unused here), because {CPU_INDEX} does not answer",
    )


def has_nvidia_driver(exists: Callable[[str], bool] = lambda path: Path(path).exists()) -> bool:
    """Whether an NVIDIA driver is loaded (Linux, WSL2)."""
    return any(
        exists(path)
        for path in ("/proc/driver/nvidia/version", "/dev/nvidia0", "/usr/lib/wsl/lib/nvidia-smi")
    )


def local_torch_wheel(folders: Iterable[Path], version: str, python_tag: str) -> Path | None:
    """The wheel of torch that pip will find in its local folders.

    Args:
        folders: pip's `find-links` folders (see `plan.find_links_folders`).
        version: As pinned, "2.13.0"; a wheel of a local version ("2.13.0+cpu") fits.
        python_tag: "cp311".
    """
    fits = re.compile(rf"torch-{re.escape(version)}(\+\w+)?-({python_tag}|py3)-.*\.whl")
    return next(
        (file for folder in folders for file in sorted(folder.glob("torch-*")) if fits.match(file.name)), None
    )


def url_answers(url: str, timeout_s: float = 4.0) -> bool:
    """Whether `url` can be fetched within the time, name resolution included."""
    answers: list[bool] = []

    def ask() -> None:
        try:
            with urllib.request.urlopen(url, timeout=timeout_s) as reply:
                answers.append(reply.status == 200)
        except (OSError, ValueError):
            answers.append(False)

    # A dead name server holds getaddrinfo beyond any timeout of the socket; the thread may outlive the call.
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(timeout_s)
    return answers == [True]
