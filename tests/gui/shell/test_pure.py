"""The decisions of the shell, without a window."""

import pytest

from soulsgui.gui.bell import event_text, unseen
from soulsgui.gui.closing import Ending, ending
from soulsgui.gui.connecting import SleepWatch, too_old_or_new
from soulsgui.gui.connection_state import Connection, ConnectionState
from soulsgui.gui.offer import offer_for
from soulsgui.gui.preferences import AtClosing, Mode
from soulsgui.gui.run_actions import may_resume, may_save, may_start, may_stop
from soulsgui.gui.run_choice import CLIENTS, GOAL, Choice
from soulsgui.gui.toolbar import other_side
from soulsgui.gui.window_menu import shutdown_question
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

NOW = 1_790_000_000.0
CONNECTED = Connection(ConnectionState.CONNECTED, "my-server")
NO_RUN = Connection(ConnectionState.NO_RUN, "my-server")
CUT = Connection(ConnectionState.RECONNECTING, "my-server")
NO_REDIS = Connection(ConnectionState.REDIS_DOWN, "my-server")
RUNNING = RunStatus(id="r1", name="lunar-2", state="running", checkpoint_age_s=125.0)
NONE = RunStatus()
OLD = RunSummary(id="r0", name="lunar-1", resumable=True)


# --- what the toolbar allows ---


def test_every_refusal_has_a_reason() -> None:
    for permission in (
        may_start(CUT),
        may_resume(CUT, NONE, OLD),
        may_resume(NO_RUN, NONE, None),
        may_resume(CONNECTED, RUNNING, OLD),
        may_resume(NO_RUN, NONE, OLD.model_copy(update={"resumable": False})),
        may_stop(NO_RUN, NONE),
        may_save(NO_RUN, NONE),
        may_save(CONNECTED, RUNNING.model_copy(update={"state": "starting"})),
        may_save(NO_REDIS, RUNNING),
    ):
        assert not permission.allowed
        assert permission.why


def test_a_run_is_resumed_by_name_and_a_running_one_stopped_and_saved() -> None:
    resume = may_resume(NO_RUN, NONE, OLD)
    assert resume.allowed
    assert "lunar-1" in resume.why
    assert may_stop(CONNECTED, RUNNING).allowed
    assert may_save(CONNECTED, RUNNING).allowed
    assert may_start(CONNECTED).allowed, "the dialog asks what becomes of the active run"


def test_a_run_can_be_stopped_while_redis_is_down() -> None:
    assert may_stop(NO_REDIS, RUNNING).allowed


# --- closing ---


@pytest.mark.parametrize(
    ("connection", "run", "ours", "remembered", "expected"),
    [
        (CONNECTED, RUNNING, True, AtClosing.ASK, Ending(ask=True, shut_down=True)),
        (CONNECTED, RUNNING, False, AtClosing.ASK, Ending(ask=True)),
        (CONNECTED, RUNNING, True, AtClosing.STOP, Ending(stop_run=True, shut_down=True)),
        (CONNECTED, RUNNING, True, AtClosing.KEEP, Ending()),
        (NO_RUN, NONE, True, AtClosing.ASK, Ending(shut_down=True)),
        (NO_RUN, NONE, True, AtClosing.KEEP, Ending(shut_down=True)),
        (NO_RUN, NONE, False, AtClosing.STOP, Ending()),
        (CUT, RUNNING, True, AtClosing.ASK, Ending()),
    ],
)
def test_closing_asks_about_a_run_and_leaves_no_runner_of_its_own_behind(
    connection: Connection, run: RunStatus, ours: bool, remembered: AtClosing, expected: Ending
) -> None:
    assert ending(connection, run, ours, remembered) == expected


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


def test_a_run_that_reached_its_goal_is_not_resumed_into_its_end() -> None:
    resume = may_resume(NO_RUN, NONE, OLD.model_copy(update={"state": "finished", "reached": "env_steps"}))
    assert not resume.allowed
    assert "goal" in resume.why
