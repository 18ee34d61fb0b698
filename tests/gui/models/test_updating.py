"""How a computer is brought up to date, by how the program came there."""

from pathlib import Path

from soulsgui.gui.models.updating import Installation, update_steps
from soulsgui.wire.versions import PROTOCOL_NAME, Lack

PYGAME = Lack(what="pygame", has="2.1", needs="2.5")
NUMPY = Lack(what="numpy", has="", needs="2.0")
OWN = Lack(what="soulsgui", has="0.1", needs="0.3")
OLD_HERE = Lack(what=PROTOCOL_NAME, has="1", needs="2")
OLD_THERE = Lack(what=PROTOCOL_NAME, has="2", needs="1")
CHECKOUT = Installation("/v/bin/python", Path("/home/me/My SoulsGUI"))
WINDOWS = Installation("C:\\v\\python.exe", Path("x"), windows=True)


def commands(lacks: list[Lack], place: Installation) -> tuple[str, ...]:
    steps = update_steps(lacks, place)
    assert steps is not None
    return steps.commands


def test_missing_packages_are_installed_into_the_python_that_runs() -> None:
    words = '"/v/bin/python" -m pip install --upgrade "pygame>=2.5" "numpy>=2.0"'
    assert commands([PYGAME, NUMPY], CHECKOUT) == (words,)
    assert commands([PYGAME], WINDOWS)[0].startswith('& "C:\\v\\python.exe" -m pip')


def test_the_program_itself_is_pulled_and_set_up_where_it_lies() -> None:
    wanted = ('cd "/home/me/My SoulsGUI"', "git pull", "python3 packaging/bootstrap.py")
    assert commands([OWN, PYGAME], CHECKOUT) == wanted
    assert commands([OLD_HERE], CHECKOUT) == wanted
    assert commands([], WINDOWS)[2] == "py packaging\\bootstrap.py"


def test_what_was_installed_whole_is_replaced_and_has_nothing_to_type() -> None:
    for place in (Installation("/usr/bin/python3"), Installation("app.exe", frozen=True)):
        assert commands([OWN], place) == ()
    assert commands([PYGAME], Installation("app.exe", frozen=True)) == ()


def test_an_older_server_is_nothing_to_update_here() -> None:
    assert update_steps([OLD_THERE], CHECKOUT) is None
