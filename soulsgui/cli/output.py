"""Standard output, and the folders a command line names."""

import json
import sys
from typing import Any

from soulsgui.cli.parser import Arguments
from soulsgui.config.paths import Folders, default_config_dir, default_data_dir


def say(text: str) -> None:
    """Write lines to standard output."""
    sys.stdout.write(f"{text}\n")


def say_json(document: Any) -> None:
    """Write one JSON document to standard output."""
    say(json.dumps(document, indent=2))


def folders_of(arguments: Arguments) -> Folders:
    """Return the folders of a command."""
    return Folders(
        (arguments.config_dir or default_config_dir()).absolute(),
        (arguments.data_dir or default_data_dir()).absolute(),
    )
