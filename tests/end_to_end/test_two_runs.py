"""One run, another one, and the first again, under clients that live through all of it."""

from pathlib import Path

from tests.end_to_end.server import UNHURRIED, RunningServer, wait_for


def test_clients_that_know_another_run_come_over_when_the_first_is_resumed(tmp_path: Path) -> None:
    server = RunningServer(tmp_path)
    try:
        small = {**UNHURRIED, "clients.local": 1, "checkpoint.every_updates": 5}
        first = server.start_run(overrides=small).name
        guest = server.spawn("client", "--name", "guest")
        wait_for(lambda: server.client_state("guest") == "online", "the guest plays")
        server.api.command("run.stop")
        server.start_run(overrides=small)
        wait_for(lambda: server.client_state("guest") == "online", "the guest plays for the second run")
        server.api.command("run.stop")
        # This one comes while there is no run.
        late = server.spawn("client", "--name", "late")
        wait_for(lambda: server.client_state("late") == "waiting", "it waits for a run")
        server.api.command("run.resume", {"run": first})
        server.wait_updates(1)
        wait_for(lambda: server.client_state("guest") == "online", "the guest plays for the first run")
        wait_for(lambda: server.client_state("late") == "online", "so does the late one")
        assert server.status().run.id == first
        assert (guest.poll(), late.poll()) == (None, None)
    finally:
        server.close()
