"""What the set-up needs, what is there already, and what to start afterwards: no effects, only decisions."""

import base64
import binascii
import configparser
import hashlib
import json
import re
import tomllib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from first_start.torch_build import TorchBuild

RUN_EXTRAS = ("train", "server")
TEST_EXTRAS = ("train", "server", "dev")
EXTRAS: dict[str, tuple[str, ...]] = {
    "start": RUN_EXTRAS,
    "setup": RUN_EXTRAS,
    "test": TEST_EXTRAS,
    "client": (),
}
"""What each action installs besides the base: a computer that only plays needs neither torch nor a server."""

DEMO = ("serve", "--set", "stop.mean_return=475", "--until-done", "--local-clients", "2")

_LINK = re.compile(r"soulsgui:/*join/([A-Za-z0-9_-]*)=*/*", re.IGNORECASE)
_LONGEST_INVITATION = 64 * 1024

# A wheel below 0.05 MB; and the disk that a wheel takes when installed and compiled (measured: 164 → 720 MB).
_SMALL_WHEEL_MB = 0.03
_DISK_PER_WHEEL = 4.5


@dataclass(frozen=True)
class Pin:
    """One line of `constraints.txt`; `group` is the extra that needs it, or "base", or "build"."""

    name: str
    version: str
    size_mb: float
    group: str


def normalised(name: str) -> str:
    """The name of a package as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def read_pins(text: str) -> list[Pin]:
    """The pins of `constraints.txt` with their groups and sizes, without those for some machines only."""
    pins, group = [], "base"
    for line in text.splitlines():
        if heading := re.fullmatch(r"# \[(\w+)\]", line):
            group = heading[1]
        elif pin := re.match(r"([\w.-]+)==([\w.+!-]+)(?:\s+# ([\d.]+) MB)?\s*$", line):
            pins.append(Pin(normalised(pin[1]), pin[2], float(pin[3] or _SMALL_WHEEL_MB), group))
    return pins


def is_there(pin: Pin, installed: Mapping[str, str]) -> bool:
    """Whether a package is installed in its version; a local part ("+cpu") doesn't count.

    Args:
        pin: The package.
        installed: Version by normalised name.
    """
    return installed.get(pin.name, "").partition("+")[0] == pin.version


def needed_pins(pins: Iterable[Pin], extras: Sequence[str]) -> list[Pin]:
    """The pins that an installation with these extras brings in."""
    return [pin for pin in pins if pin.group in ("base", *extras)]


@dataclass(frozen=True)
class Work:
    """What a set-up has to do.

    Attributes:
        missing: Packages not there yet, or in another version.
        present: How many are.
        download_mb: At most so much is downloaded (less where pip finds something in its cache).
        disk_mb: Needed on the disk for what is missing.
        torch: The build of torch that was chosen, where it is missing.
    """

    missing: tuple[Pin, ...]
    present: int
    download_mb: float
    disk_mb: float
    torch: TorchBuild | None


def plan_work(
    pins: Iterable[Pin], installed: Mapping[str, str], choose_torch: Callable[[], TorchBuild]
) -> Work:
    """Compare what is needed with what is installed.

    Args:
        pins: From `needed_pins`.
        installed: Version by normalised name.
        choose_torch: Tells which build to install; asked only when torch is missing.
    """
    pins = list(pins)
    missing = tuple(pin for pin in pins if not is_there(pin, installed))
    wheels_mb = sum(pin.size_mb for pin in missing if pin.name != "torch")
    torch = choose_torch() if any(pin.name == "torch" for pin in missing) else None
    return Work(
        missing,
        len(pins) - len(missing),
        wheels_mb + (torch.download_mb if torch else 0),
        wheels_mb * _DISK_PER_WHEEL + (torch.disk_mb if torch else 0),
        torch,
    )


def describe(work: Work, venv: Path, free_mb: float) -> list[str]:
    """The announcement before anything is downloaded."""
    there = (
        f"; {work.present} of {work.present + len(work.missing)} packages are already installed"
        if work.present
        else ""
    )
    lines = [f"Setting up SoulsGUI in {venv} (once){there}."]
    if work.missing:
        lines.append(
            f"To download: about {work.download_mb:,.0f} MB in {len(work.missing)} packages "
            f"(less if pip has them in its cache); on the disk about {work.disk_mb / 1000:,.1f} GB "
            f"of {free_mb / 1000:,.1f} GB free."
        )
    if work.torch:
        lines.append(work.torch.reason + ".")
    return lines


def find_links_folders(env: Mapping[str, str], config_texts: Iterable[str]) -> list[Path]:
    """The folders on this machine in which pip looks for wheels first.

    Args:
        env: The environment (`PIP_FIND_LINKS`).
        config_texts: The contents of pip's configuration files.
    """
    entries = env.get("PIP_FIND_LINKS", "").split()
    for text in config_texts:
        parser = configparser.RawConfigParser()
        try:
            parser.read_string(text)
        except configparser.Error:
            continue  # pip itself will complain, with place and reason
        for section in ("global", "install"):
            entries += parser.get(section, "find-links", fallback="").split()
    folders = (Path(entry.removeprefix("file://")).expanduser() for entry in entries)
    return [folder for folder in dict.fromkeys(folders) if folder.is_dir()]


@dataclass(frozen=True)
class Stamp:
    """Written when a set-up is complete; what it doesn't describe any more has to be set up again."""

    fingerprint: str
    extras: tuple[str, ...]

    def to_json(self) -> str:
        """As stored."""
        return json.dumps({"fingerprint": self.fingerprint, "extras": list(self.extras)})

    def covers(self, fingerprint: str, extras: Iterable[str]) -> bool:
        """Whether the set-up is still right and has everything that is wanted now."""
        return self.fingerprint == fingerprint and set(extras) <= set(self.extras)


def read_stamp(text: str) -> Stamp:
    """A stored stamp; one that covers nothing when the text is damaged."""
    try:
        stored = json.loads(text)
        return Stamp(str(stored["fingerprint"]), tuple(stored["extras"]))
    except (ValueError, TypeError, KeyError):
        return Stamp("", ())


def fingerprint(pyproject: str, constraints: str, python_version: str, root: Path) -> str:
    """What an installation depends on, as a hash.

    The place counts because an environment doesn't survive being moved; of `pyproject.toml` what pip reads.
    """
    project = tomllib.loads(pyproject)
    installed = {key: project.get(key) for key in ("build-system", "project")}
    hatch = project.get("tool", {}).get("hatch")
    parts = json.dumps([installed, hatch, constraints, python_version, str(root)], sort_keys=True)
    return hashlib.sha256(parts.encode()).hexdigest()


def program_arguments(extra: Sequence[str], *, window: bool) -> list[str]:
    """The command line of `soulsgui`.

    Args:
        extra: What the user wrote after `--`: a whole command when it begins with a word, else additions.
        window: Whether there is a screen and this version has a window.
    """
    if extra and not extra[0].startswith("-"):
        return list(extra)
    return [*(("gui",) if window else DEMO), *extra]


def is_link(invitation: str) -> bool:
    """Whether an invitation was given as a link, which holds its secret."""
    return invitation.strip().lstrip("<\"'").lower().startswith("soulsgui:")


def wrong_invitation(invitation: str) -> str:
    """What keeps a link, or the file of an invitation, from being one; "" when nothing is seen.

    The program itself looks closer, once it is there.

    Args:
        invitation: As typed; empty for none.
    """
    if not invitation:
        return ""
    if is_link(invitation):
        return "" if _is_whole(invitation) else "The link is damaged or cut off."
    try:
        with Path(invitation).open("rb") as file:
            data = file.read(_LONGEST_INVITATION)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or error
        return f"There is no invitation in {invitation[:200]}: {reason}."
    text = data.decode("utf-16" if data[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig", errors="replace")
    if is_link(text):
        return "" if _is_whole(text) else f"The link in {invitation[:200]} is damaged or cut off."
    try:
        whole = isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        whole = False
    return "" if whole else f"{invitation[:200]} is damaged, or not an invitation."


def _is_whole(link: str) -> bool:
    # Behind the data stands their CRC-32 (soulsgui/wire/invitation.py).
    found = _LINK.fullmatch("".join(link.split()).strip("<>\"'"))
    if found is None:
        return False
    try:
        data = base64.urlsafe_b64decode(found[1] + "=" * (-len(found[1]) % 4))
    except binascii.Error:
        return False
    return len(data) > 4 and zlib.crc32(data[:-4]).to_bytes(4, "big") == data[-4:]


def join_arguments(invitation: str, extra: Sequence[str]) -> list[str]:
    """The command line of `soulsgui` that helps a server.

    Args:
        invitation: File of an invitation; empty plays for the server of last time.
        extra: What the user wrote after `--`.
    """
    return ["join", *([invitation] if invitation else []), *extra]


def pip_commands(work: Work, extras: Sequence[str], torch_version: str) -> list[list[str]]:
    """The arguments of the pip calls, run in the project's folder, one after the other."""
    wanted = f".[{','.join(extras)}]" if extras else "."
    commands = [["install", "--editable", wanted]]
    if work.torch and work.torch.index:
        # On its own, so that the other packages come from PyPI alone.
        commands.insert(0, ["install", f"torch=={torch_version}", "--extra-index-url", work.torch.index])
    return commands
