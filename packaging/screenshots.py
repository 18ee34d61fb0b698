"""Takes the README's pictures: the real window with a real run, on a screen nobody sees.

    .venv/bin/python packaging/screenshots.py [FOLDER]      default: docs/images

Needs Xvfb and xdotool (Debian: `apt install xvfb xdotool`). Takes about two minutes.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from PySide6.QtGui import QImage

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from soulsgui.config.paths import Folders  # noqa: E402
from soulsgui.gui.colours import DARK, LIGHT  # noqa: E402
from soulsgui.gui.preferences import Preferences  # noqa: E402
from soulsgui.gui.shell.runner_link import control_path  # noqa: E402
from soulsgui.gui.theme import ThemeChoice  # noqa: E402
from soulsgui.wire.api_client import ApiClient  # noqa: E402
from soulsgui.wire.control import ControlFile  # noqa: E402
from soulsgui.wire.invitation import Invitation  # noqa: E402
from tests.end_to_end.screen import Screen, seconds_until  # noqa: E402
from tests.end_to_end.server import command_line  # noqa: E402

PAGES = ("overview", "clients", "plots", "runs", "config", "logs")  # Ctrl+1, Ctrl+2 ...
START_LIMIT_S = 90.0
SETTLE_S = 4.0
START_S = 5.0
UPDATES = 9


def main(target: Path) -> None:
    """Take every page in both themes."""
    target.mkdir(parents=True, exist_ok=True)
    for theme in (ThemeChoice.LIGHT, ThemeChoice.DARK):
        with tempfile.TemporaryDirectory() as folder:
            take(Path(folder), theme, target)


def take(folder: Path, theme: ThemeChoice, target: Path) -> None:
    """Start a server and its window, train a while, and take each page.

    Args:
        folder: For everything that is only needed meanwhile.
        theme: Light or dark.
        target: Where the pictures go: `<page>_<theme>.png`.
    """
    folders = Folders(folder / "config", folder / "data")
    folders.config.mkdir()
    preferences = Preferences(folders)
    preferences.theme = theme
    preferences.settings.sync()
    screen = Screen(folder)
    with (folder / "output").open("wb") as output:
        window = subprocess.Popen(
            command_line("gui", folder=folder), env=screen.env, stdout=output, stderr=output
        )
    try:
        seconds_until(lambda: screen.windows("SoulsGUI"), "the window", START_LIMIT_S)
        seconds_until(control_path(folders).exists, "the runner", START_LIMIT_S)
        api = ApiClient(ControlFile.load(control_path(folders)))
        save(screen, target / f"welcome_{theme.value}.png")
        train(api)
        screen.focus("SoulsGUI")
        curve = (LIGHT if theme is ThemeChoice.LIGHT else DARK).curve(0)
        for number, page in enumerate(PAGES, start=1):
            screen.press(f"ctrl+{number}")
            if page == "overview":
                seconds_until(lambda: screen.count(curve) > 200, "the curve", START_LIMIT_S)
            save(screen, target / f"{page}_{theme.value}.png")
        join(folder, api, screen, target, theme)
    finally:
        if control_path(folders).exists():
            ApiClient(ControlFile.load(control_path(folders))).command("server.shutdown", {"save": False})
        window.kill()
        window.wait()
        screen.close()


def join(folder: Path, api: ApiClient, screen: Screen, target: Path, theme: ThemeChoice) -> None:
    """Open an invitation in the window, agree to it, and take the page of client mode before and after.

    Args:
        folder: For the invitation.
        api: The server.
        screen: Where the window is.
        target: Where the pictures go.
        theme: Light or dark.
    """
    made = api.command("clients.invite.create", {"client": "gamer-01"})
    path = folder / "gamer-01.soulsgui"
    Invitation.parse(made["link"]).save(path)
    subprocess.run(command_line("gui", str(path), folder=folder), env=screen.env, check=True)
    screen.focus("SoulsGUI")
    time.sleep(START_S)
    save(screen, target / f"consent_{theme.value}.png")
    screen.press("alt+t")
    seconds_until(lambda: _plays(api, "gamer-01"), "the client plays", START_LIMIT_S)
    time.sleep(START_S)
    save(screen, target / f"client_{theme.value}.png")


def _plays(api: ApiClient, client: str) -> bool:
    return any(one["id"] == client and one["state"] == "online" for one in api.status()["clients"])


def train(api: ApiClient) -> None:
    """Begin a run, save it once by hand, and go on until the curve has a shape."""
    api.command("run.start", {"name": "cartpole-1", "note": "shipped settings"})
    seconds_until(lambda: api.status()["run"]["updates"] >= UPDATES // 2, "updates", START_LIMIT_S)
    api.command("checkpoint.save", {"note": "before lunch"})
    api.command("clients.invite.create", {"client": "gamer-02"})
    seconds_until(lambda: api.status()["run"]["updates"] >= UPDATES, "more updates", START_LIMIT_S)


def save(screen: Screen, path: Path) -> None:
    """Wait until the window has drawn itself, and write what is on the screen."""
    time.sleep(SETTLE_S)
    pixels = screen.pixels().copy()
    height, width, _ = pixels.shape
    QImage(pixels.data, width, height, 3 * width, QImage.Format.Format_RGB888).save(str(path))
    print(path)


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "images")
