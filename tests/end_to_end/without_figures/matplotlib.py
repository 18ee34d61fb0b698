"""Stands before the real one on the path of servers in tests, whose runs are shorter than loading that.

What is drawn of a run is seen in `test_until_done` and `test_library`.
"""

raise ModuleNotFoundError("no figures are drawn here", name="matplotlib")
