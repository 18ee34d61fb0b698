"""R35 and R39 by their full counts: folders of strangers on a server, another user of its computer."""

import contextlib
import json
import os
import pickle
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from soulsgui.config.paths import RunFolder
from soulsgui.wire.api_client import CONTROL_FILE, CommandFailedError
from soulsgui.wire.connection import Address
from soulsgui.wire.control import ControlFile
from soulsgui.wire.manifest import MANIFEST, ManifestFile
from tests.end_to_end.server import UNHURRIED, RunningServer, last_json, soulsgui_here, wait_for
from tests.faults.report import Report
from tests.faults.test_foreign_folders import ASKED_ABOUT, GAME, STRANGER, strangers_run

pytestmark = pytest.mark.processes

CALLED = (
    f"{STRANGER}:Wrapper", "os:system", "os:popen", "os:execl", "operator:call", "subprocess:run",
    "subprocess:Popen", "unittest.mock:MagicMock", "builtins:exec", "builtins:eval", "builtins:__import__",
    "importlib:import_module", "runpy:run_path", "runpy:run_module", "pickle:loads", "shutil:rmtree",
    "functools:partial", "functools:reduce", "code:interact", "pty:spawn", "timeit:timeit", "ctypes:CDLL",
    "webbrowser:open", "pdb:run", "cProfile:run", "multiprocessing:Process", "threading:Thread",
    "gymnasium.envs.registration:load_env_creator", "soulsgui.system:become", "soulsgui.process:asked",
)  # fmt: skip
LONGEST_S = 600.0
"""A job begins a process, on a computer that may be busy."""


class _Runs:
    """What a pickle of a stranger does when it is read."""

    def __init__(self, canary: Path) -> None:
        self._words = f"touch '{canary}'"

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (self._words,)


def named(canary: Path) -> Iterator[dict[str, Any]]:
    """Settings that name what a stranger wants to be called, wherever something is called by its name."""
    yield from ASKED_ABOUT.values()
    shell = f"touch '{canary}'"
    chain = [{"unittest.mock:MagicMock": {"return_value": shell}}, "operator:call", "os:system"]
    yield {"env.wrappers": chain}
    for name in CALLED:
        yield {"env.wrappers": [name]}
        yield {"env.wrappers": [{name: {"command": shell, "args": [shell], "x": 1}}]}
        yield {"env.id": f"{name.partition(':')[0]}:CartPole-v1"}
        yield {"client.restart_hook": name}
        yield {"network.name": name}


def spoiled(canary: Path) -> Iterator[Callable[[Path], None]]:
    """What a stranger puts in the place of a file."""
    code = pickle.dumps(_Runs(canary))
    contents = (
        code, b"[" * 300_000, b'{"a":' * 100_000, b"9" * 100_000, b'{"id": "' + b"x" * 17 * 2**20 + b'"}',
        b"\x00" * 1000, b"<script>alert(1)</script>", b"#!/bin/sh\ntouch " + str(canary).encode(),
    )  # fmt: skip
    for data in contents:
        yield lambda path, data=data: [path.unlink(missing_ok=True), path.write_bytes(data)]  # type: ignore[misc]
    yield lambda path: [path.unlink(missing_ok=True), os.mkfifo(path)]  # type: ignore[func-returns-value]
    for target in ("/dev/zero", "/etc/passwd", ".", "/proc/self/environ"):
        yield lambda path, to=target: [path.unlink(missing_ok=True), path.symlink_to(to)]  # type: ignore[misc]


def told_anew(folder: Path) -> None:
    """Let the manifest of a checkpoint have the hashes of what lies there now, as its author can."""
    path = folder / MANIFEST
    if path.is_symlink() or not path.is_file():
        return
    try:
        manifest = json.loads(path.read_text())
        files = list(manifest["files"])
    except (OSError, ValueError, RecursionError, LookupError, TypeError):
        return
    for name in files:
        if (folder / name).is_file() and (folder / name).stat().st_size < 2**26:
            manifest["files"][name] = ManifestFile.of((folder / name).read_bytes()).model_dump()
    manifest.pop("sha256", None)  # as in those of older versions
    path.write_text(json.dumps(manifest))


def bombs(good: Path, folder: Path, canary: Path) -> Iterator[Path]:
    """Files of runs, as strangers would make them."""
    with zipfile.ZipFile(good) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}

    def written(name: str, kind: int = zipfile.ZIP_DEFLATED, **more: bytes) -> Path:
        target = folder / f"{name}.soulsrun"
        with zipfile.ZipFile(target, "w", kind) as archive:
            for entry, data in (contents | more).items():
                archive.writestr(entry, data)
        return target

    listed = json.loads(contents["soulsrun.json"])

    def with_entry(label: str, entry: str, data: bytes) -> Path:
        files = listed["files"] | {entry: ManifestFile.of(data).model_dump()}
        return written(
            label, **{entry: data, "soulsrun.json": json.dumps(listed | {"files": files}).encode()}
        )

    outside = (
        "../x",
        "/tmp/x",
        "..\\x",
        "checkpoint/../../x",
        "C:x",
        "checkpoint/..",
        "logs/x.log",
        "paused",
    )
    for number, name in enumerate(outside):
        yield with_entry(f"outside{number}", f"run/{name}", b"x")
    yield with_entry("zeros", "run/checkpoint/zeros", bytes(2**28))
    yield with_entry("pickle", "run/checkpoint/agent.pkl", pickle.dumps(_Runs(canary)))
    yield written("list", **{"soulsrun.json": b"[" * 10**6})
    yield written("long_list", **{"soulsrun.json": b" " * 2**24})
    for kind in (zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_STORED):
        whole = written(f"kind{kind}", kind)
        torn = bytearray(whole.read_bytes())
        for place in range(200, len(torn) // 2, 97):
            torn[place] ^= 0xFF
        (folder / f"torn{kind}.soulsrun").write_bytes(torn)
        yield folder / f"torn{kind}.soulsrun"
    locked = bytearray(good.read_bytes())
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = -1
        while (at := locked.find(mark, at + 1)) >= 0:
            locked[at + place] |= 1  # says that it is encrypted
    (folder / "locked.soulsrun").write_bytes(locked)
    yield folder / "locked.soulsrun"
    (folder / "none.soulsrun").write_bytes(b"")
    yield folder / "none.soulsrun"


class _Asked:
    """Asks a server, and counts what it said; whatever it is asked for, it answers in time and in words."""

    def __init__(self, server: RunningServer) -> None:
        self._api = server.api
        self.refused = self.answered = 0

    def __call__(self, command: str, **params: Any) -> None:
        began = time.monotonic()
        try:
            told = self._api.command(command, params)
            if "job" not in told and "id" in told and told.get("state") == "running":
                job = wait_for(lambda: (one := self._api.job(told["id"])).state != "running" and one, command)
                if job.error is not None:
                    raise CommandFailedError(job.error)
            self.answered += 1
        except CommandFailedError as error:
            self.refused += 1
            words = f"{command} {params}: {error.message} {error.remedy}"
            assert "Traceback" not in words, words
            assert "internal" not in words.lower(), words
        assert time.monotonic() < began + LONGEST_S, (command, params)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_whatever_lies_in_a_strangers_folder_a_server_executes_nothing_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, report: Report
) -> None:
    canary, modules = tmp_path / "canary", tmp_path / "modules"
    modules.mkdir()
    (modules / f"{STRANGER}.py").write_text(GAME)
    monkeypatch.setenv("CANARY", str(canary))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(modules), os.environ.get("PYTHONPATH", "")]))
    with closing(RunningServer(tmp_path)) as server:
        asked, runs = _Asked(server), server.data / "runs"
        variants = list(named(canary))
        for number, values in enumerate(variants):
            made = strangers_run(tmp_path / "stick", values, inside=number % 2 == 0)
            theirs = RunFolder(runs / f"named{number}")
            shutil.move(made.root, theirs.root)
            for command in ("run.resume", "checkpoint.evaluate", "runs.show", "config.get"):
                asked(command, run=theirs.run_id)
            asked("run.start", checkpoint=f"{theirs.run_id}/checkpoint")
        report.injected(f"{len(variants)} runs that name what is to be called")
        assert asked.refused >= 3 * len(variants)
        assert not canary.exists()

        count = 0
        whole = strangers_run(tmp_path / "whole", {}, inside=True)
        inside = [path.relative_to(whole.root) for path in whole.root.rglob("*") if path.is_file()]
        beside = (whole.spaces, whole.versions, whole.network, whole.attempts, whole.store, whole.series)
        for name in [*inside, *(path.relative_to(whole.root) for path in (*beside, whole.changes))]:
            for spoil in spoiled(canary):
                theirs = RunFolder(runs / f"spoiled{count}")
                shutil.copytree(whole.root, theirs.root)
                spoil(theirs.root / name)
                told_anew(theirs.checkpoint)
                for command in ("runs.show", "checkpoint.list", "config.get", "history.query"):
                    asked(command, run=theirs.run_id)
                if count % 13 == 0:  # each begins a process
                    asked("checkpoint.evaluate", run=theirs.run_id, episodes=1)
                    asked("runs.export", run=theirs.run_id)
                asked("runs.trash", run=theirs.run_id)
                count += 1
            asked("runs.list")
        report.injected(f"{count} files of runs replaced")
        asked("runs.purge")
        assert not canary.exists()

        shutil.copytree(whole.root, runs / "whole")
        (folder := tmp_path / "files").mkdir()
        good = tmp_path / "good.soulsrun"
        exported = soulsgui_here("runs", "export", "whole", "--output", str(good), folder=tmp_path)
        assert exported.returncode == 0, exported.stderr
        for number, file in enumerate(bombs(good, folder, canary)):
            with file.open("rb") as source:
                asked("runs.import", file=server.api.bring(source), name=f"bomb{number}")
            report.injected("a file of a run that was made by hand")
        assert not canary.exists()
        assert not list(runs.glob(".import*"))
        assert {path.name for path in tmp_path.iterdir()}.isdisjoint({"x", "paused"})
        report.injected(f"{asked.refused} refusals in words, {asked.answered} answers")
        assert server.status().server.reachable


_NOBODY = 65534

_SQUATTER = """
import json, os, socket, sys, time
os.setgroups([]); os.setgid(65534); os.setuid(65534)
place, seconds = json.loads(sys.argv[1]), float(sys.argv[2])
server, heard = socket.socket(), []
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
until = time.monotonic() + seconds
while time.monotonic() < until:
    try:
        server.bind(tuple(place)); server.listen(50); break
    except OSError:
        time.sleep(0.001)
server.settimeout(0.2)
print("ready", flush=True)
while time.monotonic() < until:
    try:
        one, _ = server.accept()
        one.settimeout(1.0)
        heard.append(one.recv(65536).decode("latin-1"))
    except OSError:
        pass
print(json.dumps(heard))
"""

_READER = """
import json, os, socket, stat, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
secrets, folder, pids = json.loads(sys.argv[1])
told = []
for root, folders, files in os.walk(folder):
    for name in (*folders, *files):
        path = os.path.join(root, name)
        try:
            mode = os.lstat(path).st_mode
            if stat.S_ISSOCK(mode):
                socket.socket(socket.AF_UNIX).connect(path)
                told.append(path)
            elif stat.S_ISREG(mode):
                data = open(path, errors="replace").read()
                told += [path for one in secrets if one in data]
        except OSError:
            continue
for pid in pids:
    for name in ("cmdline", "environ", "maps", "mem", "fd/0"):
        try:
            data = open(f"/proc/{pid}/{name}", errors="replace").read(2**20)
            told += [f"{pid} {name}" for one in secrets if one in data]
        except OSError:
            continue
print(json.dumps(told))
"""


def as_nobody(program: str, *words: str) -> "subprocess.Popen[str]":
    python = shutil.which("python3", path="/usr/bin:/bin") or sys.executable
    return subprocess.Popen([python, "-I", "-c", program, *words], stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root can be another user")
def test_another_user_hears_no_secret_and_everything_from_outside_is_encrypted(report: Report) -> None:
    with tempfile.TemporaryDirectory() as named:  # where others may look, as in a home folder that is open
        folder = Path(named)
        folder.chmod(0o755)
        with closing(RunningServer(folder)) as server:
            invitation = folder / "config" / "pc.soulsgui"
            told = soulsgui_here("invite", "pc", "--json", "--file", str(invitation), folder=folder)
            assert told.returncode == 0, told.stderr
            server.spawn("client", str(invitation), "--trust")
            with contextlib.suppress(CommandFailedError):  # on a busy computer it may take longer
                server.api.command("run.start", {"overrides": UNHURRIED | {"clients.local": 1}})
            server.wait_updates(1)
            wait_for(lambda: server.client_state("pc") == "online", "the invited computer plays")
            own = Address.read(server.data / "server" / "redis.json")
            control = ControlFile.load(server.data / "server" / CONTROL_FILE)
            secrets = [own.password, control.token, last_json(told.stdout)["link"][-30:]]
            pids = [one.pid for one in server.status().services] + [server.process.pid]
            asked = json.dumps([secrets, str(folder), pids])
            found, _ = as_nobody(_READER, asked).communicate(timeout=300)
            assert json.loads(found) == [], "another user reads it"
            report.injected(f"{sum(1 for _ in folder.rglob('*'))} files and {len(pids)} processes looked at")

            gateway = own.host, own.port
            for beginning in (
                b"PING\r\n",
                b"*1\r\n$4\r\nPING\r\n",
                b"AUTH x\r\n",
                b"GET / HTTP/1.1\r\n\r\n",
                b"\0" * 64,
            ):
                with socket.create_connection(gateway, timeout=10) as plain:
                    plain.sendall(beginning)
                    plain.settimeout(10)
                    answer = plain.recv(1000)
                    assert answer[:1] in (b"", b"\x15"), "an alert of TLS, or nothing"
                report.injected("a connection without encryption")
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            with pytest.raises(ssl.SSLError), socket.create_connection(gateway) as plain:
                context.wrap_socket(plain)
            report.injected("an older version of TLS")

            for _ in range(3):
                began = time.monotonic()
                squatter = as_nobody(_SQUATTER, json.dumps(gateway), "8")
                server.kill("gateway")
                heard, _ = squatter.communicate(timeout=60)
                words = json.loads(heard.splitlines()[-1])
                assert any(words), "somebody came to it"
                assert not [one for one in words if any(secret in one for secret in secrets)]
                wait_for(lambda: server.client_state("pc") == "online", "the invited is back")
                report.injected("another user at the port of the gateway")
                report.recovered(time.monotonic() - began)
            # Who has the port of a dead runner hears a token that is worth nothing.
            port = control.port
            server.process.kill()
            server.process.wait()
            squatter = as_nobody(_SQUATTER, json.dumps([control.host, port]), "20")
            assert squatter.stdout is not None
            squatter.stdout.readline()
            soulsgui_here("status", folder=folder)
            next_one = RunningServer(folder)
            with closing(next_one):
                heard, _ = squatter.communicate(timeout=60)
                words = json.loads(heard.splitlines()[-1])
                assert any(words), "somebody came to it"
                report.injected("another user at the port of the control interface")
                file = next_one.data / "server" / CONTROL_FILE
                dead = control.token
                wait_for(lambda: file.exists() and ControlFile.load(file).token != dead, "the next one")
                now = ControlFile.load(file)
                assert not [one for one in words if own.password in one or now.token in one]
