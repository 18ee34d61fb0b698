"""What differs between operating systems, in one place; nothing elsewhere asks which system it runs on.

Every function that branches takes `platform` (a value of `sys.platform`), so that both branches can be tested
anywhere. Rooms: `processes` (identity, groups, signals, descendants, shares of the processor), `files`
(private, atomic), `lock` (one process at a time), `machine` (ports, disk, screen, user, somebody at it),
`autostart` (at login), `confinement` (where a process may write, and whether it may give commands).
"""

from soulsgui.system.autostart import can_start_at_login, start_at_login, starts_at_login
from soulsgui.system.confinement import confine, why_no_commands, why_not_confined
from soulsgui.system.files import (
    AtomicFile,
    atomic_write,
    explained,
    find_dir,
    in_words,
    is_private,
    make_private,
    no_room,
    no_room_words,
    others_may_write,
    read_small,
    recover_dir,
    replace,
    replace_dir,
    sync_tree,
    write_private,
)
from soulsgui.system.lock import FileLock
from soulsgui.system.machine import (
    CannotTell,
    Presence,
    free_disk_bytes,
    free_port,
    has_screen,
    is_loopback,
    kept_free_bytes,
    listens,
    name_on_task_bar,
    no_names_left,
    read_bytes,
    user_name,
    who_connects,
    who_listens,
)
from soulsgui.system.processes import (
    LAST,
    ProcessIdentity,
    SpareTime,
    become,
    boot_id,
    can_pin,
    descends_from,
    family_memory,
    hold_back,
    kill_descendants,
    kill_group,
    kill_tree,
    leads_group,
    leave_terminal,
    new_session_kwargs,
    process_identity,
    raise_open_files,
    same_boot,
    same_process,
    started_process_identity,
    starting_deaf,
    stop_signals,
    terminate_group,
    usable_cores,
)
