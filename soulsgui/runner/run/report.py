"""The report of a run: one HTML page with its pictures in it, which loads and runs nothing."""

import base64
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from soulsgui.config.layers import defaults_layer
from soulsgui.runner.run.record import RunRecord
from soulsgui.runner.services.outcome import duration_words
from soulsgui.runner.status_text import return_words, size_words
from soulsgui.wire.control import CheckpointInfo
from soulsgui.wire.messages.server_config import algorithm_name

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>{title}</title>
<style>
body {{ font: 15px/1.5 system-ui, sans-serif; color: #1a1e26 }}
body {{ max-width: 60rem; margin: 2rem auto; padding: 0 1rem }}
table {{ border-collapse: collapse; margin: 0.5rem 0 1.5rem }}
td, th {{ text-align: left; vertical-align: top; padding: 0.2rem 1.2rem 0.2rem 0 }}
td, th {{ border-bottom: 1px solid #e3e6ec }}
img {{ max-width: 100% }}
pre {{ white-space: pre-wrap }}
</style></head><body>
<h1>{title}</h1>
{parts}
</body></html>
"""


def report(
    record: RunRecord,
    settings: Mapping[str, Any],
    versions: Mapping[str, Any],
    checkpoints: Sequence[CheckpointInfo],
    pictures: Mapping[str, bytes],
    network: str,
) -> str:
    """Return the page; `settings` by dotted key, `pictures` PNGs by what they show."""
    best = record.best_mean_return
    facts = {
        "Environment": record.env_id,
        "Algorithm": algorithm_name(record.algorithm, record.agent),
        "Seed": record.seed,
        "State": f"{record.state} {record.error}",
        "Steps": f"{record.env_steps:,}",
        "Updates": f"{record.updates:,}",
        "Episodes": f"{record.episodes:,}",
        "Attempts": record.attempt,
        "Mean return of the best model": "" if best is None else return_words(best),
        "Started": _moment(record.created),
        "Duration": duration_words(record.seconds),
    }
    shipped = defaults_layer().values
    changed = {key: value for key, value in settings.items() if shipped.get(key) != value}
    saved = []
    for info in checkpoints:
        told = (
            info.id,
            f"{info.env_steps:,}",
            _score(info),
            _moment(info.created),
            size_words(info.size_bytes),
        )
        saved.append((*told, info.note))
    parts = [
        f"<p>{escape(record.note)}</p>" if record.note else "",
        _table((), facts.items()),
        *(
            f'<h2>{escape(name)}</h2><img alt="{escape(name)}" src="data:image/png;base64,'
            f'{base64.b64encode(data).decode()}">'
            for name, data in pictures.items()
        ),
        "<h2>Checkpoints</h2>",
        _table(("Checkpoint", "Steps", "Mean return", "Saved", "Size", "Note"), saved),
        "<h2>Settings that differ from the defaults</h2>",
        _table((), ((key, json.dumps(value)) for key, value in changed.items())),
        "<h2>Networks</h2>" * bool(network),
        f"<pre>{escape(network)}</pre>" * bool(network),
        "<h2>Versions</h2>",
        _table((), versions.items()),
    ]
    return _PAGE.format(title=escape(record.title), parts="\n".join(filter(None, parts)))


def _score(info: CheckpointInfo) -> str:
    return "" if info.score is None else f"{return_words(info.score)} ({info.scored_by})"


def _moment(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))


def _table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    titles = "".join(f"<th>{escape(title)}</th>" for title in head)
    lines = ("".join(f"<td>{escape(str(cell))}</td>" for cell in row) for row in rows)
    return f"<table><tr>{titles}</tr>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"
