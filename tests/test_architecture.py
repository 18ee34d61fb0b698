"""docs/architecture.md describes the program of today."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")


def _rooms() -> set[str]:
    return {
        f"{folder.relative_to(ROOT).as_posix()}/"
        for folder in (ROOT / "soulsgui").rglob("*")
        if folder.is_dir() and any(folder.glob("*.py"))
    }


def test_each_room_is_named_and_each_named_room_exists() -> None:
    rooms = TEXT.split("## Rooms")[1].split("\n## ")[0]
    assert set(re.findall(r"`(soulsgui/[\w/]+/)`", rooms)) == _rooms()


def test_each_file_that_is_named_exists() -> None:
    named = re.findall(r"`((?:soulsgui|packaging|tests|configs|docs)/[\w/.]+)`", TEXT)
    missing = {name for name in named if not (ROOT / name).exists()}
    # The ways leave out the first folder and the ending.
    ways = TEXT.split("## The way of a number")[1].split("\n## Where")[0]
    for name in re.findall(r"`([a-z]+/[\w/]+)`", ways):
        place = ROOT / "soulsgui" / name
        if not (place.with_suffix(".py").exists() or place.is_dir()):
            missing.add(name)
    assert missing == set()
