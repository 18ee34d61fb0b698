"""Standard output, and the folders a command line names."""

import json
import sys
from typing import Any, TextIO

from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders, default_config_dir, default_data_dir
from soulsgui.printable import printable


def say(text: str) -> None:
    """Write lines to standard output; what others wrote in them can't steer the terminal."""
    stream: TextIO | None = sys.stdout  # None when it was closed before we began: `>&-`
    if stream is not None:
        stream.write(f"{printable(text, None, lines=True)}\n")


def say_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    say(json.dumps(document, indent=2))


def folders_of(arguments: Arguments) -> Folders:
    """Return the folders of a command."""
    return Folders(
        (arguments.config_dir or default_config_dir()).absolute(),
        (arguments.data_dir or default_data_dir()).absolute(),
    )
