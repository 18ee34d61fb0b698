from pathlib import Path

import pytest

from soulsgui.config.paths import Folders


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    (tmp_path / "config").mkdir()
    return Folders(tmp_path / "config", tmp_path / "data")
