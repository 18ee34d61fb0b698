"""Drawing telemetry.json and telemetry.png: `soulsgui job figure RUN_DIR [--ahead]`.

A process of its own, so that matplotlib takes memory only while it draws. It draws when its standard input
ends (see `export.Drawing`).
"""

import signal
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from soulsgui.config.paths import RunFolder
from soulsgui.system import atomic_write, stop_signals
from soulsgui.wire.messages.server_config import algorithm_name

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from soulsgui.telemetry.export import Series

    Curve = tuple[list[int], list[float]]

NO_MATPLOTLIB = 3  # exit code when matplotlib is missing; telemetry.json is written all the same
AHEAD = "--ahead"  # argument of a process that is started before it is needed

_TEXT, _MUTED, _GRID = "#1a1e26", "#535b69", "#e3e6ec"
_CURVE, _FADED, _OLD = "#1f6fe0", "#a6c5f5", "#9aa3b0"
_LOSS, _GOAL, _BEST = "#bf4d06", "#146c2e", "#b02a86"
_SIZE_INCH = (10.0, 7.5)
_DPI = 110
_CURVE_POINTS = 100
# Fixed margins: a computed layout would take as long as the drawing itself.
_MARGINS = {"left": 0.085, "right": 0.98, "top": 0.93, "bottom": 0.115, "hspace": 0.1}


def main(run_dir: Path, ahead: bool) -> int:
    """Write both files of a run when standard input ends; return the exit code."""
    for number in stop_signals():
        signal.signal(number, signal.SIG_IGN)  # they reach the whole group; our parent decides for us
    from soulsgui.telemetry.export import read_series, write_series

    run = RunFolder(run_dir)
    if ahead and _import_matplotlib():
        draw(read_series(run_dir / "none"))
    sys.stdin.buffer.read()
    series = write_series(run)
    if not _import_matplotlib():  # may take longer than there is time
        return NO_MATPLOTLIB
    atomic_write(run.figure, draw(series))
    return 0


def _import_matplotlib() -> bool:
    try:
        from matplotlib.backends import backend_agg  # noqa: F401
        from matplotlib.figure import Figure  # noqa: F401
    except ImportError:
        return False
    return True


def draw(series: "Series") -> bytes:
    """Return the figure of a run as PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    losses = [name for name in ("value_loss", "policy_loss") if name in series["updates"]["columns"]]
    heights = [3.0, 1.5, 1.5] if losses else [3.0, 1.7]
    figure = Figure(figsize=_SIZE_INCH, dpi=_DPI)
    FigureCanvasAgg(figure)
    panels: list[Axes] = list(
        figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, gridspec_kw=_MARGINS)
    )
    _draw_returns(panels[0], series)
    _draw_raw(panels[1], series["episodes"]["columns"], "length", "")
    panels[1].set_ylabel("episode length", color=_TEXT)
    panels[1].set_ylim(bottom=0)
    if losses:
        _draw_loss(panels[2], series, losses[0])
    for panel in panels:
        _dress(panel, series)
        if not series["episodes"]["total"]:
            panel.set_xticks([])
            panel.set_yticks([])
    panels[-1].set_xlabel("environment steps", color=_TEXT)
    # Below everything: inside the panel it would hide points.
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=6, frameon=False, fontsize=9)
    png = BytesIO()
    figure.savefig(png, format="png", pil_kwargs={"compress_level": 1})
    return png.getvalue()


def draw_experiments(curves: "Mapping[str, Sequence[Curve]]", title: str) -> bytes:
    """Return as PNG the interquartile mean over the runs of each experiment along the steps.

    A curve is the steps and the mean returns of one run; they are compared up to where the shortest ends.
    """
    import numpy as np
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    from soulsgui.telemetry.statistics import bootstrap_interval, interquartile_mean

    figure = Figure(figsize=(9.0, 5.0), dpi=_DPI, layout="tight")
    FigureCanvasAgg(figure)
    panel = figure.subplots()
    for name, runs in curves.items():
        steps = np.linspace(max(x[0] for x, _ in runs), min(x[-1] for x, _ in runs), _CURVE_POINTS)
        values = np.stack([np.interp(steps, x, y) for x, y in runs])
        found = [bootstrap_interval(interquartile_mean, [column], resamples=500) for column in values.T]
        (line,) = panel.plot(steps, [interquartile_mean([column]) for column in values.T], label=name)
        low, high = np.transpose(found)
        panel.fill_between(steps, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    _dress(panel, {"attempts": []})
    panel.set_xlabel("environment steps", color=_TEXT)
    panel.set_ylabel("interquartile mean of the mean return", color=_TEXT)
    panel.set_title(title, loc="left", color=_TEXT, fontsize=12, fontweight="bold")
    panel.legend(frameon=False, fontsize=9)
    png = BytesIO()
    figure.savefig(png, format="png")
    return png.getvalue()


def _draw_returns(panel: "Axes", series: "Series") -> None:
    window, goal, every = series["window"], series["goal"], series["episodes"]["every"]
    columns = series["episodes"]["columns"]
    _draw_raw(panel, columns, "return", "episodes" if every == 1 else f"every {every}th episode")
    _draw_runs(panel, columns, "mean_return", f"mean of {window} episodes" if window else "mean")
    if goal is not None:
        panel.axhline(goal, color=_GOAL, linewidth=1.2, linestyle=(0, (6, 3)), label=f"goal {goal:g}")
    _mark_best(panel, series)
    _mark_attempts_and_checkpoints(panel, series)
    panel.set_ylabel("return", color=_TEXT)
    panel.set_title(_title(series), loc="left", color=_TEXT, fontsize=12, fontweight="bold", pad=14)
    if not columns["row"]:
        inside: dict[str, Any] = {"ha": "center", "va": "center", "transform": panel.transAxes}
        panel.text(0.5, 0.5, "no finished episode yet", color=_MUTED, **inside)


def _draw_loss(panel: "Axes", series: "Series", name: str) -> None:
    columns = series["updates"]["columns"]
    for x, y, overwritten in _segments(columns, name):
        colour, style = (_OLD, ":") if overwritten else (_LOSS, "-")
        panel.plot(x, y, color=colour, linewidth=1.2, linestyle=style)
    values = [value for value in columns[name] if value is not None]
    if values and min(values) > 0 and max(values) > 50 * min(values):
        panel.set_yscale("log")
    panel.set_ylabel(name.replace("_", " "), color=_TEXT)


def _draw_raw(panel: "Axes", columns: dict[str, list[Any]], name: str, label: str) -> None:
    kept = [index for index, gone in enumerate(columns["overwritten"]) if not gone]
    gone = [index for index, gone in enumerate(columns["overwritten"]) if gone]
    size = 12.0 if len(kept) < 1000 else 5.0 if len(kept) < 5000 else 2.0
    for chosen, colour, text in ((gone, _GRID, ""), (kept, _FADED, label)):
        x = [columns["env_steps"][index] for index in chosen]
        y = [columns[name][index] for index in chosen]
        panel.scatter(x, y, s=size, color=colour, linewidths=0, label=text or None)


def _draw_runs(panel: "Axes", columns: dict[str, list[Any]], name: str, label: str) -> None:
    named = {False: label, True: "overwritten by a resume"}
    for x, y, overwritten in _segments(columns, name):
        colour, style, width = (_OLD, ":", 1.6) if overwritten else (_CURVE, "-", 2.0)
        text = named.pop(overwritten, None)
        panel.plot(x, y, label=text, color=colour, linestyle=style, linewidth=width)


def _segments(columns: dict[str, list[Any]], name: str) -> list[tuple[list[int], list[float], bool]]:
    """Return (steps, values, overwritten) of each unbroken piece; overwritten ones follow the rest."""
    pieces: dict[tuple[int, bool], tuple[list[int], list[float]]] = {}
    for attempt, overwritten, x, y in zip(
        columns["attempt"], columns["overwritten"], columns["env_steps"], columns[name], strict=True
    ):
        if y is None:
            continue
        piece = pieces.setdefault((attempt, overwritten), ([], []))
        before = pieces.get((attempt, False))
        if overwritten and not piece[0] and before:
            piece[0].append(before[0][-1])
            piece[1].append(before[1][-1])
        piece[0].append(x)
        piece[1].append(y)
    return [(x, y, overwritten) for (_, overwritten), (x, y) in pieces.items()]


def _mark_best(panel: "Axes", series: "Series") -> None:
    best = series["best_mean_return"]
    columns = series["episodes"]["columns"]
    if best is None or not columns["row"]:
        return
    # The very row may have been thinned away: the nearest one with that model stands for it.
    at = min(
        range(len(columns["row"])),
        key=lambda index: (
            columns["model_id"][index] != series["best_model_id"],
            abs(columns["mean_return"][index] - best),
        ),
    )
    marker: dict[str, Any] = {"marker": "*", "markersize": 13, "color": _BEST, "linestyle": "none"}
    label = f"best {best:.4g} (model {series['best_model_id']})"
    panel.plot(columns["env_steps"][at], best, label=label, **marker)


def _mark_attempts_and_checkpoints(panel: "Axes", series: "Series") -> None:
    """Name the attempts at the upper edge, tick the checkpoints at the lower one."""
    edge = panel.get_xaxis_transform()
    behind: dict[str, Any] = {"xytext": (3, 2), "textcoords": "offset points", "fontsize": 8}
    for start in series["attempts"]:
        if start["attempt"] > 1:
            at = start["env_steps"], 1.0
            panel.annotate(f"attempt {start['attempt']}", at, xycoords=edge, color=_MUTED, **behind)
    saved = [row["env_steps"] for row in series["checkpoints"]]
    if saved:
        tick: dict[str, Any] = {"marker": 6, "markersize": 6, "color": _OLD, "linestyle": "none"}
        on_the_edge = [0.0] * len(saved)
        panel.plot(saved, on_the_edge, transform=edge, clip_on=False, label="checkpoint", **tick)


def _dress(panel: "Axes", series: "Series") -> None:
    """Grid, frame, and lines where attempts begin."""
    from matplotlib.ticker import EngFormatter

    panel.grid(color=_GRID, linewidth=0.8)
    panel.set_axisbelow(True)
    panel.yaxis.set_label_coords(-0.062, 0.5)
    panel.tick_params(colors=_MUTED, labelsize=9)
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    for side in ("top", "right"):
        panel.spines[side].set_visible(False)
    for side in ("left", "bottom"):
        panel.spines[side].set_color(_GRID)
    for start in series["attempts"]:
        if start["attempt"] > 1:
            panel.axvline(start["env_steps"], color=_MUTED, linewidth=0.9, linestyle=(0, (2, 2)), zorder=1)
    panel.set_xlim(left=0)


def _title(series: "Series") -> str:
    algorithm = algorithm_name(series.get("algorithm", ""), series.get("agent", ""))
    parts = [part for part in (series.get("env_id"), algorithm, series.get("run_id")) if part]
    parts.append(f"{series['episodes']['total']:,} episodes")
    if len(series["attempts"]) > 1:
        parts.append(f"{len(series['attempts'])} attempts")
    return "  ·  ".join(parts)
