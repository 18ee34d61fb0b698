"""Whether a window can be shown, and the libraries of the system that Qt needs for it (Linux)."""

import ctypes
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence

from first_start.failure import SAME_COMMAND, SetupError

# What is loaded, and the package of Debian and Ubuntu that brings it.
QT_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libfontconfig.so.1": "libfontconfig1",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libdbus-1.so.3": "libdbus-1-3",
}
X11_LIBRARIES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
}


def has_screen(env: Mapping[str, str], platform: str) -> bool:
    """Whether a window can be shown; the same answer as `soulsgui.system.has_screen`."""
    if platform in ("win32", "darwin"):
        return True
    return bool(env.get("DISPLAY") or env.get("WAYLAND_DISPLAY"))


def needed_libraries(env: Mapping[str, str], platform: str) -> dict[str, str]:
    """What Qt needs here: library → Debian package; X11's only where X11 is."""
    if platform != "linux":
        return {}
    return QT_LIBRARIES | (X11_LIBRARIES if env.get("DISPLAY") else {})


def missing_libraries(libraries: Iterable[str], load: Callable[[str], object] = ctypes.CDLL) -> list[str]:
    """Those that the system can't load."""
    missing = []
    for library in libraries:
        try:
            load(library)
        except OSError:
            missing.append(library)
    return missing


def may_install(
    packages: Sequence[str], purpose: str, env: Mapping[str, str], say: Callable[[str], None]
) -> bool:
    """Whether packages of the system can be installed from here (root, apt) and whoever is there agrees.

    Nobody is asked where nobody can answer: without a terminal, and where `CI` is set.

    Args:
        packages: Their names.
        purpose: What needs them, at the beginning of a sentence.
        env: The environment of the process.
        say: Writes a line.
    """
    root = hasattr(os, "geteuid") and os.geteuid() == 0
    if not root or shutil.which("apt-get", path=env.get("PATH")) is None:
        return False
    say(f"{purpose} needs system packages: {' '.join(packages)}")
    if not env.get("CI") and sys.stdin is not None and sys.stdin.isatty():
        say("Install them now with apt-get? [Y/n]")
        answer = sys.stdin.readline()
        if answer.strip().lower() not in ("", "y", "yes") or not answer:
            return False
    say("Installing them with apt-get.")
    return True


def install_packages(packages: Iterable[str], env: Mapping[str, str]) -> None:
    """Install packages of Debian or Ubuntu.

    Raises:
        SetupError: apt refused.
    """
    names = sorted(packages)
    quiet = {**env, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["update"], ["install", "--yes", "--no-install-recommends", *names]):
        done = subprocess.run(
            ["apt-get", "--quiet=2", *command],
            env=quiet,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        if done.returncode != 0:
            last = "\n".join((done.stdout + done.stderr).strip().splitlines()[-3:])
            raise SetupError(f"apt-get {command[0]} failed: {last}", f"Install by hand: {' '.join(names)}")


def ensure_libraries(env: Mapping[str, str], platform: str, say: Callable[[str], None]) -> None:
    """Make sure that Qt finds its libraries.

    Raises:
        SetupError: Some are missing and can't be installed from here; says the line to type.
    """
    needed = needed_libraries(env, platform)
    missing = missing_libraries(needed)
    packages = sorted(needed[library] for library in missing)
    if missing and may_install(packages, "The window", env, say):
        install_packages(packages, env)
        missing = missing_libraries(missing)
        packages = sorted(needed[library] for library in missing)
    if missing:
        raise SetupError(
            f"Qt needs libraries that this system does not have: {', '.join(missing)}.",
            f"Type:  sudo apt install {' '.join(packages)}\n"
            f"(Not Debian or Ubuntu? Install the packages with these files.) {SAME_COMMAND}",
        )
