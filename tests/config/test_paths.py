from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from soulsgui.config.paths import default_config_dir, default_data_dir
from soulsgui.errors import UsageError


def left_as_it_is(*_args: object, **_kwargs: object) -> str:
    """What older versions of platformdirs answer where there is no home."""
    return "~/.local/SoulsGUI"


def refused(*_args: object, **_kwargs: object) -> str:
    """What newer ones do."""
    raise RuntimeError("could not determine the home directory")


@pytest.mark.parametrize("answer", [left_as_it_is, refused])
@pytest.mark.parametrize(
    ("find", "name"), [(default_config_dir, "user_config_dir"), (default_data_dir, "user_data_dir")]
)
def test_a_user_without_a_home_is_asked_for_folders(
    find: Callable[[], Path], name: str, answer: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, name, answer)
    with pytest.raises(UsageError, match="no home folder") as told:
        find()
    assert "--config-dir DIR --data-dir DIR" in told.value.remedy
