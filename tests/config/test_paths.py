"""Where the user's folders are."""

from collections.abc import Callable
from pathlib import Path

import platformdirs
import pytest

from soulsgui.config.paths import default_config_dir, default_data_dir
from soulsgui.errors import UsageError


@pytest.mark.parametrize(
    ("find", "name", "option"),
    [
        (default_config_dir, "user_config_dir", "--config-dir"),
        (default_data_dir, "user_data_dir", "--data-dir"),
    ],
)
def test_a_user_without_a_home_is_asked_for_a_folder(
    find: Callable[[], Path], name: str, option: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platformdirs, name, lambda *_args, **_kwargs: "~/.local/SoulsGUI")
    with pytest.raises(UsageError, match="no home folder") as told:
        find()
    assert option in told.value.remedy
