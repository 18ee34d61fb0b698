"""Where what a run records goes besides its store, each sink a file and a process of its own.

A sink follows the store behind a cursor that it keeps: nothing waits for it, and whatever it was not told
because it failed, hung or was not there, it is told later.
"""
