"""What every policy does with a description of itself that makes no sense. Pure."""

from soulsgui.errors import CheckpointError


def unreadable(error: Exception) -> CheckpointError:
    """Return what is to be raised for a description that can't be read."""
    return CheckpointError(
        f"The description of the policy can't be read: {error!r}.",
        "Client and server are of different versions: update the older one.",
    )
