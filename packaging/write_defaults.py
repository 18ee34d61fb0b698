"""Writes configs/config_d.yaml from the schema: every setting with its comment and its default.

python packaging/write_defaults.py
"""

import io
import sys
import textwrap
from pathlib import Path

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from soulsgui.config.schema import (  # noqa: E402
    SettingInfo,
    Settings,
    all_settings,
)

_WIDTH = 106
_SIGNS = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
_HEAD = """\
# Every setting of SoulsGUI with its default: CartPole with PPO, tuned.
# Don't edit this file: put your own values into config.yaml in your configuration folder
# (`soulsgui config set KEY=VALUE` does that and prints its path), for instance:
#
#   env:
#     id: LunarLander-v3
#
# [new run | new run or resume | restart of the runner] says when a changed value takes effect. A run that is
# resumed keeps the values it started with, except for those given by: soulsgui run resume RUN --set KEY=VALUE
"""


def main() -> None:
    """Write the file."""
    told = all_settings()
    parts = [_HEAD]
    for name, field in Settings.model_fields.items():
        value = getattr(Settings(), name)
        if isinstance(value, BaseModel):
            parts.append(f"\n{_comment(field.description or '', '')}{name}:\n")
            inner = type(value).model_fields
            parts += [_entry(told[f"{name}.{key}"], inner[key], key, "  ") for key in inner]
        else:
            parts.append("\n" + _entry(told[name], field, name, ""))
    (ROOT / "configs" / "config_d.yaml").write_text("".join(parts), encoding="utf-8")


def _entry(info: SettingInfo, field: FieldInfo, key: str, indent: str) -> str:
    limits = "; ".join(part for part in (info.unit, _range(field)) if part)
    others = ", ".join(f"{_plain(value)} with {choice}" for choice, value in info.shipped_with.items())
    words = (
        info.description
        + (f" ({limits})" if limits else "")
        + (f" Other defaults: {others}." if others else "")
    )
    words += f" [{info.effect.value}]"
    return _comment(words, indent) + f"{indent}{key}: {_plain(info.default)}\n"


def _range(field: FieldInfo) -> str:
    bounds = [(sign, getattr(part, name, None)) for part in field.metadata for name, sign in _SIGNS.items()]
    return ", ".join(f"{sign} {_number(bound)}" for sign, bound in bounds if bound is not None)


def _number(bound: float) -> str:
    return f"{bound:g}" if isinstance(bound, float) else str(bound)


def _comment(words: str, indent: str) -> str:
    lines = textwrap.wrap(words, _WIDTH - len(indent) - 2, break_long_words=False, break_on_hyphens=False)
    return "".join(f"{indent}# {line}\n" for line in lines)


def _plain(value: object) -> str:
    if value is None:
        return "null"
    yaml, text = YAML(), io.StringIO()
    yaml.default_flow_style = True
    yaml.width = 10_000
    yaml.dump(list(value) if isinstance(value, tuple) else value, text)
    return text.getvalue().removesuffix("...\n").strip()


if __name__ == "__main__":
    main()
