"""A report on an environment, for a person. Pure."""

from collections.abc import Mapping
from typing import Any

from soulsgui.environments.space_words import action_words, observation_words
from soulsgui.environments.spaces import SpacesSpec

_ROW = "  {:<12} {}"


def spaces_words(spaces: SpacesSpec) -> tuple[str, str]:
    """Return in words what an environment shows, and what it takes."""
    return observation_words(spaces.observation), action_words(spaces.action)


def report_lines(report: Mapping[str, Any]) -> list[str]:
    """Return the lines that tell a person what a check found.

    Args:
        report: `check.EnvironmentReport.to_json()`, perhaps with `fit.fit_report()`.
    """
    lines = [f"{report['env_id']}: {'works' if report['ok'] else 'can not be trained on'}"]
    if report["spaces"] is not None:
        shows, takes = spaces_words(SpacesSpec.from_json(report["spaces"]))
        lines += [_ROW.format("shows", shows), _ROW.format("takes", takes)]
        if report.get("image"):
            lines.append(_ROW.format("image", report["image"]))
        many = "in a vector form of its own" if report["native_vector"] else "one after the other"
        lines.append(_ROW.format("several", f"are stepped {many}"))
    if report["steps"]:
        lines.append(_ROW.format("speed", _speed_words(report["seconds_per_step"])))
        lines.append(_ROW.format("tried", f"{report['steps']} steps, {report['episodes']} episodes"))
    if report.get("misfit"):
        lines.append(_ROW.format("misfit", " ".join(report["misfit"].values())))
    lines += [_ROW.format("problem", words.replace("\n", " ")) for words in report["problems"]]
    for key, place in report.get("places", {}).items():
        lines.append(_ROW.format("set", f"{key} in {place}"))
    lines += [_ROW.format("note", words) for words in report["notes"]]
    return lines


def _speed_words(seconds_per_step: float) -> str:
    rate = f", {1 / seconds_per_step:,.0f} steps/s" if seconds_per_step > 0 else ""
    return f"{1000 * seconds_per_step:.3g} ms a step{rate}"
