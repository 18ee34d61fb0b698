"""The decisions of the shell, without a window."""

from pathlib import Path

from soulsgui.gui.config.new_run import CLIENTS, GOAL, Choice
from soulsgui.gui.models.connection import Connection, ConnectionState
from soulsgui.gui.preferences import Mode
from soulsgui.gui.shell.bell import event_text, unseen
from soulsgui.gui.shell.connection import SleepWatch, too_old_or_new
from soulsgui.gui.shell.menu import shutdown_question
from soulsgui.gui.shell.next_step import offer_for
from soulsgui.gui.shell.toolbar import other_side
from soulsgui.gui.shell.update import Installation, update_steps
from soulsgui.wire.control import (
    API_VERSION,
    ClientStatus,
    ConfigValues,
    Event,
    Hello,
    Preset,
    RunStatus,
    RunSummary,
    Status,
)
from soulsgui.wire.versions import PROTOCOL_NAME, Lack

NOW = 1_790_000_000.0
CONNECTED = Connection(ConnectionState.CONNECTED, "my-server")
NO_RUN = Connection(ConnectionState.NO_RUN, "my-server")
CUT = Connection(ConnectionState.RECONNECTING, "my-server")
NO_REDIS = Connection(ConnectionState.REDIS_DOWN, "my-server")
RUNNING = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
NONE = RunStatus()
OLD = RunSummary(id="r0", name="lunar-1", resumable=True)


# --- shutting down ---


def test_shutting_down_names_who_will_wait() -> None:
    clients = [
        ClientStatus(id="a", name="a", local=True, state="online"),
        ClientStatus(id="b", name="b", state="paused"),
        ClientStatus(id="c", name="c", state="left"),
    ]
    sentence = shutdown_question(Status(run=RUNNING, clients=clients)).sentence
    assert "lunar-2" in sentence
    assert "1 other computer" in sentence
    assert "lunar" not in shutdown_question(Status()).sentence


# --- versions and sleep ---


def hello(api: int, api_oldest: int) -> Hello:
    return Hello(
        version="0.9",
        api=api,
        api_oldest=api_oldest,
        server_id="s",
        pid=1,
        started=NOW,
        data_dir="d",
        config_dir="c",
        capabilities=[],
    )


def test_versions_that_do_not_fit_are_told_apart() -> None:
    assert too_old_or_new(hello(API_VERSION, API_VERSION), "s") is None
    assert too_old_or_new(hello(API_VERSION + 5, API_VERSION), "s") is None
    old = too_old_or_new(hello(API_VERSION + 5, API_VERSION + 1), "s")
    assert old is not None
    assert old.state is ConnectionState.TOO_OLD
    new = too_old_or_new(hello(0, 0), "s")
    assert new is not None
    assert new.state is ConnectionState.TOO_NEW
    assert "0.9" in new.detail


def test_sleep_is_noticed_once() -> None:
    wall, awake = [1000.0], [50.0]
    watch = SleepWatch(lambda: wall[0], lambda: awake[0])
    wall[0], awake[0] = 1060.0, 110.0
    assert not watch.slept(), "a minute passed, awake"
    wall[0], awake[0] = 5000.0, 111.0
    assert watch.slept()
    assert not watch.slept()


# --- events ---


def test_the_bell_counts_what_is_worth_it_and_not_yet_seen() -> None:
    levels = ["info", "warning", "error", "warning"]
    events = [
        Event(number=number, time=NOW, level=level, what="x")  # type: ignore[arg-type]
        for number, level in enumerate(levels, start=1)
    ]
    assert [one.number for one in unseen(events, 0)] == [2, 3, 4]
    assert [one.number for one in unseen(events, 3)] == [4]


def test_an_event_says_when_what_why_and_what_to_do() -> None:
    crash = Event(
        number=1, time=NOW, level="error", what="Trainer crashed", cause="Out of memory.", remedy="Buy some."
    )
    first, second = event_text(crash, NOW).splitlines()
    assert first.endswith("Trainer crashed")
    assert second == "Out of memory. Buy some."


# --- what next ---

DONE = RunStatus(
    id="r1", state="finished", reached="mean_return", env_id="CartPole-v1", goal_return=475.0, seconds=31.2
)


def test_a_goal_that_is_reached_is_told_once_with_the_next_task() -> None:
    before = DONE.model_copy(update={"state": "running", "reached": ""})
    offer = offer_for(before, DONE)
    assert offer is not None
    assert offer.words == "Reached 475 after 31 s."
    assert offer.next_preset == "lunarlander_ppo"
    assert offer_for(DONE, DONE) is None
    assert offer_for(before, before) is None


def test_a_run_that_was_stopped_reached_nothing() -> None:
    before = DONE.model_copy(update={"state": "running", "reached": ""})
    assert offer_for(before, DONE.model_copy(update={"state": "stopped", "reached": "stopped"})) is None


def test_another_environment_offers_its_run_alone() -> None:
    before = DONE.model_copy(update={"state": "running", "reached": ""})
    steps = DONE.model_copy(update={"reached": "env_steps", "env_steps": 5000, "env_id": "LunarLander-v3"})
    offer = offer_for(before, steps)
    assert offer is not None
    assert "5,000 environment steps" in offer.words
    assert not offer.next_preset


# --- the other side ---


def test_the_badge_tells_of_the_side_that_is_not_shown() -> None:
    assert other_side(Mode.SERVER, "running", playing=True) == "this computer plays"
    assert other_side(Mode.CLIENT, "running", playing=True) == "a run goes on"
    assert other_side(Mode.SERVER, "running", playing=False) == ""
    assert other_side(Mode.CLIENT, "finished", playing=True) == ""


# --- a new run ---

CONFIG = ConfigValues(
    defaults={"env.id": "CartPole-v1", CLIENTS: 2, GOAL: None, "ppo.gamma": 0.99},
    saved={"ppo.gamma": 0.9},
    running={},
    text="",
    hash="",
    path="",
)
PRESET = Preset(
    name="p", title="A preset.", values={"env.id": "LunarLander-v3", GOAL: 200, "ppo.gamma": 0.999}
)


def test_settings_win_in_their_order() -> None:
    choice = Choice(CONFIG, PRESET, {"env.id": "Acrobot-v1"})
    assert choice.value("env.id") == "Acrobot-v1"
    assert choice.value("ppo.gamma") == 0.9
    assert choice.value(GOAL) == 200
    assert choice.value(CLIENTS) == 2
    assert choice.still_winning() == {"ppo.gamma": 0.9}
    assert Choice(CONFIG).still_winning() == {}


def test_only_what_the_user_changed_is_sent() -> None:
    choice = Choice(CONFIG, PRESET)
    assert choice.changes(2, 200.0) == {}
    assert choice.changes(3, None) == {CLIENTS: 3, GOAL: None}
    assert Choice(CONFIG, PRESET, {"seed": 7}).changes(2, 200.0) == {"seed": 7}


# --- updating ---

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
