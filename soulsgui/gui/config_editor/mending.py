"""The config.yaml of this computer while no server starts because of it: read, checked and written here."""

import time
from pathlib import Path

from soulsgui.config.editing import read_text, save_text, text_hash, with_values
from soulsgui.config.errors import ConfigError, Problem
from soulsgui.config.load import file_problems, text_problems
from soulsgui.system import replace


class Mending:
    """A file of settings with mistakes, and what is being done about them.

    Args:
        path: The file.

    Attributes:
        text: Its text, with what was changed since.
        readable: Whether it is a text at all.
        problems: Every mistake in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.text = ""
        self.readable = False
        self.problems: list[Problem] = []
        self._saved = ""
        self.read()

    @property
    def changed(self) -> bool:
        """Whether something is not saved."""
        return self.text != self._saved

    def read(self) -> None:
        """Take the file as it is now; what was changed here is given up."""
        try:
            self.text, self.readable = read_text(self.path), True
        except ConfigError:
            self.text, self.readable = "", False
        self._saved = self.text
        self.problems = file_problems(self.path)

    def write(self, text: str) -> None:
        """Take another text."""
        self.text = text
        self.problems = text_problems(text, self.path.name)

    def take_out(self, key: str) -> None:
        """Take a setting out, so that the shipped value holds.

        Raises:
            ConfigError: The text is not YAML.
        """
        self.write(with_values(self.text, {}, (key,)))

    def save(self) -> None:
        """Write the file.

        Raises:
            ConfigError: It has mistakes still.
            FileChangedError: Somebody else changed it meanwhile; saved again, it is overwritten.
            OSError: It can't be written.
        """
        if self.problems:
            raise ConfigError(self.problems)
        base, self._saved = self._saved, read_text(self.path)
        save_text(self.path, self.text, text_hash(base))
        self._saved = self.text

    def set_aside(self, now: float) -> Path:
        """Give the file another name, so that the shipped values hold; return that.

        Args:
            now: Seconds since the epoch.

        Raises:
            OSError: It can't be done.
        """
        stamp = time.strftime("%Y-%m-%d_%H-%M-%S", time.localtime(now))
        aside = self.path.with_name(f"{self.path.name}.{stamp}")
        replace(self.path, aside)
        self.read()
        return aside
