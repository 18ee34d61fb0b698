"""Nothing in the program reads or writes pickles (R16): what is unpickled is executed."""

import ast
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from soulsgui.errors import UsageError
from soulsgui.process import own_command
from soulsgui.wire.codec import MAX_MESSAGE_BYTES

PROGRAM = Path(__file__).parents[1] / "soulsgui"

SPAWNS = PROGRAM / "modes" / "local.py"
"""Hands the functions of a Python program to its own children, and hears nothing of them by that way."""

PICKLERS = {"pickle", "_pickle", "cPickle", "cloudpickle", "dill", "joblib", "marshal", "shelve"}
QUEUES = {"recv", "send", "Queue", "SimpleQueue", "JoinableQueue", "Manager", "Pool"}  # of multiprocessing
OBJECTS = {
    "broadcast_object_list",
    "all_gather_object",
    "gather_object",
    "scatter_object_list",
    "send_object_list",
    "recv_object_list",
}  # of torch.distributed
FILES = {"torch": {"load", "save"}, "numpy": {"load", "save", "savez"}}


def _uses(source: str) -> Iterator[str]:
    """Yield what a file uses that reads or writes pickles."""
    tree = ast.parse(source)
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {(one.asname or one.name).split(".")[0]: one.name.split(".")[0] for one in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            imported |= {one.asname or one.name: node.module.split(".")[0] for one in node.names}
            if node.module.startswith("multiprocessing"):
                yield from (one.name for one in node.names if one.name in QUEUES)
    yield from (f"import {module}" for module in imported.values() if module in PICKLERS)
    forbidden = OBJECTS | (QUEUES if "multiprocessing" in imported.values() else set())
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            owner = imported.get(node.value.id, "") if isinstance(node.value, ast.Name) else ""
            if node.attr in forbidden | FILES.get(owner, set()):
                yield node.attr


def test_nothing_in_the_program_reads_or_writes_pickles() -> None:
    sources = {path: path.read_text(encoding="utf-8") for path in PROGRAM.rglob("*.py")}
    assert {str(path): found for path, text in sources.items() if (found := list(_uses(text)))} == {}
    assert [path for path, text in sources.items() if "import multiprocessing" in text] == [SPAWNS]


@pytest.mark.parametrize(
    "source",
    [
        "import pickle",
        "from cloudpickle import dumps",
        "import torch\ntorch.load(path)",
        "import numpy as np\nnp.load(path)",
        "from torch import distributed\ndistributed.broadcast_object_list([1])",
        "import multiprocessing\npipe.recv()",
        "from multiprocessing import Queue",
    ],
)
def test_a_pickle_would_be_found(source: str) -> None:
    assert list(_uses(source))


@pytest.mark.processes
@pytest.mark.parametrize(
    "told",
    [b"\x09\0\0\0(garbage)", (MAX_MESSAGE_BYTES + 1).to_bytes(4, "little"), b"\x01\0\0\0\x80"],
    ids=["garbage", "too much", "nothing of a beginning"],
)
def test_a_learner_that_is_told_anything_else_says_so(told: bytes) -> None:
    ended = subprocess.run(own_command("learner"), input=told, capture_output=True, check=False)
    assert ended.returncode == UsageError.exit_code
    assert b"this is started by a trainer" in ended.stderr
    assert b"Traceback" not in ended.stderr
