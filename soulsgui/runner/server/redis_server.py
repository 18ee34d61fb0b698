"""The Redis server of a runner: its password, port, configuration and command line."""

import errno
import hashlib
import json
import logging
import os
import re
import secrets
import socket
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from soulsgui.config.paths import Folders
from soulsgui.config.sections.server import RedisSettings
from soulsgui.errors import ServiceError, UsageError
from soulsgui.process import own_command
from soulsgui.runner.access.certificate import ensure_certificate
from soulsgui.runner.server.addresses import private_addresses
from soulsgui.runner.server.binary import ServerBinary, cut_off_damage, find_binary
from soulsgui.runner.server.external import ExternalServer
from soulsgui.runner.services.processes import Identities
from soulsgui.system import free_port, is_loopback, is_private, make_private, who_listens, write_private
from soulsgui.wire.connection import Address
from soulsgui.wire.keys import GATEWAY

logger = logging.getLogger(__name__)

REDIS = "redis"  # name of the server among the supervised services

_HEAD = "# Written by SoulsGUI; changes are lost."
_PASSWORD_LINE = re.compile(r"""requirepass[ \t]+([^\s"'\\]+)[ \t]*""")
_PORT_TRIES = 5
_LARGEST_AOF = 16 * 2**20  # bytes, while less than half of it is still wanted
_LONGEST_SOCKET_PATH = 103  # bytes: 104 with the zero at its end on macOS, 108 on Linux
_PROBE_S = 5.0
_NEVER = 2**31 - 1  # bytes: more than an argument may have


@dataclass(frozen=True)
class RedisServer:
    """A server that is ready to be started."""

    argv: tuple[str, ...]  # Its command line, without any secret
    address: Address  # Where it will answer
    config_path: Path  # Its configuration, written anew before every start
    binary: ServerBinary | None  # None for one that somebody else runs
    data_dir: Path
    settings: tuple[str, ...] = ()  # The lines of its configuration, but for those that let users in
    lan: bool = False  # Whether its gateway listens on this machine's private addresses
    public: bool = False  # Whether that also listens on those that are not private

    def listens_on(self) -> tuple[str, ...]:
        """Return the network addresses of this machine that its gateway listens on now, beside loopback."""
        return private_addresses(public=self.public) if self.lan else ()

    def configure(self, users: Sequence[str]) -> None:
        """Write its configuration anew, with the lines that let users in; every start reads it."""
        if self.binary is None:
            return
        write_private(self.config_path, os.fsencode("\n".join([_HEAD, *self.settings, *users]) + "\n"))

    def at_port(self, server_dir: Path, port: int) -> "RedisServer":
        """Return it with its gateway at another port, which is remembered; one that is taken is an error."""
        hosts = (self.address.host, *self.listens_on())
        if not all(_is_free(host, port) for host in hosts):
            taken = who_listens(port) or "another program"
            raise ServiceError(f"Port {port} is taken by {taken}.", "Choose another one.")
        write_private(server_dir / "port.json", json.dumps({"port": port}).encode())
        return replace(self, address=replace(self.address, port=port))

    def repair(self, lines: Sequence[str]) -> str:
        """Repair the data if the log says that it prevented the start; return what was done."""
        return "" if self.binary is None else cut_off_damage(self.binary, self.data_dir, lines)


def ensure_server(folders: Folders, settings: RedisSettings, users: Sequence[str] = ()) -> RedisServer:
    """Prepare everything a server needs: program, password, socket, configuration, the children's address.

    It listens on a Unix socket alone; the port is that of its gateway: the user's choice, or else the one of
    last time, which moves when it is taken and nobody was told of it. A gateway that a crashed runner left
    keeps its port, so that it can be adopted. `users` are the lines that let the invited in.
    """
    _check_where_it_listens(settings)
    host = "127.0.0.1" if settings.host == "localhost" else settings.host
    external = ExternalServer.parse(settings.url) if settings.url else None
    binary = None if external is not None else find_binary(settings.binary)
    if external is not None:
        external.check(settings)
    _ensure_private(folders.server)
    certificate = ensure_certificate(folders.server)
    password = external.password if external is not None else read_or_make_password(folders.redis_secret)
    hosts = (host, *(private_addresses(public=settings.public) if settings.lan else ()))
    port = _choose_port(folders.server, hosts, settings.port, told=bool(users))
    path = unix_socket(folders.server)
    address = Address(host, port, password, settings.prefix, pin=certificate.pin, socket=path)
    address.write(folders.server_address)
    if binary is None:
        url_file = folders.server / "redis.url"
        write_private(url_file, settings.url.encode())
        argv = (*own_command("relay"), str(url_file), path)
        return RedisServer(argv, address, url_file, None, folders.server, (), settings.lan, settings.public)
    # The two products can't read each other's files.
    data_dir = _ensure_private(folders.server / f"{binary.product}-data")
    config_path = folders.server / "redis.conf"
    # The socket stands here too, so that a server on another is not adopted.
    where = ("--port", "0", "--unixsocket", path, "--unixsocketperm", "700")
    argv = (str(binary.path), _without_wildcards(config_path), *where)
    lines = _configuration(data_dir, folders.redis_secret, settings.max_memory, binary)
    server = RedisServer(
        argv, address, config_path, binary, data_dir, lines, settings.lan, public=settings.public
    )
    server.configure(users)
    return server


def refuse_a_second(folders: Folders) -> None:
    """Make sure that the server of a data folder is not there already, as one whose parent was killed is."""
    # Another would take another port, where those who play don't find it, and the same files.
    try:
        address = Address.read(folders.server_address)
    except UsageError:
        return
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_PROBE_S)
        found = probe.connect_ex(address.socket)
    # One that is busy, crowded or stopped does not answer, and is there all the same.
    if found in (0, errno.EAGAIN):
        raise ServiceError(
            f"The server of this data folder is there already, at {address.socket}.",
            "Use that one, or stop it before you start another.",
        )


def unix_socket(server_dir: Path, longest: int = _LONGEST_SOCKET_PATH) -> str:
    """Return the path of the server's socket: in its folder, or in a short one of this user alone."""
    path = server_dir.resolve() / "redis.sock"
    if len(os.fsencode(path)) <= longest:
        return str(path)
    told = hashlib.sha256(os.fsencode(path)).hexdigest()[:16]
    folder = Path(tempfile.gettempdir(), f"soulsgui-{told}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or not is_private(folder):
        raise ServiceError(f"The folder {folder}, for the server's socket, is not private.", "Remove it.")
    return str(folder / "redis.sock")


def _check_where_it_listens(settings: RedisSettings) -> None:
    if not is_loopback(settings.host):
        raise ServiceError(
            f"The server may not listen on {settings.host}.",
            "Set redis.host to 127.0.0.1, and redis.lan to true for other computers on private networks.",
        )


def _ensure_private(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    make_private(folder)
    return folder


def read_or_make_password(path: Path) -> str:
    """Return the server's password, made up at the first start; its configuration includes the file."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        password = secrets.token_urlsafe(32)
        write_private(path, f"requirepass {password}\n".encode())
        return password
    if not is_private(path):
        raise ServiceError(f"The server's password file {path} can be read by others.", f"chmod 600 '{path}'")
    lines = [line for line in path.read_text(errors="replace").splitlines() if line.strip()]
    match = _PASSWORD_LINE.fullmatch(lines[0]) if len(lines) == 1 else None
    if match is None:
        raise ServiceError(
            f"The server's password file {path} should hold the one line `requirepass <password>`, where the "
            "password has no spaces, quotes or backslashes.",
            "Fix it, or remove it to get a new password.",
        )
    return match[1]


def _choose_port(server_dir: Path, hosts: Sequence[str], chosen: int, told: bool) -> int:
    remembered = _remembered_port(server_dir)
    record = Identities(server_dir).read(GATEWAY)
    ours = remembered if record is not None and record.lives() else None
    port = chosen or remembered
    if port is None or (port != ours and not all(_is_free(host, port) for host in hosts)):
        if chosen or (told and port is not None):
            raise _port_is_taken(port or chosen, _free_everywhere(hosts), bool(chosen), told)
        port = _free_everywhere(hosts)
        if remembered is not None:
            logger.info(
                "port %d is taken by %s; the server moves to %d", remembered, who_listens(remembered), port
            )
    if port != remembered:
        write_private(server_dir / "port.json", json.dumps({"port": port}).encode())
    return port


def _port_is_taken(port: int, free: int, chosen: bool, told: bool) -> ServiceError:
    where = "redis.port" if chosen else "which invitations name"
    again = "; invitations must be issued again then" if told else " (0 takes any)"
    return ServiceError(
        f"Port {port} ({where}) is taken by {who_listens(port) or 'another program'}.",
        f"End that program, or set redis.port to {free}, which is free{again}.",
    )


def _remembered_port(server_dir: Path) -> int | None:
    try:
        port = json.loads((server_dir / "port.json").read_bytes())["port"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # true is an int as well
    return port if type(port) is int and 0 < port < 65_536 else None


def _free_everywhere(hosts: Sequence[str]) -> int:
    """Return a port that is free on every address, as far as a few tries find one."""
    ports = [free_port(hosts[0]) for _ in range(_PORT_TRIES)]
    return next((port for port in ports if all(_is_free(host, port) for host in hosts)), ports[0])


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        # As the gateway does it: a connection that lingers from the last time is no hindrance.
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        # An address this machine has just lost is left out by the gateway as well.
        return error.errno == errno.EADDRNOTAVAIL
    return True


def _configuration(data_dir: Path, secret: Path, max_memory: int, binary: ServerBinary) -> tuple[str, ...]:
    # A reply that Valkey does not copy is counted as nobody's, however much it keeps from being freed.
    copies = binary.product == "valkey" and int(binary.version.split(".")[0]) >= 9
    return (
        "port 0",
        f"include {_quoted(_without_wildcards(secret))}",
        "daemonize no",
        # A changed title would hide the process from the runner after a crash.
        "set-proc-title no",
        'logfile ""',
        f"dir {_quoted(str(data_dir))}",
        "appendonly yes",
        "appendfsync everysec",
        "aof-load-truncated yes",
        # Weights are written again and again: on a small disk the file would fill it before it is rewritten.
        f"auto-aof-rewrite-min-size {_LARGEST_AOF}",
        'save ""',
        f"maxmemory {max_memory}",
        "maxmemory-policy noeviction",
        # Of one argument, such as weights, and of a connection that sends it with the grants of many clients.
        f"proto-max-bulk-len {max_memory // 4}",
        f"client-query-buffer-limit {max_memory // 4 + max_memory // 16}",
        # Of replies not read yet: one to the trainer may be all that is stored, and weights take a while to a
        # client far away. What one client may leave unread, `connection_guard` sees to.
        f"client-output-buffer-limit normal {max_memory} {max_memory // 4} 10",
        *([f"min-string-size-avoid-copy-reply {_NEVER}"] if copies else []),
        # Both keep what clients say, and count it as nobody's.
        "acllog-max-len 0",
        "slowlog-max-len 0",
        "tcp-keepalive 30",
        "databases 1",
    )


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _without_wildcards(path: Path) -> str:
    # The server takes the names of its files as patterns: in a folder named "[x]" it would not find them, and
    # start without configuration or password.
    text = str(path)
    return re.sub(r"([*?\[\]\\])", r"\\\1", text) if re.search(r"[*?\[]", text) else text
