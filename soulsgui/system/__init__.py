"""What differs between operating systems, in one place; nothing elsewhere asks which system it runs on.

Every function that branches takes `platform` (a value of `sys.platform`), so that both branches can be tested
anywhere. Rooms: `become` (going on as another program), `family` (this process and what it started), `groups`
(process groups, signals), `identity` (telling a process from all others), `files` (private, atomic), `lock`
(one process at a time), `machine` (ports, disk, screen), `presence` (somebody at it, full
screen), `share` (of the processor), `user` (who we are).
"""

from soulsgui.system.become import become
from soulsgui.system.family import descends_from, family_memory, kill_descendants, kill_tree
from soulsgui.system.files import (
    atomic_write,
    explained,
    find_dir,
    in_words,
    is_private,
    make_private,
    no_room,
    no_room_words,
    recover_dir,
    replace,
    replace_dir,
    sync_folder,
    sync_tree,
    write_private,
)
from soulsgui.system.groups import (
    kill_group,
    leads_group,
    new_session_kwargs,
    stop_signals,
    terminate_group,
)
from soulsgui.system.identity import (
    ProcessIdentity,
    boot_id,
    process_identity,
    same_boot,
    same_process,
    started_process_identity,
)
from soulsgui.system.lock import FileLock, file_lock
from soulsgui.system.machine import free_disk_bytes, free_port, has_screen, is_loopback, who_listens
from soulsgui.system.presence import CannotTell, Presence
from soulsgui.system.share import can_pin, hold_back
from soulsgui.system.user import user_name

__all__ = [
    "CannotTell",
    "FileLock",
    "Presence",
    "ProcessIdentity",
    "atomic_write",
    "become",
    "boot_id",
    "can_pin",
    "descends_from",
    "explained",
    "family_memory",
    "file_lock",
    "find_dir",
    "free_disk_bytes",
    "free_port",
    "has_screen",
    "hold_back",
    "in_words",
    "is_loopback",
    "is_private",
    "kill_descendants",
    "kill_group",
    "kill_tree",
    "leads_group",
    "make_private",
    "new_session_kwargs",
    "no_room",
    "no_room_words",
    "process_identity",
    "recover_dir",
    "replace",
    "replace_dir",
    "same_boot",
    "same_process",
    "started_process_identity",
    "stop_signals",
    "sync_folder",
    "sync_tree",
    "terminate_group",
    "user_name",
    "who_listens",
    "write_private",
]
