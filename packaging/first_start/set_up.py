"""The order of a set-up: look, announce, make the environment, install, note it."""

import importlib.util
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from first_start import plan, torch_build
from first_start.failure import SAME_COMMAND, SetupError, StepFailed, explain, this_machine
from first_start.progress import Console
from first_start.steps import CONSTRAINTS, Steps
from first_start.venv import Venv, install, make, write_stamp

_PIP_CONFIGS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf", "~/pip/pip.ini")
_LAST_LINES = 12
_LOCK_POLL_S = 0.3


def is_ready(venv: Venv, extras: Sequence[str]) -> bool:
    """Whether a complete set-up is there and belongs to the present state of the project."""
    try:
        stamp = plan.read_stamp(venv.stamp.read_text(encoding="utf-8"))
    except OSError:
        return False
    return venv.python.exists() and stamp.covers(_fingerprint(venv), extras)


def ensure(venv: Venv, extras: Sequence[str], console: Console, env: Mapping[str, str]) -> None:
    """Return at once when everything is set up, else set it up; one at a time in one folder.

    Args:
        venv: Where.
        extras: What to install besides the base.
        console: Where to speak.
        env: The environment of the process.

    Raises:
        SetupError: It can't be done; says why and what to do.
    """
    if is_ready(venv, extras):
        return
    _require_own_folder(venv)
    lock = _lock_class(venv.root)(venv.lock)
    if not lock.acquire():
        console.say("Another set-up of this folder is running; waiting for it.")
    while not lock.acquire():
        time.sleep(_LOCK_POLL_S)
    try:
        if not is_ready(venv, extras):
            _set_up(venv, extras, console, env, lock.fileno())
    finally:
        lock.release()


def _fingerprint(venv: Venv) -> str:
    pyproject = (venv.root / "pyproject.toml").read_text(encoding="utf-8")
    return plan.fingerprint(pyproject, _constraints(venv), venv.python_version(), venv.root)


def _constraints(venv: Venv) -> str:
    return (venv.root / CONSTRAINTS).read_text(encoding="utf-8")


def _require_own_folder(venv: Venv) -> None:
    try:
        venv.folder.mkdir(exist_ok=True)
        owner = venv.folder.stat().st_uid
        if sys.platform != "win32" and owner != os.geteuid():
            raise SetupError(
                f"{venv.folder} belongs to another user (user id {owner}).",
                "Run this as that user (without sudo if that is you), or delete the folder .venv first.",
            )
        venv.log.touch()
    except OSError as error:
        raise SetupError(
            f"{venv.root} can't be written: {error.strerror}.",
            "Copy the folder to a place that belongs to you and start it there.",
        ) from error


def _lock_class(root: Path) -> Any:
    # By its path: the package around it needs what isn't installed yet; this module needs nothing.
    spec = importlib.util.spec_from_file_location("first_start_lock", root / "soulsgui/system/lock.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.FileLock


def _set_up(
    venv: Venv, extras: Sequence[str], console: Console, env: Mapping[str, str], lock_descriptor: int
) -> None:
    started_s = time.monotonic()
    if venv.stamp.exists():
        # What was set up for development stays so.
        stamped = plan.read_stamp(venv.stamp.read_text(encoding="utf-8")).extras
        extras = [*extras, *(extra for extra in stamped if extra not in extras)]
    pins = plan.needed_pins(plan.read_pins(_constraints(venv)), extras)
    torch_version = next((pin.version for pin in pins if pin.name == "torch"), "")
    work = plan.plan_work(pins, venv.installed(), lambda: _choose_torch(torch_version, env))
    free_mb = shutil.disk_usage(venv.folder).free / 1e6
    for line in plan.describe(work, venv.folder, free_mb):
        console.say(line)
    _require_space(work, venv.folder, free_mb)
    # From here to the end nothing is complete, also not what was before.
    write_stamp(venv, plan.Stamp("", tuple(extras)).to_json())
    with venv.log.open("w", encoding="utf-8") as log:
        steps = Steps(venv.root, log, console, lock_descriptor)
        try:
            make(venv, steps, console, env)
            install(venv, steps, plan.pip_commands(work, extras, torch_version), pins, env)
        except (StepFailed, OSError) as error:
            log.flush()
            raise _with_log(error, venv.log) from error
    write_stamp(venv, plan.Stamp(_fingerprint(venv), tuple(extras)).to_json())
    script = f'"{sys.argv[0]}"' if " " in sys.argv[0] else sys.argv[0]
    console.say(f"Set up in {time.monotonic() - started_s:.0f} s.")
    # Without `client` a computer that only plays would be set up with all that training needs.
    plays = " client" if tuple(extras) == tuple(plan.EXTRAS["client"]) else ""
    console.say(f"From now on this starts it at once:  {Path(sys.executable).name} {script}{plays}")


def _choose_torch(version: str, env: Mapping[str, str]) -> torch_build.TorchBuild:
    configs = [Path(name).expanduser() for name in _PIP_CONFIGS]
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in configs if path.is_file()]
    tag = f"cp{sys.version_info.major}{sys.version_info.minor}"
    return torch_build.choose(
        platform=sys.platform,
        nvidia=torch_build.has_nvidia_driver(),
        local_wheel=torch_build.local_torch_wheel(plan.find_links_folders(env, texts), version, tag),
        cpu_index_answers=lambda: torch_build.url_answers(torch_build.CPU_INDEX + "/torch/"),
    )


def _require_space(work: plan.Work, folder: Path, free_mb: float) -> None:
    temporary = Path(tempfile.gettempdir())
    one_disk = temporary.stat().st_dev == folder.stat().st_dev
    needed_mb = work.disk_mb + (work.download_mb if one_disk else 0)
    if free_mb < needed_mb:
        raise SetupError(
            f"{folder} needs about {needed_mb:,.0f} MB; the disk has {free_mb:,.0f} MB left.",
            f"Free some space or copy the project to another disk. {SAME_COMMAND}",
        )
    temporary_mb = shutil.disk_usage(temporary).free / 1e6
    if temporary_mb < work.download_mb:
        raise SetupError(
            f"Downloads need about {work.download_mb:,.0f} MB in {temporary}, "
            f"which has {temporary_mb:,.0f} MB left.",
            f"Set TMPDIR to a folder with more space. {SAME_COMMAND}",
        )


def _with_log(error: StepFailed | OSError, log: Path) -> SetupError:
    told = (
        error if isinstance(error, StepFailed) else explain(f"Errno {error.errno}: {error}", this_machine())
    )
    last = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()[-_LAST_LINES:]
    quoted = "\n".join(f"  | {line}" for line in last)
    return SetupError(f"{quoted}\n\n{told.message}", f"{told.remedy}\nThe complete log: {log}")
