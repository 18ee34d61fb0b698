"""The control API: what the window, the command line and scripts say to a runner.

HTTP and WebSocket on loopback with a bearer token:

- `GET /v1/status` answers `Status`.
- `POST /v1/commands/GROUP.COMMAND` takes the command's parameters as a JSON object and answers
  `{"ok": true, "result": ...}` or `{"ok": false, "error": {code, message, remedy}}`.
- `GET /v1/jobs/ID` answers `Job`.
- `GET /v1/files/ID` sends a file that a job made; `POST /v1/files` takes one for a command and answers
  `StoredFile`.
- `WS /v1/feed?cursor=N` sends `FeedMessage`s: what came after cursor N where it is still held, else
  a snapshot first. What a window sends there is a `Watch`: it is then sent pictures of those jobs.

What is declared in `commands`, `results` and `states` is offered here.
"""

from soulsgui.wire.control.commands import *  # noqa: F403
from soulsgui.wire.control.results import *  # noqa: F403
from soulsgui.wire.control.states import *  # noqa: F403
