"""Networks: `named` as the settings name them, of `torsos` and `mlp`; `q_networks`; `recurrent` ones."""
