"""The state of a server in words, for a terminal. Pure: plain data in, text out."""

import textwrap
import time
from collections.abc import Mapping, Sequence
from typing import Any

from soulsgui.errors import printable
from soulsgui.runner.services.outcome import duration_words
from soulsgui.wire.control.results import Evaluated, KeptEvaluation
from soulsgui.wire.control.states import GONE, is_paused_there
from soulsgui.wire.keys import inference_number
from soulsgui.wire.messages.node import Staleness
from soulsgui.wire.messages.server_config import algorithm_name

_CLIENT_HEADS = (
    "NAME", "STATE", "HOST", "STEPS", "EPISODES", "MEAN RETURN", "STEPS/S", "WAITS", "SEEN", "REJECTED",
    "ERROR",
)  # fmt: skip
# Columns that are left out where there is no room, what matters least first.
_SPARE_OF_SERVICES = (3, 4, 5)
_SPARE_OF_CLIENTS = (2, 4, 8, 7, 3)
_LAST_COLUMN = 24
"""Characters that the last column, which says what is wrong, has before others are left out for it."""
_LEAST_COLUMN = 8
_SMALL_BYTES = 100_000
_QUEUE_SHOWN = 10
_LARGE_BYTES = 1e9
_LARGE_RETURN = 1e9  # clients may tell any
_MINUTES_FROM_S = 99.95
_WORTH_TELLING = 0.01
_NONE_KEPT = (
    "No refused samples are kept. What came from a client that was not let in yet, or no longer "
    "(not_admitted), is only counted."
)


def run_line(run: Mapping[str, Any], width: int | None = None) -> str:
    """Return a run (`RunStatus` as plain data) in one line; return, rate and time stay in a narrow one."""
    if not run["id"]:
        return "no run yet"
    parts = [
        f"{run['state']} ({run['detail']})" if run["detail"] else str(run["state"]),
        count_words(run["env_steps"], "step"),
        count_words(run["updates"], "update"),
        count_words(run["episodes"], "episode"),
        *(returns := _return_words(run)),
        f"{run['env_steps_per_s']:,.0f} steps/s" if run["env_steps_per_s"] else "",
        duration_words(run["seconds"]),
    ]
    # What is told instead of each, what matters least first.
    shorter = [(2, ""), (3, ""), (0, str(run["state"])), (1, "")]
    if len(returns) > 1:
        shorter.insert(3, (4 if run.get("evaluation_return") is None else 5, ""))
    line = _in_line(parts)
    for place, instead in shorter:
        if width is None or len(line) <= width:
            break
        parts[place] = instead
        line = _in_line(parts)
    return line[:width]


def _in_line(parts: list[str]) -> str:
    return printable(" · ".join(part for part in parts if part))


def _return_words(run: Mapping[str, Any]) -> list[str]:
    """Return how well it does: what is judged first, with the goal."""
    goal = "" if run["goal_return"] is None else f" of {run['goal_return']:g}"
    mean = run["mean_return"]
    training = "" if mean is None else f"mean return {return_words(mean)}"
    if run.get("goal_judged_by") != "evaluation":
        return [training + goal] if training else []
    if run["reached"] == "mean_return" and mean is not None:
        return [f"evaluation {return_words(mean)}{goal}"]
    evaluation = run.get("evaluation_return")
    if evaluation is not None:
        judged = f"evaluation {return_words(evaluation)}{goal}"
    else:
        judged = f"no evaluation yet (goal {run['goal_return']:g})" if goal else ""
    return [part for part in (judged, training) if part]


def status_text(status: Mapping[str, Any], width: int | None = None) -> str:
    """Return everything (`Status` as plain data) in a few lines of at most so many characters."""
    inner = None if width is None else width - 2
    run, server = status["run"], status["server"]
    lines = []
    if run["id"]:
        place = run.get("learns_on")
        where = f"  learns on {printable(place)}" if place else ""
        lines.append(f"Run {run['id']}  {run['env_id']}  {_algorithm(run)}{where}")
    lines.append(f"  {run_line(run, inner)}")
    staleness = Staleness.model_validate(run.get("staleness") or {})
    if age := staleness.words():
        lines.append(f"  {age}")
    if run["error"]:
        lines.append(f"  {printable(run['error'])}")
    lines = wrapped(lines, width)
    if queue := status.get("queue"):
        shown = queue_rows(queue[:_QUEUE_SHOWN], inner).split("\n")
        more = [f"and {len(queue) - _QUEUE_SHOWN} more"] if len(queue) > _QUEUE_SHOWN else []
        lines += ["Queue", *(f"  {line}" for line in (*shown, *more))]
    lines.append("Services")
    services = [_service_row(service) for service in status["services"]]
    lines += [f"  {line}" for line in _table(services, (), inner, _SPARE_OF_SERVICES)]
    clients = _client_rows(status["clients"], inner)
    lines += ["Clients" if clients else "No clients", *(f"  {line}" for line in clients)]
    state = "" if server["reachable"] else "  does not answer"
    limit = server.get("memory_limit_bytes", 0)
    memory = size_words(server["memory_bytes"]) + (f" of {size_words(limit)}" if limit else "")
    lines += wrapped([f"Server {server['url']}  {server['version']}  {memory}{state}"], width)
    return "\n".join(lines)


def queue_rows(queue: Sequence[Mapping[str, Any]], width: int | None = None) -> str:
    """Return the runs that wait (`QueuedRun` as plain data) as a table."""
    rows = [
        [
            str(one["number"]),
            one["name"],
            one["env_id"],
            _algorithm(one),
            str(one["seed"]),
            one["experiment"],
            f"continues with {one['run_id']}" if one["run_id"] else "",
            one.get("config_summary", ""),
        ]
        for one in queue
    ]
    heads = ("NUMBER", "NAME", "ENVIRONMENT", "ALGORITHM", "SEED", "EXPERIMENT", "", "SETTINGS")
    return "\n".join(_table(rows, heads, width))


def wrapped(lines: Sequence[str], width: int | None) -> list[str]:
    """Return lines broken where they are longer than there is room for, what follows further in."""
    if width is None:
        return list(lines)
    return [part for line in lines for part in textwrap.wrap(line, width, subsequent_indent="    ") or [""]]


def _algorithm(run: Mapping[str, Any]) -> str:
    return algorithm_name(run["algorithm"], run.get("agent", ""))


def _service_row(service: Mapping[str, Any]) -> list[str]:
    state = str(service["state"])
    if service["state"] == "backoff":
        state = f"restarting in {service['restart_in_s'] or 0:.0f} s"
        state += f" ({service['failures']}/{service['max_failures']})"
    elif service["state"] == "failed" and service.get("restart_in_s") is not None:
        state += f", tried again in {service['restart_in_s']:.0f} s"
    return [
        service["name"],
        state,
        service["phase"],
        f"pid {service['pid']}" if service["pid"] else "",
        f"port {service['port']}" if service["port"] else "",
        f"up {duration_words(service['uptime_s'])}" if service["uptime_s"] is not None else "",
        count_words(service["restarts"], "restart") if service["restarts"] else "",
        service["detail"] if service["pid"] else service["outcome"],
    ]


def client_rows(clients: list[dict[str, Any]], width: int | None = None) -> str:
    """Return the clients (`ClientStatus` as plain data) as a table of at most so many characters a line."""
    return "\n".join(_client_rows(clients, width)) or "No clients yet."


def _client_rows(clients: Sequence[Mapping[str, Any]], width: int | None) -> list[str]:
    # An inference server plays nothing itself: it stands among the services.
    rows = [_client_row(client) for client in clients if not inference_number(client["id"])]
    return _table(rows, _CLIENT_HEADS, width, _SPARE_OF_CLIENTS)


def _client_row(client: Mapping[str, Any]) -> list[str]:
    age = client["age_s"]
    ago = "" if age is None else f"{age:.1f} s ago"
    if age is not None and age >= _MINUTES_FROM_S:
        ago = f"{' '.join(duration_words(age).split()[:2])} ago"
    mean = client["mean_return"]
    name = client["name"] if client["name"] == client["id"] else f"{client['name']} ({client['id']})"
    if client["state"] in GONE and not client["env_id"]:
        # It was gone before this run began.
        return [name, f"{client['state']} {ago}".rstrip(), client["host"], *[""] * 8]
    if client.get("invited") is not None and age is None and client["state"] == "joining":
        seen = "invited again, not yet seen" if client.get("invited_again") else "invited, never seen"
        return [name, seen, *[""] * 9]
    rejected = sum(client["rejected"].values())
    state = f"{client['state']} (stalled)" if client["stalled"] else str(client["state"])
    return [
        name,
        "paused there" if is_paused_there(client["state"], client["wish"]) else state,
        client["host"],
        f"{client['env_steps']:,}",
        f"{client['episodes']:,}",
        return_words(mean) if mean is not None else "",
        f"{client['env_steps_per_s']:,.0f}" if client["env_steps_per_s"] else "",
        f"{100 * client['waiting']:.0f} %" if client["waiting"] >= _WORTH_TELLING else "",
        ago,
        f"{rejected:,}" if rejected else "",
        client["error"],
    ]


def usage_rows(usage: dict[str, Any]) -> str:
    """Return what takes the disk, the memory and the network (`Usage` as plain data), as tables."""
    free, thrown, memory, limit = (
        size_words(usage[f"{name}_bytes"]) for name in ("disk_free", "bin", "memory", "memory_limit")
    )
    kinds = sorted({kind for run in usage["runs"] for kind in run["bytes"]})
    runs = [
        [run["id"], size_words(sum(run["bytes"].values()))]
        + [size_words(run["bytes"][kind]) if kind in run["bytes"] else "" for kind in kinds]
        for run in usage["runs"]
    ]
    clients = [
        [
            one["id"],
            size_words(one["sent_bytes"]),
            f"{one['steps_per_s']:,.0f}",
            size_words(one["stored_bytes"]),
        ]
        for one in usage["clients"]
    ]
    lines = [
        f"Disk: {free} free; runs in the bin {thrown}; the server's own state"
        f" {size_words(usage['server_bytes'])}"
    ]
    lines += _table(runs, ["RUN", "ALL", *map(str.upper, kinds)])
    lines += [f"Redis: {memory} of {limit}"]
    lines += _table(clients, ["CLIENT", "SENT", "STEPS/S", "WAITING"])
    return "\n".join(lines)


def reject_rows(rejects: list[dict[str, Any]]) -> str:
    """Return refused chunks (`wire.messages.node.Reject` as plain data) as a table."""
    rows = [
        [
            time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(one["time"])),
            one["client"],
            one["reason"],
            f"{one['segments']:,}",
            size_words(one["size"]),
            one["entry"],
            one["detail"],
            one["head"],
        ]
        for one in rejects
    ]
    heads = ("TIME", "CLIENT", "REASON", "SEGMENTS", "SIZE", "ENTRY", "WHAT WAS WRONG", "BEGINNING")
    return table(rows, heads) or _NONE_KEPT


def summary_text(summary: Mapping[str, Any]) -> str:
    """Return the result of a run, the document of `serve --until-done --json`, in a few lines."""
    reached = {
        "mean_return": "reached its goal return",
        "env_steps": "made all its steps",
        "stopped": "was stopped",
        "failed": "failed",
    }[summary["reached"]]
    lines = [
        f"Run {summary['run_id']} ({_algorithm(summary)} on {summary['env_id']}) {reached}"
        f" after {duration_words(summary['seconds'])}:",
        f"  {count_words(summary['env_steps'], 'step')}, {count_words(summary['updates'], 'update')}, "
        f"{count_words(summary['episodes'], 'episode')}",
    ]
    lines += _summed_returns(summary)
    if summary["rejected"]:
        said = ", ".join(f"{count} {reason}" for reason, count in summary["rejected"].items())
        lines.append(f"  rejected: {said}")
    lines.append(f"  everything about it is in {summary['run_dir']}")
    return "\n".join(lines)


def _summed_returns(summary: Mapping[str, Any]) -> list[str]:
    """Return how well it did at the end, what an evaluation found as such."""
    mean, best, evaluation = (summary[f"{name}_return"] for name in ("mean", "best_mean", "evaluation"))
    parts = []
    if summary["reached"] == "mean_return" and summary["goal_judged_by"] == "evaluation":
        evaluation, mean = mean, None
    if mean is not None:
        parts.append(f"mean return {return_words(mean)}")
    if best is not None:
        parts.append(f"best model {return_words(best)}")
    if evaluation is not None:
        parts.append(f"evaluation {return_words(evaluation)}")
    return [f"  {', '.join(parts)}"] if parts else []


def table(rows: list[list[str]], heads: Sequence[str], width: int | None = None) -> str:
    """Return rows as aligned columns below their headings, of at most so many characters a line.

    Columns without any text are left out.
    """
    return "\n".join(_table(rows, heads, width))


def _table(
    rows: list[list[str]], heads: Sequence[str] = (), room: int | None = None, spare: Sequence[int] = ()
) -> list[str]:
    """Return the lines of a table; where there is no `room`, `spare` columns are left out in turn."""
    rows = [[printable(cell) for cell in row] for row in rows]
    told = [place for place, cells in enumerate(zip(*rows, strict=True)) if any(cells)]
    lines = [*([heads] if heads and rows else []), *rows]
    widths = {place: max(len(line[place]) for line in lines) for place in told}
    if room is not None and widths:
        widths = _fitting(widths, room, spare)
    lines = [
        [line[at] if len(line[at]) <= width else f"{line[at][: width - 1]}…" for at, width in widths.items()]
        for line in lines
    ]
    return ["  ".join(map(str.ljust, line, widths.values())).rstrip() for line in lines]


def _fitting(widths: Mapping[int, int], room: int, spare: Sequence[int]) -> dict[int, int]:
    """Return the columns there is room for, with how wide they may be."""

    def beyond(columns: Mapping[int, int]) -> int:
        return sum(columns.values()) + 2 * (len(columns) - 1) - room

    last = max(widths)
    needed = {**widths, last: min(widths[last], _LAST_COLUMN)}
    for place in spare:
        if beyond(needed) > 0:
            needed.pop(place, None)
    kept = {place: widths[place] for place in needed}
    while (excess := beyond(kept)) > 0 and max(kept.values()) > _LEAST_COLUMN:
        widest = max(kept, key=kept.__getitem__)
        kept[widest] = max(kept[widest] - excess, _LEAST_COLUMN)
    return kept


def count_words(count: int, thing: str) -> str:
    """Return a count with its noun, such as "1 update" and "2,048 updates"."""
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def waits_words(learner: float | None, clients: float | None) -> str:
    """Return who waits for whom, such as "waits for samples 38 %"; empty while both are fast.

    It has to fit on a narrow card. Both are parts of the time, 0 to 1, None for unknown: in which the trainer
    waited for samples, and in which samples waited for the trainer.
    """
    parts = [("waits for samples", learner), ("samples wait", clients)]
    return ", ".join(
        f"{who} {100 * part:.0f} %" for who, part in parts if part is not None and part >= _WORTH_TELLING
    )


def return_words(value: float) -> str:
    """Return a return with one decimal; one that takes more room than that has, such as "1e+308", shortly."""
    return f"{value:.1f}" if abs(value) < _LARGE_RETURN else f"{value:.4g}"


def spread_words(found: Evaluated | KeptEvaluation) -> str:
    """Return the mean return of an evaluation with its standard deviation."""
    return f"{return_words(found.mean_return)} ± {return_words(found.std_return)}"


def size_words(size_bytes: int) -> str:
    """Return a size shortly, such as "31.4 KB", "2.5 MB" and "1.2 GB"."""
    if size_bytes >= _LARGE_BYTES:
        return f"{size_bytes / 1e9:.1f} GB"
    if size_bytes < _SMALL_BYTES:
        return f"{size_bytes / 1e3:.1f} KB"
    return f"{size_bytes / 1e6:.1f} MB"
