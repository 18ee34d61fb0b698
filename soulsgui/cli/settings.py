"""`config ...`: the user's settings, read and written without a runner."""

import json
from typing import Any

from soulsgui.cli.output import folders_of, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.config.declaring import Effect
from soulsgui.config.errors import ConfigError, nearest
from soulsgui.config.layers import parse_assignments
from soulsgui.config.load import load_settings
from soulsgui.config.sections.agents import shipped_with
from soulsgui.config.settings_info import all_settings
from soulsgui.errors import UsageError
from soulsgui.runner import settings_file
from soulsgui.runner.library import public_tree, public_values
from soulsgui.wire.control import ConfigSaveParams

_WHEN = {
    Effect.NEW_RUN: "with the next new run",
    Effect.RESUME: "with the next new run; one that goes on takes it by: soulsgui run resume --set KEY=VALUE",
    Effect.RESTART_RUNNER: "when the server starts anew",
}


def show(arguments: Arguments) -> int:
    """`config show`: the effective configuration."""
    settings = load_settings(folders_of(arguments), arguments.preset, arguments.assignments)
    part, known = arguments.part, all_settings()
    every = public_values(settings)
    values = {key: value for key, value in every.items() if not part or f"{key}.".startswith(f"{part}.")}
    if not values:
        near = nearest(part, [*(key.partition(".")[0] for key in known), *known])
        raise UsageError(
            f"{part!r} is neither a setting nor a section of them.",
            f"Did you mean {near}?" if near else "See all of them: soulsgui config show",
        )
    if arguments.as_json:
        tree: Any = public_tree(settings)
        for name in part.split(".") if part else ():
            tree = tree[name]
        say_json(tree)
    else:
        brought = shipped_with(every)
        for key, value in values.items():
            with_it = f", as shipped for {settings.agent or settings.algorithm}"
            note = with_it if key in brought and value == brought[key] else ""
            say(f"{key}: {_shown(value)}  # {known[key].effect}{note}")
    return 0


def check(arguments: Arguments) -> int:
    """`config check`: every mistake, with its place and the nearest valid key."""
    try:
        load_settings(folders_of(arguments), arguments.preset, arguments.assignments)
    except ConfigError as error:
        if not arguments.as_json:
            raise
        say_json({"problems": settings_file.as_plain(error)})
        return error.exit_code
    if arguments.as_json:
        say_json({"problems": []})
    else:
        say("The configuration is right.")
    return 0


def diff(arguments: Arguments) -> int:
    """`config diff`: what differs from the shipped settings, and where that was written."""
    overrides = parse_assignments(arguments.assignments)
    found = settings_file.difference(folders_of(arguments), arguments.preset, overrides)
    if arguments.as_json:
        say_json(found)
        return 0
    for one in found:
        place = f"{one['source']}, line {one['line']}" if one["line"] else one["source"]
        say(f"{one['key']}: {_shown(one['shipped'])} -> {_shown(one['value'])}  ({place})")
    if not found:
        say("Nothing differs from the shipped settings.")
    return 0


def change(arguments: Arguments) -> int:
    """`config set`: write settings into the user's config.yaml, comments kept."""
    without = next((word for word in arguments.values if "=" not in word), None)
    if without is not None:
        raise UsageError(
            f"config set: {without!r} has no value.",
            f"Usage: soulsgui config set KEY=VALUE ... (what it is now: soulsgui config show {without})",
        )
    layer = parse_assignments(arguments.values, "config set")
    if layer.problems:
        raise ConfigError(list(layer.problems))
    folders = folders_of(arguments)
    settings_file.save(folders, ConfigSaveParams(changes=layer.values))
    say(f"written to {folders.overrides}")
    for effect, when in _WHEN.items():
        if keys := [key for key in layer.values if all_settings()[key].effect is effect]:
            say(f"{', '.join(keys)}: takes effect {when}")
    return 0


def _shown(value: Any) -> str:
    return json.dumps(value)
