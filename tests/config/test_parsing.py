import os
from collections.abc import Callable
from pathlib import Path

import pytest

from soulsgui.config.editing import read_text, save_text
from soulsgui.config.errors import ConfigError
from soulsgui.config.parsing import MOST_BYTES, parse_layer, read_layer

TEXT = "# ähnlich\nseed: 5\n"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def told(path: Path) -> str:
    with pytest.raises(ConfigError) as first:
        read_layer(path)
    with pytest.raises(ConfigError) as second:
        read_text(path)
    assert str(first.value) == str(second.value)
    return str(first.value)


def test_a_mark_of_utf_8_is_no_part_of_the_text(path: Path) -> None:
    path.write_text(TEXT, encoding="utf-8-sig")
    assert read_text(path) == TEXT
    assert read_layer(path).values == {"seed": 5}
    assert read_layer(path).lines == {"seed": 2}


def test_what_is_no_text_of_settings_is_told_with_the_remedy(path: Path) -> None:
    for name in ("utf-16", "utf-32"):
        path.write_text(TEXT, encoding=name)
        assert f"config.yaml: is written as {name.upper()}" in told(path)
        assert "Save it as UTF-8" in told(path)
    path.write_bytes(b"seed: 5\n# \xe9t\xe9\n")
    assert "config.yaml, line 2: the byte 0xe9 is not UTF-8" in told(path)
    assert "Save it as UTF-8" in told(path)
    path.write_bytes(b"seed: 5\n" * 1_310_720)
    assert "is 10.0 MB large" in told(path)
    with pytest.raises(ConfigError, match="large"):
        parse_layer("#" * (MOST_BYTES + 1), "config.yaml")
    path.unlink()
    path.mkdir()
    assert "config.yaml: can't be read" in told(path)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files")
@pytest.mark.parametrize("make", [os.mkfifo, Path.mkdir])
def test_another_folder_is_the_remedy_for_the_file_of_the_user_alone(
    path: Path, make: Callable[[Path], None]
) -> None:
    make(path)
    assert told(path).count("Fix that, or choose another folder: --config-dir DIR.") == 1
    of_a_run = path.with_name("config.json")
    make(of_a_run)
    said = told(of_a_run)
    assert f"in {path.parent}" in said
    assert "Fix that." in said
    assert "--config-dir" not in said


def test_what_is_no_text_is_not_written_over(path: Path) -> None:
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError):
        save_text(path, TEXT, "0" * 16)
    assert path.read_bytes() == b"\xff\xfe\x00"


def test_of_thousands_of_mistakes_a_hundred_are_told() -> None:
    problems = parse_layer("".join(f"k{number}: 1\n" for number in range(1500)), "config.yaml").problems
    assert len(problems) == 1500
    assert [bool(one.nearest) for one in problems].count(True) <= 100
    told = ConfigError(list(problems)).message.splitlines()
    assert told[-2].startswith("  config.yaml, line 100: k99")
    assert told[-1] == "  … and 1,400 more. Is it a file of settings?"
