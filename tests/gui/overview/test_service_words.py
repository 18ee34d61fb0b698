import pytest

from soulsgui.gui.colours import Tone
from soulsgui.gui.overview.services import card_words, group_words
from soulsgui.wire.control import ServiceStatus


def service(**fields: object) -> ServiceStatus:
    given = {"name": "trainer", "kind": "trainer", "state": "running"} | fields
    return ServiceStatus.model_validate(given)


def local(name: str, state: str = "running", **fields: object) -> ServiceStatus:
    return service(name=name, kind="client", state=state, **fields)


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


def test_the_local_clients_are_told_of_as_the_one_that_needs_attention() -> None:
    clients = [
        local("client-1", cpu_percent=20.0, memory_bytes=50_000_000),
        local("client-2", "backoff", restart_in_s=8.0, failures=3, outcome="exit 1", restarts=2),
    ]
    words = group_words(clients, 3.0)
    assert words.title == "Local clients 1/2"
    assert words.state == "Restarting in 5 s (3/5)"
    assert words.sentence == "Client 2: exit 1"
    assert words.usage == "CPU 20 % · 50.0 MB · 2 restarts"
    assert words.speaker == "client-2"


@pytest.mark.parametrize(
    ("states", "state"),
    [
        (["running", "running"], "Running"),
        (["running", "starting", "starting"], "2 of 3 starting"),
        (["stopped", "running"], "1 of 2 stopped"),
    ],
)
def test_local_clients_that_differ_are_counted(states: list[str], state: str) -> None:
    clients = [local(f"client-{number}", one) for number, one in enumerate(states, 1)]
    assert group_words(clients, 0.0).state == state


def test_no_local_client_is_not_an_error() -> None:
    words = group_words([], 0.0)
    assert words.title == "Local clients 0/0"
    assert words.speaker == ""
