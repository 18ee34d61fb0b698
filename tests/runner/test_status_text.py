from typing import Any

import pytest

from soulsgui.runner.status_text import (
    client_rows,
    count_words,
    reject_rows,
    return_words,
    run_line,
    size_words,
    status_text,
    summary_text,
    table,
    waits_words,
)
from soulsgui.wire.control import ClientStatus, RunStatus, ServerStatus, Status
from soulsgui.wire.messages.node import STALENESS_BOUNDS, Staleness
from tests.states import client, service

LONG: dict[str, Any] = {"id": "r", "state": "running", "env_steps": 9_012_345, "updates": 4_400}
LONG |= {"episodes": 34_567, "mean_return": 90.12, "goal_return": 475.0, "env_steps_per_s": 12_345.0}
LONG_RUN = RunStatus(**LONG, seconds=3661.0)


def plain(status: Status) -> dict[str, object]:
    return status.model_dump(mode="json")


WAITING = {"state": "waiting", "detail": "1 of 2 clients are ready"}
SAVING = {"state": "saving", "detail": "saving and ending its services", "env_steps_per_s": 0.0}
JUDGED, EVALUATED = {"goal_judged_by": "evaluation"}, {"evaluation_return": 356.0}
LITTLE = {"env_steps": 12, "updates": 0, "episodes": 1, "seconds": 1.0, "mean_return": None}
STEPS, RATE = "9,012,345 steps", "12,345 steps/s · 1 h 1 min"
ALL = f"{STEPS} · 4,400 updates · 34,567 episodes · mean return 90.1 of 475 · {RATE}"


@pytest.mark.parametrize(
    ("width", "changes", "line"),
    [
        (80, {}, f"running · {STEPS} · mean return 90.1 of 475 · {RATE}"),
        (None, WAITING, f"waiting (1 of 2 clients are ready) · {ALL}"),
        (80, SAVING, f"saving · {STEPS} · mean return 90.1 of 475 · 1 h 1 min"),
        (80, JUDGED | EVALUATED, f"running · {STEPS} · evaluation 356.0 of 475 · {RATE}"),
        (80, JUDGED | WAITING, f"waiting · {STEPS} · mean return 90.1 · {RATE}"),
        (80, LITTLE, "running · 12 steps · 0 updates · 1 episode · 12,345 steps/s · 1 s"),
        (20, {}, "running · mean retur"),  # cut where nothing more can be left out
        (None, {"id": ""}, "no run yet"),
    ],
)
def test_in_short_lines_return_rate_time_stay(width: int | None, changes: dict[str, Any], line: str) -> None:
    assert run_line(LONG_RUN.model_copy(update=changes).model_dump(), width) == line
    assert width is None or len(line) <= width


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "no evaluation yet (goal 475) · mean return 90.1"),
        (EVALUATED, "evaluation 356.0 of 475 · mean return 90.1"),
        (EVALUATED | {"mean_return": None}, "evaluation 356.0 of 475"),
        (EVALUATED | {"goal_return": None}, "evaluation 356.0 · mean return 90.1"),
        ({"goal_return": None}, "mean return 90.1"),
        # The mean that reached the goal is that of an evaluation, maybe not of the newest.
        (EVALUATED | {"mean_return": 480.0, "reached": "mean_return"}, "evaluation 480.0 of 475"),
        (EVALUATED | {"goal_judged_by": "training"}, "mean return 90.1 of 475"),
    ],
)
def test_what_has_to_reach_the_goal_is_said_first(changes: dict[str, Any], words: str) -> None:
    run = RunStatus(
        id="r", state="running", mean_return=90.12, goal_return=475.0, goal_judged_by="evaluation"
    )
    line = run_line(run.model_copy(update=changes).model_dump())
    assert line.removeprefix("running · 0 steps · 0 updates · 0 episodes · ") == f"{words} · 0.0 s"


def test_everything_is_said_and_at_80_columns_nothing_wraps() -> None:
    running: dict[str, Any] = {"phase": "collecting", "pid": 123_456, "uptime_s": 3661.0}
    services = [
        service("redis", port=46_379, restarts=2, **running),
        service("trainer", detail=waits_words(0.38, 0.04), **running),
        service("client-1", "backoff", restart_in_s=8.0, failures=3, outcome="exit 1: " * 9),
    ]
    of_client: dict[str, Any] = {"host": "workstation-of-somebody", "stalled": True, "env_id": "E"}
    of_client |= {"env_steps": 9_012_345, "episodes": 34_567, "mean_return": -1234.5}
    of_client |= {"env_steps_per_s": 12_345.0, "waiting": 0.5, "age_s": 0.5, "rejected": {"late": 1234}}
    of_client["error"] = "The environment raised in a step: ValueError: " + "no such level " * 5
    clients = [client(name, **of_client) for name in ("client-1", "the-longest-name-that-somebody-has")]
    of_run = {"id": "2026-11-20_10-00-00_a_name_of_a_run_that_is_told_at_length", "algorithm": "dqn"}
    of_run |= {"env_id": "some_games:SomeGameOfMine-v0", "agent": "rainbow"}
    of_run |= {"learns_on": "4 GPUs (NVIDIA H200)"}
    of_run["error"] = "The trainer failed: " + "it could not be started " * 6
    run = LONG_RUN.model_copy(update=of_run)
    server = ServerStatus(
        url="rediss://127.0.0.1:46379", version="valkey 9.0.1", memory_limit_bytes=2**31, reachable=False
    )
    status = plain(Status(run=run, services=services, clients=clients, server=server))
    text = status_text(status, 80)
    assert max(map(len, text.splitlines())) <= 80, text
    short = ("told_at_length", "waits for samples", "restarting in 8 s", "exit 1: ex", "The env")
    for said in (*short, "MEAN RETURN", "ERROR", "valkey 9"):
        assert said in text, text
    assert sum("started" in line for line in text.splitlines()) > 1, "an error is told whole"
    assert "pid 123456" in status_text(status, 200)
    whole = status_text(status)
    names = (f"{run.id}  some_games:SomeGameOfMine-v0  rainbow", "workstation-of-somebody", "port 46379")
    for said in (*names, "restarting in 8 s (3/5)", "online (stalled)", "REJECTED", "does not answer"):
        assert said in whole, whole
    assert "No clients" in status_text(plain(Status()))


def test_the_age_of_samples_is_said() -> None:
    accepted = [10, 0, 0, 0, 0, 0, 1, *[0] * (len(STALENESS_BOUNDS) - 6)]
    run = RunStatus(id="r", staleness=Staleness(accepted=accepted))
    assert "  half of the samples 0 updates old, 95 % at most 12\n" in status_text(plain(Status(run=run)))
    assert "samples" not in status_text(plain(Status(run=RunStatus(id="r"))))


def test_columns_are_aligned_empty_ones_left_out_and_words_of_others_stay_in_their_cell() -> None:
    heads = ("ID", "NOTE", "STEPS")
    assert table([["a", "", "1"], ["bbb", "", "22"]], heads) == "ID   STEPS\na    1\nbbb  22"
    assert table([], heads) == ""
    assert table([["a", "bad\x1b[2J\nforged", ""]], heads) == "ID  NOTE\na   bad\ufffd[2J forged"


def test_a_client_that_was_renamed_shows_its_id_too() -> None:
    clients = [ClientStatus(id="gamer-01", name="Living room"), ClientStatus(id="b", name="b")]
    rows = client_rows([one.model_dump(mode="json") for one in clients]).splitlines()
    assert rows[0].split() == ["NAME", "STATE", "STEPS", "EPISODES"]
    assert rows[1].startswith("Living room (gamer-01)  ")
    assert rows[2].startswith("b  ")


def test_an_inference_server_stands_among_services_alone() -> None:
    served = service("inference-1", kind="inference", pid=7, detail="no sign of life for 12 s")
    text = status_text(plain(Status(services=[served], clients=[client("inference-1"), client("pc")])))
    assert "inference-1  running  pid 7  no sign of life for 12 s\nClients\n" in text
    assert text.count("inference-1") == 1
    assert "No clients" in status_text(plain(Status(clients=[client("inference-1")])))


def test_summary_is_said() -> None:
    summary: dict[str, Any] = {"run_id": "r", "run_dir": "/runs/r", "env_id": "CartPole-v1"}
    summary |= {"algorithm": "dqn", "agent": "qr_dqn", "seconds": 8.0, "reached": "mean_return"}
    summary |= {"env_steps": 30000, "episodes": 200, "updates": 15, "rejected": {"late": 4}}
    summary |= {"mean_return": 480.0, "best_mean_return": 481.0}
    summary |= {"evaluation_return": None, "goal_judged_by": "training"}
    text = summary_text(summary)
    assert text.startswith("Run r (qr_dqn on CartPole-v1)")
    for said in ("reached its goal return after 8 s", "mean return 480.0, best model 481.0\n", "4 late"):
        assert said in text
    judged = summary | {"evaluation_return": 470.0}
    assert "mean return 480.0, best model 481.0, evaluation 470.0\n" in summary_text(judged)
    # What reached the goal stands as the mean return of the run, whatever was evaluated after it.
    judged |= {"goal_judged_by": "evaluation"}
    assert "\n  best model 481.0, evaluation 480.0\n" in summary_text(judged)
    nothing = {"reached": "stopped", "mean_return": None, "best_mean_return": None, "rejected": {}}
    assert "was stopped" in summary_text(summary | nothing)


def test_waits_counts_and_sizes_are_said_in_words() -> None:
    assert waits_words(0.38, 0.0) == "waits for samples 38 %"
    assert waits_words(0.0, 0.25) == "samples wait 25 %"
    assert waits_words(0.62, 0.25) == "waits for samples 62 %, samples wait 25 %"
    assert waits_words(0.004, 0.0) == ""
    assert waits_words(None, None) == ""
    assert [count_words(n, "update") for n in (0, 1, 2048)] == ["0 updates", "1 update", "2,048 updates"]
    assert [size_words(n) for n in (31_400, 99_999, 2_500_000)] == ["31.4 KB", "100.0 KB", "2.5 MB"]


def test_a_return_takes_no_more_room_than_it_needs() -> None:
    told = {-31.25: "-31.2", 475: "475.0", -1e308: "-1e+308", 2.5e9: "2.5e+09"}
    assert {value: return_words(value) for value in told} == told


def test_one_who_is_not_there_is_said_shortly_and_where_one_was_paused() -> None:
    clients = [
        client("client-1", "left", host="pc", age_s=301.0),
        client("pc", "joining", invited=5.0),
        client("pc-2", "joining", invited=5.0, age_s=0.5, host="den"),
        client("pc-3", "joining", invited=5.0, invited_again=True),
        client("a", "paused", wish="pause", age_s=0.1),
        client("b", "paused", age_s=0.1),
        client("c", env_id="E", env_steps=1, age_s=370.0),
    ]
    heads, *rows = client_rows([one.model_dump() for one in clients]).splitlines()
    assert rows[0].split() == ["client-1", "left", "5", "min", "ago", "pc"]
    assert rows[1].split("  ")[0] == "pc"
    assert rows[1].endswith("invited, never seen")
    assert rows[2].split()[:4] == ["pc-2", "joining", "den", "0"]
    assert rows[3].endswith("invited again, not yet seen")
    assert rows[4].split()[:3] == ["a", "paused", "0"]
    assert rows[5].split()[:3] == ["b", "paused", "there"]
    assert rows[6].rstrip().endswith("6 min ago")
    assert rows[6].index(" 1 ") == heads.index("STEPS") - 1


def test_refused_chunks_are_a_line_each() -> None:
    reject: dict[str, Any] = {"client": "gamer-01", "entry": "17-3", "reason": "unreadable", "segments": 1}
    reject |= {"time": 0.0, "size": 7, "head": "67617262616765", "detail": "unreadable: no head"}
    text = reject_rows([reject, reject | {"client": "b", "segments": 3, "detail": ""}])
    heads, first, second = text.splitlines()
    assert heads.split()[:4] == ["TIME", "CLIENT", "REASON", "SEGMENTS"]
    assert "gamer-01  unreadable  1 " in first
    assert first.endswith("17-3   unreadable: no head  67617262616765")
    assert second.index(" 3 ") == heads.index("SEGMENTS") - 1
    assert "not_admitted" in reject_rows([]), "the count of those may be above zero all the same"
