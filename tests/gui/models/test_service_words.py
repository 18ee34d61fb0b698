import pytest

from soulsgui.gui.colours import Tone
from soulsgui.gui.models.service_words import card_words
from soulsgui.wire.control import ServiceStatus


def service(**fields: object) -> ServiceStatus:
    given = {"name": "trainer", "kind": "trainer", "state": "running"} | fields
    return ServiceStatus.model_validate(given)


def test_a_running_service_tells_its_numbers() -> None:
    words = card_words(
        service(pid=4130, port=6379, uptime_s=2467.0, cpu_percent=98.2, memory_bytes=412_000_000, restarts=2),
        0,
    )
    assert words.title == "Trainer"
    assert words.state == "Running"
    assert words.facts == "pid 4130 · port 6379 · 00:41:07"
    assert words.usage == "CPU 98 % · 412 MB · 2 restarts"


def test_uptime_goes_on_between_two_messages() -> None:
    assert card_words(service(uptime_s=59.0), 2.4).facts == "00:01:01"


@pytest.mark.parametrize(
    ("phase", "detail", "state", "icon"),
    [
        ("updating", "62 updates/s", "Updating: 62 updates/s", "state-good"),
        ("waiting", "1 of 2 clients", "Waiting: 1 of 2 clients", "state-waiting"),
        ("paused", "", "Paused", "state-paused"),
        ("frozen", "loss is NaN", "Frozen: loss is NaN", "state-frozen"),
    ],
)
def test_a_node_tells_what_it_does(phase: str, detail: str, state: str, icon: str) -> None:
    words = card_words(service(phase=phase, detail=detail), 0)
    assert words.state == state
    assert words.look.icon == icon


@pytest.mark.parametrize(
    ("passed", "state"),
    [(0.0, "Restarting in 8 s (3/5)"), (2.6, "Restarting in 6 s (3/5)"), (99.0, "Restarting in 0 s (3/5)")],
)
def test_a_restart_counts_down(passed: float, state: str) -> None:
    outcome = "exit code 1: port 8080 is taken"
    status = service(state="backoff", restart_in_s=8.2, failures=3, outcome=outcome)
    words = card_words(status, passed)
    assert words.state == state
    assert words.sentence == outcome
    assert words.tone is Tone.WARNING


def test_a_failed_service_says_why_in_red() -> None:
    words = card_words(service(state="failed", outcome="killed by signal 9"), 0)
    assert (words.state, words.sentence, words.tone) == ("Failed", "killed by signal 9", Tone.BAD)
    assert card_words(service(state="failed"), 0).sentence == "It could not be started."


def test_a_service_that_never_ran_shows_nothing_instead_of_zeros() -> None:
    words = card_words(service(state="stopped"), 5)
    assert words.facts == ""
    assert words.usage == ""
    assert words.sentence == ""
