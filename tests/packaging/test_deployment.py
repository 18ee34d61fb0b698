"""Units and container files are whole, and every command in them and in their page is one of this program."""

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from soulsgui.cli.parser import parse
from tests.packaging.tiny_project import ROOT

UNITS = sorted((ROOT / "packaging" / "systemd").glob("*.service"))
CONTAINERS = ROOT / "packaging" / "containers"
DOCKERFILES = sorted(CONTAINERS.glob("*.Dockerfile"))
COMPOSE = yaml.safe_load((CONTAINERS / "compose.yaml").read_text(encoding="utf-8"))
PAGE = (ROOT / "docs" / "deployment.md").read_text(encoding="utf-8")


def unit(path: Path) -> dict[str, list[str]]:
    """The settings of a unit, each with all its values."""
    found: dict[str, list[str]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


def instructions(path: Path) -> dict[str, str]:
    """The instructions of a Dockerfile; of equal ones the last."""
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {line.split()[0]: line.partition(" ")[2].strip() for line in lines}


def test_there_is_what_is_tested() -> None:
    assert [path.stem for path in UNITS] == ["soulsgui-player", "soulsgui-server"]
    assert [path.stem for path in DOCKERFILES] == ["client", "server"]


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_a_unit_runs_a_command_of_this_program(path: Path) -> None:
    found = unit(path)
    (line,) = found["ExecStart"]
    starts = [re.sub(r"^\"SOULSGUI_START=(.*)\"$", r"\1", one) for one in found.get("Environment", [""])]
    for start in (*starts, "--resume latest"):
        program, *words = shlex.split(line.replace("$SOULSGUI_START", start))
        assert Path(program).name == "soulsgui"
        if "$SOULSGUI_START" in line or not start.startswith("--"):
            parse(words)
    # Exit codes of `errors` after which another try would be no better.
    assert found["RestartPreventExitStatus"] == ["2 4"]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.processes
@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.stem)
def test_systemd_finds_nothing_wrong_with_a_unit(path: Path, tmp_path: Path) -> None:
    program = tmp_path / "soulsgui"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    copied = tmp_path / path.name
    text = re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={program}", path.read_text(encoding="utf-8"))
    copied.write_text(text.replace("User=soulsgui", "User=root"))
    command = ["systemd-analyze", "verify", "--man=no", str(copied)]
    said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert path.name not in said.stderr, said.stderr


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.stem)
def test_a_container_runs_a_command_of_this_program_as_no_root(path: Path) -> None:
    found = instructions(path)
    assert found["USER"] == "soulsgui"
    assert json.loads(found["ENTRYPOINT"]) == ["soulsgui"]
    parse(json.loads(found["CMD"]))
    if "HEALTHCHECK" in found:
        parse(json.loads(found["HEALTHCHECK"].partition("CMD ")[2])[1:])
    for folder in json.loads(found["VOLUME"]):
        assert folder in found["CMD"]


def test_the_compose_file_names_what_there_is() -> None:
    for name, service in COMPOSE["services"].items():
        build = service["build"]
        root = (CONTAINERS / build["context"]).resolve()
        assert root == ROOT
        found = instructions(root / build["dockerfile"])
        parse(service.get("command") or json.loads(found["CMD"]))
        mounted = [volume.split(":")[-2 if volume.endswith(":ro") else -1] for volume in service["volumes"]]
        assert set(json.loads(found["VOLUME"])) <= set(mounted), name
        named = {volume.split(":")[0] for volume in service["volumes"] if volume[0].isalpha()}
        assert named <= set(COMPOSE["volumes"])


def test_every_command_of_the_page_is_one_of_this_program() -> None:
    compose = (CONTAINERS / "compose.yaml").read_text(encoding="utf-8").replace(" \\\n#", "")
    typed = re.findall(r"(?m)^#? *[^`\n]*?\bsoulsgui (?=[a-z])(.*)$", f"{PAGE}\n{compose}")
    known = ("serve", "status", "invite", "join")
    commands = [words for words in map(shlex.split, typed) if words[0] in known]
    assert len(commands) >= 6
    for words in commands:
        parse(words)
    for place in re.findall(r"packaging/[\w./-]+\w", PAGE):
        assert (ROOT / place).exists(), place
