"""Networks by name and size, and their initial weights.

`mlp` what a client runs in numpy, `torso` from observations to features, `heads` and `q_networks` from there
to values, `noisy` and `recurrent` layers, `shapes` in figures.
"""

from soulsgui.rl.networks.mlp import ACTIVATIONS, build_mlp, draw_by_fan_in, named_layers

__all__ = ["ACTIVATIONS", "build_mlp", "draw_by_fan_in", "named_layers"]
