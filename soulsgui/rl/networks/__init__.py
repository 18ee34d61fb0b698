"""Networks: `named` as the settings name them, made of `torsos`, `heads` and `mlp`; `recurrent` ones."""
