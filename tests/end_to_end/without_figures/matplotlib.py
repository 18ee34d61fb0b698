"""Stands before the real one on the path of servers in tests: none of their runs has its figure drawn.

Loading matplotlib takes longer than most of these runs. What a server draws is seen in `test_until_done`.
"""

raise ModuleNotFoundError("no figures are drawn here", name="matplotlib")
