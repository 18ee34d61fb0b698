"""Pure learning in torch: `agents`, `networks`, `losses`, `gradients`, `returns`, `buffers`; no process."""
