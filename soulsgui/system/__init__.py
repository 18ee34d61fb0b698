"""What differs between operating systems, in one place; nothing elsewhere asks which system it runs on.

Every function that branches takes `platform` (a value of `sys.platform`), so that both branches can be tested
anywhere. Rooms: `processes` (identity, groups, signals, descendants, shares of the processor), `files`
(private, atomic), `lock` (one process at a time), `machine` (ports, disk, screen, user, somebody at it).
"""

from soulsgui.system.files import *  # noqa: F403
from soulsgui.system.lock import *  # noqa: F403
from soulsgui.system.machine import *  # noqa: F403
from soulsgui.system.processes import *  # noqa: F403
