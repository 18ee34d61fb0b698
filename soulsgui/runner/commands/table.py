"""Every command of the control API and what carries it out."""

from soulsgui.runner.base import Handler
from soulsgui.runner.commands import checkpoint, clients, config, history, run, runs, server, service

HANDLERS: dict[str, Handler] = {
    "server.hello": server.hello,
    "server.shutdown": server.shutdown,
    "service.start": service.start,
    "service.stop": service.stop,
    "service.restart": service.restart,
    "service.local_clients": service.local_clients,
    "run.start": run.start,
    "run.resume": run.resume,
    "run.stop": run.stop,
    "run.pause": run.pause,
    "run.continue": run.go_on,
    "runs.list": runs.list_runs,
    "runs.edit": runs.edit,
    "history.query": history.query,
    "history.logs": history.logs,
    "history.events": history.events,
    "checkpoint.list": checkpoint.list_checkpoints,
    "checkpoint.save": checkpoint.save,
    "checkpoint.edit": checkpoint.edit,
    "config.get": config.get,
    "config.check": config.check,
    "config.save": config.save,
    "config.presets": config.presets,
    "clients.pause": clients.pause,
    "clients.resume": clients.resume,
    "clients.drain": clients.drain,
    "clients.stop": clients.stop,
    "clients.forget": clients.forget,
    "clients.release": clients.release,
    "clients.rejects": clients.rejects,
    "clients.log": clients.log,
    "clients.invite.create": clients.invite,
    "clients.invite.list": clients.list_invitations,
    "clients.revoke": clients.revoke,
    "clients.rename": clients.rename,
}

LONG: dict[str, str] = {
    "run.start": "starting the services",
    "run.resume": "starting the services",
    "run.stop": "saving and ending the services",
    "checkpoint.save": "saving",
    "service.restart": "restarting",
    "service.stop": "stopping",
}
"""Commands that are shown to every window as jobs, and what they do meanwhile."""
