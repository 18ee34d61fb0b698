"""What the owner of a game PC is asked by a server, and asks of its `join`: pause, continue, stop, status."""

import math
import re
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from soulsgui.cli.output import answer, execution_text, folders_of, say, yes
from soulsgui.cli.parser import Arguments
from soulsgui.cli.remote import RunnerClient, join_of, wait_for_end
from soulsgui.config.errors import nearest
from soulsgui.errors import ServerUnreachableError, UsageError, printable
from soulsgui.runner.services.outcome import duration_words
from soulsgui.runner.status_text import count_words, return_words
from soulsgui.wire.control import ClientStatus, ServiceStatus, Status
from soulsgui.wire.control.states import CLIENT, Situation, situation
from soulsgui.wire.messages.owner import writing_words

if TYPE_CHECKING:
    from soulsgui.runner.join.servers import SavedInvitations
    from soulsgui.wire.invitation import Invitation
    from soulsgui.wire.messages.server_config import Execution

_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(s|min|m|h)")
_SECONDS = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_MOST_S = 7 * 86_400.0
_GOES_ON_WITHIN_S = 3.0
_LOOK_EVERY_S = 0.2


def is_asked(arguments: Arguments) -> bool:
    """Whether a `join` that goes on is asked something, instead of one begun."""
    word = arguments.invitation
    pausing = arguments.pause_for or arguments.after_episode
    if pausing and word != "pause":
        raise UsageError(
            "--for and --after-episode only work with `join pause`.", "Pause it: soulsgui join pause"
        )
    if arguments.as_json and word != "status":
        raise UsageError("--json only works with `join status`.")
    if arguments.trust and (arguments.here or (word in _ASKED and word != "agree")):
        raise UsageError("--trust only works with an invitation or with `join agree`.")
    if word in _ASKED and (arguments.here or arguments.name or arguments.address):
        raise UsageError(
            f"`join {word}` is for the client that already plays here: it can't be combined with --here, "
            "--name or --address."
        )
    if word and word not in _ASKED and word.isalpha() and not Path(word).exists():
        near = nearest(word, _ASKED)
        if near:
            raise UsageError(f"There is no invitation in {word}.", f"Did you mean: soulsgui join {near}?")
    return word in _ASKED


def ask(arguments: Arguments) -> int:
    """`join pause|continue|stop|status|agree`: ask the runner of client mode of this data folder."""
    arguments.pause_for = duration_s(arguments.pause_for) if arguments.pause_for else None
    return _ASKED[arguments.invitation](arguments, join_of(arguments))


def takes_over(arguments: Arguments, before: "Invitation | None", after: "Invitation | None") -> bool:
    """Hand a new invitation by the same server to what plays here; return whether anything does."""
    if before is None or after is None or arguments.watched:
        return False
    if (before.server_id, before.client) != (after.server_id, after.client):
        return False
    try:
        join_of(arguments).command("servers.join", {"invitation": after.link})
    except ServerUnreachableError:
        return False
    say("the client that already plays here has taken over the invitation; see: soulsgui join status")
    return True


def agree(arguments: Arguments, saved: "SavedInvitations", invitation: "Invitation") -> None:
    """Ask the owner of this computer about what a server wants to run here.

    Where nobody can answer, or the server doesn't now, the client waits for an agreement: `join agree`.
    """
    from soulsgui.runner.join.player import unconfined
    from soulsgui.runner.join.servers import examined
    from soulsgui.wire.control import OfferedServer, SavedServer
    from soulsgui.wire.messages.owner import ClientFolder, read_rules

    if arguments.trust:
        saved.agree(invitation, "", always=True)
    if arguments.trust or sys.stdin is None or not sys.stdin.isatty():
        return
    server = SavedServer.model_validate(invitation.model_dump())
    blank = OfferedServer(server=server, known=True)
    offered = examined(blank, invitation, saved.agreement(invitation), threading.Event())
    if offered.runs is None or offered.agreed:
        return
    rules = read_rules(ClientFolder(folders_of(arguments).client).rules)
    asked = _asked(offered.runs, unconfined(rules))
    invited = f"its invitation: {invitation.client}, at {invitation.places}"
    say(f"{invitation.server_name} wants to run on this computer ({invited}):\n{asked}")
    if not yes("Run it here?"):
        again = f"soulsgui join {arguments.invitation}".rstrip()
        raise UsageError("You did not agree: nothing runs here.", f"To be asked again: {again}")
    saved.agree(invitation, offered.runs.digest, always=False)


def _asked(execution: "Execution", unconfined: str) -> str:
    return execution_text(execution, what_it_may_write=writing_words(unconfined))


def duration_s(words: str) -> float:
    """Return a duration such as `30m`, `1.5h` or `90s` in seconds."""
    found = _DURATION.fullmatch(words.strip())
    seconds = float(found[1]) * _SECONDS[found[2]] if found else 0.0
    if not 0 < seconds <= _MOST_S:
        raise UsageError(
            f"--for {words}: expected a number and its unit, s, m (or min) or h, up to a week.",
            "For instance: --for 30m, --for 2h",
        )
    return seconds


def _pause(arguments: Arguments, runner: RunnerClient) -> int:
    params = {"after_episode": arguments.after_episode, "for_s": arguments.pause_for}
    before = _status(runner).clients[0]
    runner.command("clients.pause", {"client": before.id, **params})
    until = _status(runner).clients[0].paused_until
    when = "it was paused already" if before.wish == "pause" and not arguments.pause_for else "it is paused"
    when = "it pauses after its episode" if arguments.after_episode else when
    say(f"{when}{until_words(until)}; continue: soulsgui join continue")
    return 0


def _continue(_arguments: Arguments, runner: RunnerClient) -> int:
    if situation(_status(runner)) in (Situation.OFF, Situation.FAILED):
        runner.command("service.start", {"name": CLIENT})
    runner.command("clients.resume", {"client": _status(runner).clients[0].id})
    found, last = _status(runner), time.monotonic() + _GOES_ON_WITHIN_S
    # Until the next heartbeat of the client it seems to be held.
    while situation(found) is Situation.PAUSED_BY_SERVER and time.monotonic() < last:
        time.sleep(_LOOK_EVERY_S)
        found = _status(runner)
    # What else keeps it from playing is not the owner's pause: nothing asked here ends that.
    kept = situation(found) in (Situation.HELD, Situation.PAUSED_BY_SERVER, Situation.ASKED)
    say(f"your pause is over, but it is {state_words(found)}" if kept else "it continues")
    return 0


def _stop(_arguments: Arguments, runner: RunnerClient) -> int:
    runner.command("server.shutdown")
    wait_for_end(runner.control)
    say("this computer no longer helps")
    return 0


def _agree(arguments: Arguments, runner: RunnerClient) -> int:
    server_id = runner.command("servers.list")["chosen"]  # whom the answer is for
    found = _status(runner)
    client = found.clients[0] if found.clients else ClientStatus(id="", name="")
    asks = client.asks
    if asks is None and not arguments.trust:
        say("the server asks for nothing")
        return 0
    if asks is not None:
        say(f"{found.server.name} wants to run on this computer:\n{_asked(asks, client.unconfined)}")
    if not arguments.trust and not yes("Run it here?"):
        raise UsageError("You did not agree: nothing of it runs here.")
    digest = asks.digest if asks is not None else ""
    runner.command("servers.agree", {"server_id": server_id, "digest": digest, "always": arguments.trust})
    say("agreed, also to whatever it names later" if arguments.trust else "agreed")
    return 0


def _tell(arguments: Arguments, runner: RunnerClient) -> int:
    found = _status(runner)
    return answer(arguments, found, join_text(found))


_ASKED: Mapping[str, Callable[[Arguments, RunnerClient], int]] = {
    "pause": _pause,
    "continue": _continue,
    "stop": _stop,
    "status": _tell,
    "agree": _agree,
}


def _status(runner: RunnerClient) -> Status:
    return Status.model_validate(runner.status())


_HELD = {
    "full_screen": "paused while a program fills the screen",
    "busy": "paused while somebody is at the computer",
    "hours": "paused outside the hours you set",
}
_PLAIN = {
    Situation.MISFIT: "can't play: the versions of server and computer don't match",
    Situation.REVOKED: "revoked: the server no longer lets it in",
    Situation.STOPPING: "stopping",
    Situation.CUT_OFF: "cut off by the server",
    Situation.ASKED: "waiting for you: the server wants to run what follows; agree: soulsgui join agree",
    Situation.SILENT: "the game does not answer",
    Situation.PAUSED_BY_SERVER: "paused by the server",
    Situation.BETWEEN_ROUNDS: "waiting for the server: no round is under way at present",
    Situation.WITHOUT_RUN: "waiting for a run: it plays as soon as one is started on the server",
    Situation.CONNECTING: "connecting",
}


def join_text(status: Status) -> str:
    """Return how the client of this computer is, in a few lines."""
    client, server = status.clients[0] if status.clients else None, status.server
    place = [server.url] if server.url else []
    if server.round_trip_s is not None and server.reachable:
        place.append(f"{1000 * server.round_trip_s:.0f} ms away")
    name = client.id if client is not None else "This computer"
    helped = server.name or "the server of this computer"
    where = f" ({', '.join(place)})" if place else ""
    lines = [f"{name} helps {helped}{where}", f"  {state_words(status)}"]
    if client is not None and client.asks is not None:
        return "\n".join(map(printable, lines)) + f"\n{_asked(client.asks, client.unconfined)}"
    if client is not None and client.env_id:
        lines.append(f"  {_figures(client)}")
    if client is not None and client.unconfined:
        lines.append(f"  what it may write: {writing_words(client.unconfined)}")
    told = [client.error if client is not None else "", server.error]
    lines += [f"  {words}" for words in dict.fromkeys(told) if words]
    return "\n".join(printable(line) for line in lines)


def state_words(status: Status) -> str:
    """Return what the client does at this moment, with what its owner can do about it."""
    client = status.clients[0] if status.clients else ClientStatus(id="", name="")
    service = status.services[0] if status.services else ServiceStatus(name="", kind="", state="stopped")
    match situation(status):
        case Situation.OFF:
            ended = f": {service.outcome}" if service.outcome else ""
            return f"it does not play{ended}; start: soulsgui join continue"
        case Situation.FAILED:
            failures = count_words(service.failures, "failure")
            return f"stopped after {failures}: {service.outcome}; try again: soulsgui join continue"
        case Situation.PAUSED_BY_OWNER:
            return f"paused by you{until_words(client.paused_until)}; continue: soulsgui join continue"
        case Situation.HELD:
            return _HELD[client.held] + until_words(client.held_until) if client.held else "paused"
        case Situation.RETRYING:
            return f"trying again in {duration_words(service.restart_in_s or 0.0)}: {service.outcome}"
        case Situation.FINISHING:
            then = "pauses" if client.wish == "pause_after_episode" else "stops"
            return f"finishing its episode, then it {then}"
        case Situation.AWAY:
            since = status.server.changed_at
            away = f" since {clock_words(since)}" if since is not None else ""
            return f"the server can't be reached{away}; trying again"
        case Situation.PLAYING:
            return f"playing, episode {client.episodes + 1:,}; pause it: soulsgui join pause"
        case other:
            return _PLAIN[other]


def _figures(client: ClientStatus) -> str:
    parts = [
        f"{client.env_id} × {client.num_envs}" if client.num_envs > 1 else client.env_id,
        count_words(client.env_steps, "step"),
        count_words(client.episodes, "episode"),
    ]
    if client.mean_return is not None:
        parts.append(f"mean return {return_words(client.mean_return)}")
    if client.env_steps_per_s:
        parts.append(f"{client.env_steps_per_s:,.0f} steps/s")
    if client.dropped:
        parts.append(f"{client.dropped:,} dropped")
    return " · ".join(parts)


def until_words(moment: float | None) -> str:
    """Return ` until 11:58` for when something ends, rounded up to a whole minute; empty for None."""
    return f" until {clock_words(60.0 * math.ceil(moment / 60.0))}" if moment is not None else ""


def clock_words(moment: float, now: float | None = None) -> str:
    """Return a moment to the minute, with its date when that is not today."""
    then = time.localtime(moment)
    today = time.localtime(now)
    same = then[:3] == today[:3]
    return time.strftime("%H:%M" if same else "%Y-%m-%d %H:%M", then)
