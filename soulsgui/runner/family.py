"""Whether a process that speaks on the server is the one that is supervised here."""

import psutil


class Family:
    """Tells whether a pid is a service's process or a child of it: on Windows a launcher stands between."""

    def __init__(self) -> None:
        self._known: tuple[int, int] | None = None

    def includes(self, service_pid: int | None, pid: int) -> bool:
        """Return whether the process is of the family.

        Args:
            service_pid: The supervised process; None while there is none.
            pid: The process that speaks.
        """
        if service_pid is None or pid <= 0:
            return False
        if pid == service_pid or self._known == (service_pid, pid):
            return True
        try:
            related = psutil.Process(pid).ppid() == service_pid
        except psutil.Error:
            return False
        if related:
            self._known = (service_pid, pid)
        return related
