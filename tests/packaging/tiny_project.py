"""A tiny project that the real bootstrap sets up: own build backend, empty wheels, no network."""

import os
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

HANGS_S = 600.0
"""A set-up that takes longer hangs: at a load of 27 on two cores it took 76 s."""

ROOT = Path(__file__).resolve().parents[2]

PYPROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "soulsgui"
version = "0.1.0"
"""

# Says what it was started with, and ends with a code of its own.
MAIN = """
import os, sys
print(sys.argv[1:], os.environ.get("PYTHONPATH"))
sys.exit(7)
"""

# With TINY_GATE in the environment, building stops at a gate until a file opens it.
BACKEND = """
import os, pathlib, shutil, time, zipfile

HERE = pathlib.Path(__file__).parent

def build_editable(folder, config_settings=None, metadata_directory=None):
    gate = os.environ.get("TINY_GATE")
    if gate:
        pathlib.Path(gate, "reached").touch()
        while not pathlib.Path(gate, "open").exists():
            time.sleep(0.05)
    name = "soulsgui-0.1.0-py3-none-any.whl"
    shutil.copy(HERE / "wheels_of_the_project" / name, pathlib.Path(folder, name))
    with zipfile.ZipFile(pathlib.Path(folder, name), "a") as wheel:
        wheel.writestr("soulsgui.pth", str(HERE))
    return name
"""

PACKAGES = ["aiohttp", "gymnasium", "numpy", "psutil", "pydantic", "redis", "torch", "PySide6"]


def write_wheel(folder: Path, name: str, version: str, files: Mapping[str, str], requires: list[str]) -> None:
    """Write a wheel of pure Python: contents by path, and `Requires-Dist` entries."""
    info = f"{name}-{version}.dist-info"
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\nProvides-Extra: train\n"
    metadata += "Provides-Extra: server\nProvides-Extra: dev\n"
    metadata += "".join(f"Requires-Dist: {entry}\n" for entry in requires)
    wheel = "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    contents = {**files, f"{info}/METADATA": metadata, f"{info}/WHEEL": wheel}
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        for path, text in {**contents, f"{info}/RECORD": record}.items():
            archive.writestr(path, text)


class TinyProject:
    """The project in a folder with a space in its name, and ways to start its bootstrap."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "souls gui"
        self.wheels = folder / "wheels"
        self.wheels.mkdir()
        self.first: subprocess.CompletedProcess[str]
        no_caches = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / "packaging", self.root / "packaging", ignore=no_caches)
        (self.root / "soulsgui" / "system").mkdir(parents=True)
        shutil.copy(ROOT / "soulsgui/system/lock.py", self.root / "soulsgui/system/lock.py")
        (self.root / "soulsgui" / "__init__.py").touch()
        (self.root / "soulsgui" / "__main__.py").write_text(MAIN)
        (self.root / "pyproject.toml").write_text(PYPROJECT)
        (self.root / "backend.py").write_text(BACKEND)
        pins = "".join(f"{name}==1.0\n" for name in PACKAGES if name != "torch")
        more = "# [train]\ntorch==1.0\n# [dev]\npytest==1.0\n"
        (self.root / "packaging" / "constraints.txt").write_text(f"# [base]\n{pins}{more}")
        for name in PACKAGES:
            module = f"{name}/QtCore.py" if name == "PySide6" else f"{name}/__init__.py"
            write_wheel(self.wheels, name, "1.0", {module: ""}, [])
        write_wheel(self.wheels, "pytest", "1.0", {"pytest.py": MAIN}, [])
        own = self.root / "wheels_of_the_project"
        own.mkdir()
        base = [name for name in PACKAGES if name != "torch"]
        requires = [*base, "torch ; extra == 'train'", "pytest ; extra == 'dev'"]
        write_wheel(own, "soulsgui", "0.1.0", {}, requires)

    @property
    def venv(self) -> Path:
        return self.root / ".venv"

    def start(self, *arguments: str, **env: str) -> subprocess.Popen[str]:
        """Start the bootstrap without screen, network and settings of this machine's pip."""
        kept = {key: value for key, value in os.environ.items() if not re.match("PIP_|DISPLAY|WAYLAND", key)}
        own = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(self.wheels), "PIP_CONFIG_FILE": os.devnull}
        return subprocess.Popen(
            [sys.executable, str(self.root / "packaging/bootstrap.py"), *arguments],
            cwd=self.wheels,
            env={**kept, **own, **env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        """Start the bootstrap and wait for its end."""
        with self.start(*arguments, **env) as process:
            out, told = process.communicate(timeout=HANGS_S)
        return subprocess.CompletedProcess(process.args, process.returncode, out, told)
