"""`env ...`: environments, examined on this computer without a runner."""

import asyncio
import sys

from soulsgui.cli.output import folders_of, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.config.layers import parse_assignments, place_of
from soulsgui.config.load import layers_of, load_settings
from soulsgui.environments.report_words import report_lines
from soulsgui.runner.probe import examine

_KEYS = ("env.id", "env.kwargs", "env.wrappers")


def check(arguments: Arguments) -> int:
    """`env check`: what the environment shows and takes, how fast it is, and what is wrong with it."""
    named = [f"env.id={arguments.env_id}"] if arguments.env_id else []
    assignments = [*(arguments.assignments or []), *named]
    folders = folders_of(arguments)
    settings = load_settings(folders, arguments.preset, assignments)
    try:
        report = asyncio.run(examine(settings, _show))
    finally:
        _show("")
    if not report["ok"]:
        layers = layers_of(folders, arguments.preset, [parse_assignments(assignments)])
        report["places"] = {key: place for key in _KEYS if (place := place_of(key, layers[1:]))}
    if arguments.as_json:
        say_json(report)
    else:
        say("\n".join(report_lines(report)))
    return 0 if report["ok"] else 1


def _show(doing: str) -> None:
    """Show what is done in place of what was shown before, where somebody looks."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{doing}")
        sys.stderr.flush()
