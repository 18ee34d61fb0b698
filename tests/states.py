"""Parts of a status, for tests of whatever shows them: what a test does not name is as usual."""

from typing import Any

from soulsgui.wire.control import CheckpointInfo, ClientStatus, ServiceStatus
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.messages.metrics import CheckpointRow

RUN = "2026-11-20_10-00-00"


def service(name: str = "trainer", state: str = "running", **fields: Any) -> ServiceStatus:
    """Make the status of a service, of the kind that its name says."""
    kind = "client" if name.startswith("client") else name
    return ServiceStatus.model_validate({"name": name, "kind": kind, "state": state} | fields)


def client(name: str = "gamer-1", /, state: str = "online", **fields: Any) -> ClientStatus:
    """Make the status of a client."""
    return ClientStatus.model_validate({"id": name, "name": name, "state": state} | fields)


def invitation(**fields: Any) -> Invitation:
    """Make what gamer-01 is invited to the server atelier with."""
    usual = {"server_id": "server-1", "server_name": "atelier", "client": "gamer-01", "secret": "s" * 32}
    usual |= {"addresses": (("192.168.1.5", 6379),), "prefix": "souls:", "created": 1.0}
    usual |= {"pin": "0" * 64}
    return Invitation.model_validate(usual | fields)


def checkpoint(**fields: Any) -> CheckpointInfo:
    """Make what is known of a quicksave after 1,000 steps."""
    usual = {"id": "manual_save/1", "kind": "manual", "path": "/runs/a/manual_save/1", "model_id": 4}
    usual |= {"env_steps": 1000, "updates": 40, "created": 1.0, "size_bytes": 5, "valid": True}
    return CheckpointInfo.model_validate(usual | fields)


def checkpoint_row(
    update: int, saved: str = "current", path: str = "checkpoint", **fields: Any
) -> CheckpointRow:
    """Make the row of a checkpoint: 100 steps and 10 episodes an update, one update a second."""
    usual = {"run_id": RUN, "attempt": 1, "update": update, "env_steps": 100 * update, "saved": saved}
    usual |= {"episodes": 10 * update, "model_id": update, "time": float(update), "path": path}
    return CheckpointRow.model_validate(usual | fields)
