import re
import tomllib
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from first_start import plan
from first_start.plan import Pin, Stamp
from first_start.torch_build import TorchBuild
from packaging.requirements import Requirement

from soulsgui.wire import invitation
from tests.packaging.tiny_project import ROOT

CONSTRAINTS = (ROOT / "packaging" / "constraints.txt").read_text(encoding="utf-8")
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
CPU = TorchBuild(192, 760, "torch: CPU", "https://index.example/cpu")
LOCAL = TorchBuild(0, 760, "torch: here")
PINS = [
    Pin("numpy", "2.4.6", 20, "base"),
    Pin("torch", "2.13.0", 192, "train"),
    Pin("ruff", "0.17", 10, "dev"),
]


def never() -> TorchBuild:
    raise AssertionError("torch is there; nothing has to be chosen")


def needed_by(requirements: list[str]) -> dict[str, str]:
    """The versions installed here of everything that the requirements bring in."""
    found: dict[str, str] = {}
    visited: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        extras = requirement.extras or {""}
        if str(requirement) in visited or (requirement.marker and not requirement.marker.evaluate()):
            continue
        visited.add(str(requirement))
        installed = distribution(requirement.name)
        found[plan.normalised(requirement.name)] = installed.version.partition("+")[0]
        for wanted in map(Requirement, installed.requires or []):
            if wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
                wanted.marker = None
                waiting.append(wanted)
    return found


NEEDS_MUJOCO = pytest.mark.skipif(find_spec("mujoco") is None, reason="is not part of the set-up")


@pytest.mark.parametrize("extra", ["base", *plan.TEST_EXTRAS, pytest.param("mujoco", marks=NEEDS_MUJOCO)])
def test_every_package_that_is_needed_is_pinned_to_the_version_tested_here(extra: str) -> None:
    project = tomllib.loads(PYPROJECT)["project"]
    extras = project["optional-dependencies"]
    try:
        needed = needed_by(project["dependencies"] + ([] if extra == "base" else extras[extra]))
    except PackageNotFoundError as error:
        pytest.fail(f"{error} is not installed; run packaging/bootstrap.py test")
    every = ["base", *plan.TEST_EXTRAS, "mujoco"]
    groups = every[1 : every.index(extra) + 1]
    pinned = {pin.name: pin.version for pin in plan.needed_pins(plan.read_pins(CONSTRAINTS), groups)}
    by_marker = set(re.findall(r"^([\w.-]+)==[^;\n]+;", CONSTRAINTS, re.MULTILINE))
    assert {name: pinned.get(name) for name in needed if name not in by_marker} == {
        name: version for name, version in needed.items() if name not in by_marker
    }
    # What is announced and counted is no more than that.
    assert {pin.name for pin in plan.read_pins(CONSTRAINTS) if pin.group == extra} <= set(needed)


def test_pins_know_their_group_and_size_and_lines_for_some_machines_are_left_out() -> None:
    text = (
        "# Words.\n# [base]\nPySide6_Essentials==6.11.3  # 80.3 MB\n"
        "a==1.0; sys_platform == 'x'\n# [dev]\nruff==1\n"
    )
    assert plan.read_pins(text) == [
        Pin("pyside6-essentials", "6.11.3", 80.3, "base"),
        Pin("ruff", "1", pytest.approx(0.03), "dev"),
    ]
    assert [pin.name for pin in plan.needed_pins(PINS, plan.RUN_EXTRAS)] == ["numpy", "torch"]
    assert plan.needed_pins(PINS, plan.TEST_EXTRAS) == PINS
    versions = {pin.name: pin.version for pin in plan.read_pins(CONSTRAINTS)}
    assert versions["pyside6-essentials"] == versions["shiboken6"] == "6.11.3", "6.12.0 breaks None"


def test_a_link_is_told_from_a_file_as_the_program_itself_does() -> None:
    links, files = ("soulsgui://join/x", " <SoulsGUI://join/x>"), ("pc.soulsgui", "", "C:\\soulsgui.soulsgui")
    for word in links + files:
        assert plan.is_link(word) is invitation.is_link(word) is (word in links)


@pytest.mark.parametrize(
    ("installed", "build", "missing", "download_mb", "disk_mb"),
    [
        ({}, CPU, ["numpy", "torch", "ruff"], 20 + 192 + 10, 30 * 4.5 + 760),
        # A wheel on this machine is not downloaded.
        ({}, LOCAL, ["numpy", "torch", "ruff"], 30, 30 * 4.5 + 760),
        # What is there is left out whatever its build, and other versions are not.
        ({"numpy": "2.0.0", "torch": "2.13.0+cpu", "ruff": "0.17"}, None, ["numpy"], 20, 20 * 4.5),
    ],
)
def test_what_is_missing_is_to_be_downloaded(
    installed: dict[str, str], build: TorchBuild | None, missing: list[str], download_mb: int, disk_mb: float
) -> None:
    work = plan.plan_work(PINS, installed, lambda: build or never())
    assert [pin.name for pin in work.missing] == missing
    assert (work.present, work.torch) == (3 - len(missing), build)
    assert work.download_mb == download_mb
    assert work.disk_mb == pytest.approx(disk_mb)


def test_the_announcement_names_place_and_amount_and_torch_is_asked_of_another_index(tmp_path: Path) -> None:
    lines = plan.describe(plan.plan_work(PINS, {"ruff": "0.17"}, lambda: CPU), tmp_path, 77_000)
    assert lines[0] == f"Setting up SoulsGUI in {tmp_path} (once); 1 of 3 packages are already installed."
    assert "about 212 MB in 2 packages" in lines[1]
    assert "about 0.8 GB of 77.0 GB free" in lines[1]
    assert lines[2] == "torch: CPU."
    complete = {pin.name: pin.version for pin in PINS}
    assert len(plan.describe(plan.plan_work(PINS, complete, never), tmp_path, 77_000)) == 1
    assert plan.pip_commands(plan.plan_work(PINS, {}, lambda: CPU), plan.RUN_EXTRAS, "2.13.0") == [
        ["install", "torch==2.13.0", "--extra-index-url", "https://index.example/cpu"],
        ["install", "--editable", ".[train,server]"],
    ]
    assert len(plan.pip_commands(plan.plan_work(PINS, {}, lambda: LOCAL), plan.RUN_EXTRAS, "2.13.0")) == 1


def test_folders_of_wheels_come_from_the_environment_and_pips_settings(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    second.mkdir()
    env = {"PIP_FIND_LINKS": f"{first} https://example.org/wheels {tmp_path / 'missing'}"}
    config = f"[global]\nfind-links = file://{second}\n\n[install]\nfind-links =\n    {first}\n"
    assert plan.find_links_folders(env, [config, "no section"]) == [first, second]


def test_a_stamp_is_read_back_and_covers_less_but_not_more_and_a_damaged_one_nothing() -> None:
    stamp = plan.read_stamp(Stamp("abc", ("train", "server", "dev")).to_json())
    assert stamp.covers("abc", plan.RUN_EXTRAS)
    assert not stamp.covers("abd", plan.RUN_EXTRAS)
    assert not Stamp("abc", plan.RUN_EXTRAS).covers("abc", plan.TEST_EXTRAS)
    for text in ("", "{", "[]", "null", "{}", '{"fingerprint": "abc", "extras": 3}'):
        assert not plan.read_stamp(text).covers("abc", []), text


def test_the_fingerprint_follows_what_is_installed_and_nothing_else() -> None:
    here = {"pyproject": PYPROJECT, "constraints": CONSTRAINTS, "python": "3.11.2", "root": Path("/a")}

    def of(**other: Any) -> str:
        return plan.fingerprint(*(here | other).values())

    assert of() == of(pyproject=PYPROJECT.replace("line-length = 110", "line-length = 100"))
    others = [
        of(pyproject=PYPROJECT.replace("redis[hiredis]>=8.0", "redis>=8.0")),
        of(constraints=CONSTRAINTS + "\n"),
        of(python="3.12.1"),
        of(root=Path("/b")),
    ]
    assert len({of(), *others}) == 5


def test_what_is_started() -> None:
    assert plan.program_arguments([], window=True) == ["gui"]
    assert plan.program_arguments(["--data-dir", "d"], window=True) == ["gui", "--data-dir", "d"]
    assert plan.program_arguments(["runs", "list"], window=True) == ["runs", "list"]
    assert plan.program_arguments(["--json"], window=False) == [*plan.DEMO, "--json"]


def test_a_wrong_path_or_a_damaged_invitation_is_told_before_any_download(tmp_path: Path) -> None:
    link = "soulsgui://join/c2VjcmV0XKLo5Q"
    file = tmp_path / "pc.soulsgui"
    assert (
        plan.wrong_invitation("") == plan.wrong_invitation(link) == plan.wrong_invitation(f"<{link}>") == ""
    )
    assert plan.wrong_invitation(link[:-1]) == plan.wrong_invitation("soulsgui:") != ""
    assert "There is no invitation in" in plan.wrong_invitation(str(file))
    for text, whole in ((link, True), (link[:-2], False), ('{"client": "pc"}', True), ('{"clie', False)):
        file.write_text(text)
        assert (plan.wrong_invitation(str(file)) == "") is whole, text
