"""The pages of the manual lead where they say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
_CODE = re.compile(r"```.*?```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_INDENTED = re.compile(r"^    .+$", re.MULTILINE)
_COMMAND = re.compile(r"(?:^|\s)soulsgui [a-z]")


def _anchors(page: Path) -> set[str]:
    """The names of its headings, as GitHub makes them."""
    text = _CODE.sub("", page.read_text(encoding="utf-8"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in _HEADING.findall(text)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_somewhere(page: Path) -> None:
    for link in _LINK.findall(_CODE.sub("", page.read_text(encoding="utf-8"))):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        assert target.exists(), link
        assert not anchor or anchor in _anchors(target), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_command_of_a_block_has_a_line_of_its_own(page: Path) -> None:
    written = page.read_text(encoding="utf-8")
    lines = [*"\n".join(_CODE.findall(written)).splitlines(), *_INDENTED.findall(written)]
    told = [line.split("#")[0].split("'")[0] for line in lines if "|" not in line]
    assert [line for line in told if len(_COMMAND.findall(line)) > 1] == []
