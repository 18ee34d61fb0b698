from pathlib import Path

from soulsgui.gui.shell.connector import SleepWatch
from soulsgui.gui.shell.menu import shutdown_question
from soulsgui.gui.shell.toolbar import event_text
from soulsgui.gui.shell.update import Installation, update_steps
from soulsgui.wire.control import Event, RunStatus, Status
from soulsgui.wire.versions import PROTOCOL_NAME, MissingRequirement
from tests.states import client

NOW = 1_790_000_000.0


def test_shutting_down_names_who_will_wait() -> None:
    run = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
    clients = [client("a", local=True), client("b", "paused"), client("c", "left")]
    sentence = shutdown_question(Status(run=run, clients=clients)).sentence
    assert "lunar-2" in sentence
    assert "1 other computer" in sentence
    assert "lunar" not in shutdown_question(Status()).sentence


def test_sleep_is_noticed_once() -> None:
    wall, awake = [1000.0], [50.0]
    watch = SleepWatch(lambda: wall[0], lambda: awake[0])
    wall[0], awake[0] = 1060.0, 110.0
    assert not watch.slept(), "a minute passed, awake"
    wall[0], awake[0] = 5000.0, 111.0
    assert watch.slept()
    assert not watch.slept()


def test_an_event_says_when_what_why_and_what_to_do() -> None:
    why = {"cause": "Out of memory.", "remedy": "Buy some."}
    first, second = event_text(
        Event(number=1, time=NOW, level="error", what="Trainer crashed", **why), NOW
    ).splitlines()
    assert first.endswith("Trainer crashed")
    assert second == "Out of memory. Buy some."


PYGAME = MissingRequirement(what="pygame", has="2.1", needs="2.5")
NUMPY = MissingRequirement(what="numpy", has="", needs="2.0")
OWN = MissingRequirement(what="soulsgui", has="0.1", needs="0.3")
OLD_HERE = MissingRequirement(what=PROTOCOL_NAME, has="1", needs="2")
OLD_THERE = MissingRequirement(what=PROTOCOL_NAME, has="2", needs="1")
CHECKOUT = Installation("/v/bin/python", Path("/home/me/My SoulsGUI"))
WINDOWS = Installation("C:\\v\\python.exe", Path("x"), windows=True)


def commands(lacks: list[MissingRequirement], place: Installation) -> tuple[str, ...]:
    steps = update_steps(lacks, place)
    assert steps is not None
    return steps.commands


def test_what_is_missing_is_installed_where_this_program_lies_and_what_was_installed_whole_replaced() -> None:
    words = '"/v/bin/python" -m pip install --upgrade "pygame>=2.5" "numpy>=2.0"'
    assert commands([PYGAME, NUMPY], CHECKOUT) == (words,)
    assert commands([PYGAME], WINDOWS)[0].startswith('& "C:\\v\\python.exe" -m pip')
    wanted = ('cd "/home/me/My SoulsGUI"', "git pull", "python3 packaging/bootstrap.py")
    assert commands([OWN, PYGAME], CHECKOUT) == commands([OLD_HERE], CHECKOUT) == wanted
    assert commands([], WINDOWS)[2] == "py packaging\\bootstrap.py"
    frozen = Installation("app.exe", frozen=True)
    for lacks, place in ((OWN, Installation("/usr/bin/python3")), (OWN, frozen), (PYGAME, frozen)):
        assert commands([lacks], place) == (), "there is nothing to type"
    assert update_steps([OLD_THERE], CHECKOUT) is None, "the server is the older one"
