"""Curves: `rows` to `series` are pure; `plot` draws with pyqtgraph, `host` loads it when first shown."""
