"""What is installed on this computer of what a role needs, and how to install what is missing."""

import importlib.util
import sys
from pathlib import Path

_PACKAGES = {
    "Box2D": "gymnasium[box2d]",
    "PIL": "pillow",
    "ale_py": "ale-py",
    "cv2": "opencv-python-headless",
    "mujoco": "gymnasium[mujoco]",
    "ruamel": "ruamel.yaml",
    "yaml": "PyYAML",
}
"""Packages that are called otherwise than the module they bring."""

NO_TORCH = "This computer was set up to play only: PyTorch, which a run trains with, is not installed here."


def can_train() -> bool:
    """Whether this computer can train; torch is only looked for, not imported."""
    return importlib.util.find_spec("torch") is not None


def how_to_train() -> str:
    """Return the line that makes this computer able to train."""
    of_source = (Path(__file__).parents[1] / "packaging" / "bootstrap.py").is_file()
    return "python3 packaging/bootstrap.py setup" if of_source else "pip install 'soulsgui[train]'"


def how_to_install(module: str) -> str:
    """Return the line that most likely installs a module that is missing."""
    top = module.partition(".")[0]
    if top == "torch":
        return how_to_train()
    package = _PACKAGES.get(top, top)
    quoted = f"'{package}'" if "[" in package else package
    return f"{sys.executable} -m pip install {quoted}"
