"""The bootstrap from end to end, on a tiny project: real environment, real pip, real program."""

import ast
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.packaging.tiny_project import HANGS_S, ROOT, TinyProject
from tests.runner.children import until_now

FIRST_START = sorted((ROOT / "packaging" / "first_start").glob("*.py"))
DEMO = ["serve", "--set", "stop.mean_return=475", "--until-done", "--local-clients", "2"]
pytestmark = pytest.mark.timeout(3 * HANGS_S)
ON_POSIX = pytest.mark.skipif(sys.platform == "win32", reason="signals and shared descriptors are POSIX's")


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> TinyProject:
    project = TinyProject(tmp_path_factory.mktemp("ready"))
    project.first = project.run("setup")
    assert project.first.returncode == 0, project.first.stderr
    return project


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Path]:
    """A folder for TINY_GATE, opened at the end so that no pip waits on."""
    folder = tmp_path / "gate"
    folder.mkdir()
    yield folder
    for place in (folder, *(below for below in folder.iterdir() if below.is_dir())):
        (place / "open").touch()


def test_a_fresh_set_up_announces_itself_and_starts_nothing(ready: TinyProject) -> None:
    assert ready.first.stdout == ""
    told = ready.first.stderr
    assert f"Setting up SoulsGUI in {ready.venv} (once)." in told
    assert "To download: about" in told
    assert f"torch: the build in {ready.wheels}, nothing to download." in told
    assert "Set up in" in told
    assert re.search(r'starts it at once:  python\S* "/.*bootstrap\.py"\n', told)


def test_a_program_is_started_and_its_exit_code_passed_on(ready: TinyProject) -> None:
    for words, env, started in (
        ("", {}, DEMO),
        # There is a screen, but no window in this version.
        ("-- --set seed=3", {"DISPLAY": ":99"}, [*DEMO, "--set", "seed=3"]),
        # What leads Python elsewhere is taken away.
        ("-- status --json", {"PYTHONPATH": "/elsewhere"}, ["status", "--json"]),
    ):
        done = ready.run(*words.split(), **env)
        assert done.stdout == f"{started} None\n"
        assert done.returncode == 7
        assert "Setting up" not in done.stderr


def test_a_second_run_asks_no_pip(ready: TinyProject) -> None:
    log = (ready.venv / "bootstrap.log").read_bytes()
    assert ready.run("setup").stderr == ""
    assert (ready.venv / "bootstrap.log").read_bytes() == log


def test_the_tests_need_more_and_development_stays_set_up(ready: TinyProject) -> None:
    done = ready.run("test", "--", "-k", "gae")
    assert done.returncode == 7
    assert done.stdout.endswith(", '-k', 'gae'] None\n")
    assert "8 of 9 packages are already installed" in done.stderr
    project_file = ready.root / "pyproject.toml"
    project_file.write_text(project_file.read_text() + 'description = "changed"\n')
    assert "9 of 9 packages are already installed" in ready.run("setup").stderr
    told = "Running the tests. pytest collects them first: nothing is shown for up to a minute.\n"
    assert ready.run("test").stderr == told
    project_file.write_text(project_file.read_text() + "[tool.ruff]\nline-length = 110\n")
    assert ready.run("setup").stderr == "", "settings of tools are no reason to set up again"


@ON_POSIX
def test_a_computer_that_only_plays_joins_without_torch_and_its_link_goes_into_a_private_file_first(
    tmp_path: Path, gate: Path
) -> None:
    project = TinyProject(tmp_path)
    link = "soulsgui://join/c2VjcmV0XKLo5Q"
    with project.start("client", link, "--", "--name", "pc", TINY_GATE=str(gate)) as process:
        try:
            until_now((gate / "reached").exists, HANGS_S)
            tree = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
            assert not [one for one in tree if any("c2VjcmV0" in word for word in one.cmdline())]
        finally:
            (gate / "open").touch()
        out, told = process.communicate(timeout=HANGS_S)
    kept = project.venv / "invitation.soulsgui"
    assert (process.returncode, out) == (7, f"['join', '{kept}', '--name', 'pc'] None\n"), told
    assert kept.read_text() == link
    assert kept.stat().st_mode & 0o777 == 0o600
    assert "c2VjcmV0" not in (project.venv / "bootstrap.log").read_text()
    assert "in 7 packages" in told
    assert "torch" not in told
    assert re.search(r'at once:  python\S* "/.*bootstrap\.py" client\n', told), (
        "without it training is set up"
    )
    assert not list(project.venv.glob("lib/*/site-packages/torch*"))

    again = project.run("client")
    assert (again.stdout, again.stderr) == ("['join'] None\n", "")
    more = project.run("setup")
    assert "7 of 8 packages are already installed" in more.stderr
    assert list(project.venv.glob("lib/*/site-packages/torch*"))
    file = tmp_path / "pc.soulsgui"
    file.write_text("{}")
    done = project.run("client", str(file), "--", "--name", "pc")
    assert done.stdout == f"['join', '{file}', '--name', 'pc'] None\n"
    assert done.stderr == "", "who trains here can play, too"


@ON_POSIX
def test_an_interrupted_set_up_goes_on_and_a_left_pip_is_waited_for(tmp_path: Path, gate: Path) -> None:
    project = TinyProject(tmp_path)
    pips: list[psutil.Process] = []
    for number in (signal.SIGTERM, signal.SIGKILL):
        own = gate / number.name
        own.mkdir()
        with project.start("setup", TINY_GATE=str(own)) as process:
            until_now((own / "reached").exists, HANGS_S)
            pips += psutil.Process(process.pid).children(recursive=True)
            process.send_signal(number)
            _, told = process.communicate(timeout=HANGS_S)
        if number == signal.SIGTERM:
            assert process.returncode == 130
            assert "Interrupted. Type the same command again" in told
            (own / "open").touch()
            assert psutil.wait_procs(pips, timeout=HANGS_S)[1] == [], "pip was ended, too"
    with project.start("setup") as second:
        assert second.stderr is not None
        assert second.stderr.readline() == "Another set-up of this folder is running; waiting for it.\n"
        (own / "open").touch()
        _, told = second.communicate(timeout=HANGS_S)
    assert second.returncode == 0
    assert "8 of 8 packages" not in told
    assert "Set up in" in told
    assert psutil.wait_procs(pips, timeout=HANGS_S)[1] == []
    assert project.run("setup").stderr == ""


def test_a_place_where_nothing_can_be_made_and_a_missing_package_are_told_whole(tmp_path: Path) -> None:
    project = TinyProject(tmp_path)
    project.venv.touch()
    done = project.run("setup")
    assert done.returncode == 1
    assert "can't be written" in done.stderr
    assert "Copy the folder to a place that belongs to you" in done.stderr
    project.venv.unlink()
    (project.wheels / "redis-1.0-py3-none-any.whl").unlink()
    done = project.run("setup")
    assert done.returncode == 1
    assert "There is no build of redis" in done.stderr
    assert "  |     The user requested (constraint) redis==1.0" in done.stderr
    assert f"The complete log: {project.venv / 'bootstrap.log'}" in done.stderr
    assert "There is no build of redis" in project.run("--", "status").stderr


def test_an_environment_that_was_moved_is_made_anew(ready: TinyProject, tmp_path: Path) -> None:
    moved, root = tmp_path / "moved", ready.root
    root.rename(moved)
    ready.root = moved
    try:
        assert "making .venv" in ready.run("setup").stderr
        assert str(moved) in (moved / ".venv/bin/pip").read_text()
    finally:
        ready.root = moved.rename(root)


@pytest.mark.skipif(sys.platform == "win32" or os.geteuid() != 0, reason="only root can give folders away")
def test_an_environment_of_another_user_is_left_alone(tmp_path: Path) -> None:
    project = TinyProject(tmp_path)
    project.venv.mkdir()
    os.chown(project.venv, 12345, 12345)
    done = project.run("setup")
    assert done.returncode == 1
    assert "belongs to another user (user id 12345)" in done.stderr
    assert list(project.venv.iterdir()) == []


def test_wrong_use_ends_with_2(ready: TinyProject) -> None:
    for words in (("install",), ("setup", "--", "--json"), ("test", "pc.soulsgui")):
        assert ready.run(*words).returncode == 2


def test_only_the_standard_library_is_imported_and_python_3_8_can_read_what_refuses_it() -> None:
    bootstrap = ROOT / "packaging" / "bootstrap.py"
    ast.parse(bootstrap.read_text(encoding="utf-8"), feature_version=(3, 8))
    for file in (bootstrap, *FIRST_START):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        names = [one.name for node in ast.walk(tree) if isinstance(node, ast.Import) for one in node.names]
        names += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        tops = {name.partition(".")[0] for name in names}
        assert tops <= {*sys.stdlib_module_names, "first_start"}, file


def test_the_folder_does_not_hide_the_library_of_its_name() -> None:
    command = [sys.executable, "-c", "import packaging.version"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, timeout=HANGS_S)
    assert done.returncode == 0, done.stderr
