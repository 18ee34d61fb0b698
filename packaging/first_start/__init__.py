"""What `bootstrap.py` does, with the standard library only.

Rooms: `main` (from command line to program), `set_up` (the order of its steps), `plan` (what is needed,
what is there, what to start: pure), `torch_build` (which build of torch), `venv` (the environment), `steps`
(running pip), `progress` (what is seen of it), `screen` (Qt's system libraries), `failure` (what went wrong).
"""
