"""What the owner of a game PC asks of its `join`, from a second terminal: pause, continue, stop, status."""

import re
import time
from collections.abc import Callable, Mapping
from typing import Any

from soulsgui.cli.output import folders_of, say, say_json
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import wait_for_end
from soulsgui.cli.runner import RunnerClient, join_of
from soulsgui.errors import UsageError
from soulsgui.wire.control import Status
from soulsgui.wire.situation import CLIENT, Situation, situation

_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_MOST_S = 7 * 86_400.0
_GOES_ON_WITHIN_S = 3.0
_LOOK_EVERY_S = 0.2


def is_asked(arguments: Arguments) -> bool:
    """Whether a `join` that goes on is asked something, instead of one begun.

    Raises:
        UsageError: Options do not go together.
    """
    word = arguments.invitation
    pausing = arguments.pause_for or arguments.after_episode
    if pausing and word != "pause":
        raise UsageError("--for and --after-episode go with a pause.", "Pause it: soulsgui join pause")
    if arguments.as_json and word != "status":
        raise UsageError("--json goes with `join status`.")
    if word in _ASKED and (arguments.here or arguments.name):
        raise UsageError(f"`join {word}` is for what plays here already: it goes with no --here or --name.")
    return word in _ASKED


def ask(arguments: Arguments) -> int:
    """`join pause|continue|stop|status`: ask the runner of client mode of this data folder."""
    for_s = duration_s(arguments.pause_for) if arguments.pause_for else None
    return _ASKED[arguments.invitation](arguments, join_of(folders_of(arguments)), for_s)


def duration_s(words: str) -> float:
    """Return a duration such as `30m`, `1.5h` or `90s` in seconds.

    Raises:
        UsageError: It is none, or longer than a week.
    """
    found = _DURATION.fullmatch(words.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= _MOST_S:
        raise UsageError(f"--for {words}: expected a time up to a week.", "For instance: --for 30m, --for 2h")
    return seconds


def _pause(arguments: Arguments, runner: RunnerClient, for_s: float | None) -> int:
    from soulsgui.runner.join.words import until_words

    params: dict[str, Any] = {"after_episode": arguments.after_episode, "for_s": for_s}
    runner.command("clients.pause", {"client": _client(runner), **params})
    until = _status(runner).clients[0].paused_until
    when = "it pauses after its episode" if arguments.after_episode else "it is paused"
    end = until_words(until) if until is not None else ""
    say(f"{when}{end}; go on: soulsgui join continue")
    return 0


def _continue(_arguments: Arguments, runner: RunnerClient, _for_s: float | None) -> int:
    from soulsgui.runner.join.words import state_words

    if situation(_status(runner)) in (Situation.OFF, Situation.FAILED):
        runner.command("service.start", {"name": CLIENT})
    runner.command("clients.resume", {"client": _client(runner)})
    found = _after_pause(runner)
    # What else keeps it from playing is not the owner's pause: nothing asked here ends that.
    kept = situation(found) in (Situation.HELD, Situation.PAUSED_BY_SERVER)
    say(f"your pause is over, but it is {state_words(found)}" if kept else "it goes on")
    return 0


def _after_pause(runner: RunnerClient) -> Status:
    """Return the status once the client can have gone on: until its next beat it seems to be held."""
    last = time.monotonic() + _GOES_ON_WITHIN_S
    while True:
        found = _status(runner)
        if situation(found) is not Situation.PAUSED_BY_SERVER or time.monotonic() >= last:
            return found
        time.sleep(_LOOK_EVERY_S)


def _stop(_arguments: Arguments, runner: RunnerClient, _for_s: float | None) -> int:
    runner.command("server.shutdown")
    wait_for_end(runner.control)
    say("this computer helps no longer")
    return 0


def _tell(arguments: Arguments, runner: RunnerClient, _for_s: float | None) -> int:
    from soulsgui.runner.join.words import join_text

    found = _status(runner)
    if arguments.as_json:
        say_json(found.model_dump(mode="json"))
    else:
        say(join_text(found))
    return 0


_ASKED: Mapping[str, Callable[[Arguments, RunnerClient, float | None], int]] = {
    "pause": _pause,
    "continue": _continue,
    "stop": _stop,
    "status": _tell,
}


def _status(runner: RunnerClient) -> Status:
    return Status.model_validate(runner.status())


def _client(runner: RunnerClient) -> str:
    return _status(runner).clients[0].id
