"""What a node or a connector may be made from: settings, a dictionary, or a namespace."""

from types import SimpleNamespace
from typing import Any

from soulsgui.config.layers import combine, layer_of_tree
from soulsgui.config.load import over_defaults, preset_layer
from soulsgui.config.schema import Settings

ConfigLike = Settings | dict[str, Any] | SimpleNamespace


def as_settings(config: ConfigLike) -> Settings:
    """Return checked settings; what is not named has the value that is shipped with the algorithm and agent.

    Args:
        config: Settings; or sections with their settings below them, as maps or namespaces, where a key may
            also be dotted (`{"ppo.gamma": 0.9}`) and `preset` names what to begin from.

    Raises:
        ConfigError: With every mistake.
    """
    if isinstance(config, Settings):
        return config
    layer = layer_of_tree(_plain(config), "config")
    preset = [preset_layer(layer.preset, layer.source)] if layer.preset else []
    return combine(over_defaults([*preset, layer]))


def _plain(config: Any) -> Any:
    if isinstance(config, SimpleNamespace):
        config = vars(config)
    if isinstance(config, dict):
        return {name: _plain(value) for name, value in config.items()}
    return config
