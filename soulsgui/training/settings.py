"""What a training node may be made from: settings, a dictionary, or a namespace."""

from types import SimpleNamespace
from typing import Any

from soulsgui.config.layers import Layer, combine, flatten
from soulsgui.config.schema import Settings

ConfigLike = Settings | dict[str, Any] | SimpleNamespace


def as_settings(config: ConfigLike) -> Settings:
    """Return checked settings; what is not named keeps its default.

    Raises:
        ConfigError: With every mistake.
    """
    if isinstance(config, Settings):
        return config
    tree = _plain(config)
    return combine([Layer("config", flatten(tree))])


def _plain(config: Any) -> Any:
    if isinstance(config, SimpleNamespace):
        return {name: _plain(value) for name, value in vars(config).items()}
    if isinstance(config, dict):
        return {name: _plain(value) for name, value in config.items()}
    return config
