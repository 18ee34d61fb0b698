"""Settings of runs that an earlier version began, under the names they have now."""

from collections.abc import Mapping
from typing import Any


def with_new_names(tree: Mapping[str, Any]) -> dict[str, Any]:
    """Return the configuration of a run, as it was saved, in the words of this version.

    Args:
        tree: Sections with their settings below them; one that was saved by this version stays as it is.
    """
    renamed: dict[str, Any] = dict(tree)
    for name in ("ppo", "vtrace"):
        if isinstance(tree.get(name), dict):
            renamed[name] = _rate(dict(tree[name]))
    if isinstance(tree.get("ppo"), dict):
        renamed["ppo"] = _advantages(renamed["ppo"])
    if isinstance(tree.get("dqn"), dict):
        renamed["dqn"] = _window(_ramps(dict(tree["dqn"])))
    if tree.get("algorithm") in ("ppo", "vtrace") and isinstance(tree.get("evaluation", {}), dict):
        renamed["evaluation"] = _evaluation(dict(tree.get("evaluation", {})))
    return renamed


def _rate(group: dict[str, Any]) -> dict[str, Any]:
    if group.pop("learning_rate_schedule", None) == "linear":
        group["learning_rate"] = {"schedule": "linear", "from": group.get("learning_rate", 1e-3), "to": 0.0}
    return group


def _advantages(group: dict[str, Any]) -> dict[str, Any]:
    if isinstance(group.get("normalize_advantage"), bool):
        group["normalize_advantage"] = "round" if group["normalize_advantage"] else "none"
    return group


def _evaluation(group: dict[str, Any]) -> dict[str, Any]:
    # Before there was `max_steps`, evaluations had to be asked for, and training chose the best model.
    if "max_steps" not in group:
        if group.get("every_updates") is None:
            group["every_updates"] = 0
        if group.get("best_by", "auto") == "auto":
            group["best_by"] = "training"
    return group


def _window(group: dict[str, Any]) -> dict[str, Any]:
    if "n_step" in group and group["n_step"] is None:
        group["n_step"] = {"rainbow": 3, "r2d2": 5}.get(group.get("agent", "dqn"), 1)
    return group


def _ramps(group: dict[str, Any]) -> dict[str, Any]:
    for name in ("epsilon", "temperature"):
        ends = [group.pop(f"{name}_{end}", None) for end in ("start", "end", "steps")]
        if None not in ends:
            group[name] = {"schedule": "linear", "from": ends[0], "to": ends[1], "over": ends[2]}
    over, first = group.pop("priority_correction_steps", None), group.get("priority_correction")
    if over is not None and first is not None:
        group["priority_correction"] = {"schedule": "linear", "from": first, "to": 1.0, "over": over}
    return group
