"""Another computer is invited, joins with its file, plays, is sent away; also over a cable that is pulled."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
import redis

import soulsgui as soulsgui_package
from soulsgui.runner.server.gateway import packed
from soulsgui.wire.access import Address, user_of
from soulsgui.wire.connection import connect
from soulsgui.wire.control import Status
from soulsgui.wire.invitation import Invitation
from soulsgui.wire.keys import Keys
from soulsgui.wire.messages.heartbeat import Heartbeat
from tests.end_to_end.server import (
    UNHURRIED,
    RunningServer,
    command_line,
    last_json,
    soulsgui,
    soulsgui_here,
    wait_for,
)  # fmt: skip
from tests.faults.report import Report
from tests.faults.waiting import LIMIT_S
from tests.gateways import knock

KEYS = Keys()
PACKAGE = str(Path(soulsgui_package.__file__).parents[1])
BACK_WITHIN_S = 5.0
RUN = {**UNHURRIED, "clients.local": 0, "checkpoint.every_updates": 50}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with closing(RunningServer(tmp_path_factory.mktemp("server"))) as running:
        running.begin("run.start", overrides=RUN)
        yield running


class Pc:
    """Another computer: its own folders, and a SoulsGUI process whose command line begins with `before`."""

    def __init__(self, folder: Path, *words: str, before: tuple[str, ...] = ()) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = folder
        self.log = folder / f"{words[0]}.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*before, *command_line(*words, folder=folder)], stdout=log, stderr=subprocess.STDOUT
            )

    def close(self) -> None:
        """End it as its owner would, and make sure that nothing is left."""
        below = []
        with suppress(psutil.NoSuchProcess):
            below = psutil.Process(self.process.pid).children(recursive=True)
        self.process.terminate()
        try:
            self.process.wait(LIMIT_S)
        finally:
            self.process.kill()
            self.process.wait()
            _, left = psutil.wait_procs(below, timeout=LIMIT_S)
            for process in left:
                process.kill()


@pytest.fixture
def pcs() -> Iterator[list[Pc]]:
    switched_on: list[Pc] = []
    yield switched_on
    for pc in switched_on:
        pc.close()


def invite(server: RunningServer, name: str, *words: str) -> Invitation:
    """Invite a client on the command line; its file lies beside the server's folders."""
    file = server.folder / f"{name}.soulsgui"
    done = soulsgui_here("invite", name, "--json", "--file", str(file), *words, folder=server.folder)
    assert done.returncode == 0, done.stderr
    assert "Only this computer can use it" in done.stderr
    told = last_json(done.stdout)
    invitation = Invitation.load(file)
    expected = {"name": name, "host": "127.0.0.1", "port": invitation.addresses[0][1], "file": str(file)}
    secret = {"username": user_of(name), "secret": invitation.secret, "link": invitation.link}
    assert told == expected | secret
    return invitation


def connections_of(server: RunningServer, name: str) -> int:
    with closing(server.redis()) as admin:
        return sum(one["user"] == user_of(name) for one in admin.client_list())


def session_of(server: RunningServer, name: str) -> str:
    with closing(server.redis()) as admin:
        beat = Heartbeat.read(admin.get(KEYS.beat(name)))
    return beat.session if beat is not None else ""


def test_an_invited_computer_plays_until_it_is_revoked_or_invited_anew(
    server: RunningServer, pcs: list[Pc], tmp_path: Path, report: Report
) -> None:
    invitation = invite(server, "gamer")
    assert server.client_state("gamer") == "joining"
    file = str(server.folder / "gamer.soulsgui")
    pcs.append(Pc(tmp_path / "pc", "join", file))

    def asked(word: str, typed: str = "") -> str:
        return soulsgui_here("join", word, folder=tmp_path / "pc", typed=typed).stdout

    def is_asked_for() -> bool:
        said = asked("status")
        return "waiting for you: the server wants to run" in said and "environment: CartPole-v1 × " in said

    wait_for(lambda: server.client_state("gamer") == "waiting", "nothing is made")
    wait_for(is_asked_for, "its owner is asked")
    for no in ("", "n\n"):
        assert asked("agree", no).endswith("Run it here? [y/N]\n")
    assert asked("agree", "y\n").endswith("agreed\n")
    wait_for(lambda: server.client_state("gamer") == "online", "it plays")
    server.wait_updates(3)
    assert server.status().run.rejected == {}
    server.kill("gateway")
    report.injected("the gateway killed while a client plays")
    before = time.monotonic()
    server.wait_updates(2)
    report.recovered(time.monotonic() - before)
    assert server.status().run.rejected == {}
    kept = tmp_path / "pc" / "config" / "servers" / f"{invitation.server_id}.soulsgui"
    assert Invitation.load(kept) == invitation

    # A second computer with the same file stops before it writes anything.
    session = session_of(server, "gamer")
    report.injected("a second computer with the file of one that plays")
    done = soulsgui("client", file, folder=tmp_path / "two")
    assert done.returncode == 1
    assert "The name gamer is in use" in done.stderr
    server.wait_updates(2)
    assert session_of(server, "gamer") == session != ""

    done = soulsgui_here("revoke", "gamer", folder=server.folder)
    assert (done.returncode, done.stdout) == (0, "gamer is revoked and cut off.\n")
    revoked = time.monotonic()
    wait_for(lambda: connections_of(server, "gamer") == 0, "its connections are closed")
    report.injected("a client that plays is revoked: how long its connections lasted after that")
    report.recovered(time.monotonic() - revoked)
    wait_for(lambda: server.client_state("gamer") == "revoked", "it is told")
    wait_for(lambda: server.status().run.state == "waiting", "the run waits for others")
    with pytest.raises(redis.AuthenticationError):
        _push(invitation)
    wait_for(lambda: "no longer accepts this invitation" in pcs[0].log.read_text(), "it says why")
    assert "gamer  revoked" in soulsgui_here("clients", "list", folder=server.folder).stdout

    # The same computer with a new invitation, this time as a link.
    pcs.pop().close()
    again = invite(server, "gamer")
    assert again.server_id == invitation.server_id
    pcs.append(Pc(tmp_path / "pc", "join", again.link))
    wait_for(lambda: server.client_state("gamer") == "online", "it plays again")
    assert Invitation.load(kept) == again
    pcs.pop().close()
    wait_for(lambda: server.client_state("gamer") == "left", "it said goodbye")
    pcs.append(Pc(tmp_path / "pc", "join"))
    wait_for(lambda: server.client_state("gamer") == "online", "it plays for the server of last time")

    # The invitation is replaced while it is in use.
    done = soulsgui_here("invite", "gamer", "--file", str(tmp_path / "x"), folder=server.folder)
    assert done.returncode == 1
    assert "already invited" in done.stderr
    assert not (tmp_path / "x").exists()
    invite(server, "gamer", "--reissue")
    wait_for(lambda: connections_of(server, "gamer") == 0, "it is cut off")
    with pytest.raises(redis.AuthenticationError):
        _push(again)
    pcs.pop().close()
    pcs += [Pc(tmp_path / "other", "client", file, "--trust"), Pc(tmp_path / "pc", "join", "--here")]
    wait_for(lambda: server.client_state("gamer") == "online", "another one plays with the new one")
    wait_for(lambda: "helps this computer's server" in pcs[1].log.read_text(), "its owner has the choice")
    server.wait_updates(2)


def test_who_takes_too_much_is_cut_off_and_named_where_its_owner_looks_and_can_be_released(
    server: RunningServer, report: Report
) -> None:
    """Whoever it is says nothing else: it stands on no list but that of the invited."""
    own = _address(invite(server, "taker"))

    def comes_in() -> bool:
        with suppress(redis.RedisError), closing(connect(own)) as connection:
            return bool(connection.ping())
        return False

    wait_for(comes_in, "it comes in")
    wait_for(lambda: server.status().run.state == "waiting", "the trainer is there")
    with ExitStack() as opened:
        for _ in range(2):
            taking = opened.enter_context(knock(own))
            key, size = KEYS.beat("taker").encode(), 50_000_000
            taking.sendall(packed(b"AUTH", own.user.encode(), own.password.encode()))
            taking.sendall(packed(b"SET", key, bytes(size))[: -size // 10])
        report.injected("commands half sent to a whole server")
        began = time.monotonic()
        wait_for(lambda: server.client_state("taker") == "quarantined", "it is cut off")
        report.recovered(time.monotonic() - began)
    assert not comes_in()
    (taker,) = (one for one in server.status().clients if one.id == "taker")
    assert re.fullmatch(r"it held 1\d\d\.\d MB of replies .* or of unfinished commands", taker.error)

    def told() -> list[dict[str, Any]]:
        events = server.api.command("history.events")["events"]
        return [one for one in events if one["what"].startswith("taker was cut off")]

    (cut_off,) = wait_for(told, "it is told")
    assert cut_off["what"] == f"taker was cut off: {taker.error}."
    assert "clients release taker" in cut_off["remedy"]
    server.api.command("clients.release", {"client": "taker"})
    released = server.api.command("history.audit")["entries"][-1]
    assert (released["command"], released["params"]) == ("clients.release", 'client="taker"')
    assert released["outcome"] == "done"
    wait_for(comes_in, "it comes in again")
    wait_for(lambda: server.client_state("taker") == "joining", "it may play")


def _address(invitation: Invitation) -> Address:
    return invitation.address(*invitation.addresses[0])


def _push(invitation: Invitation) -> None:
    with closing(connect(_address(invitation))) as own:
        own.xadd(KEYS.chunks(invitation.client), {"c": b"x"})


_TELLS_STATUS = """
import json, sys
from pathlib import Path
from soulsgui.errors import SoulsGuiError
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.control import ControlFile
for line in sys.stdin:
    try:
        told = ApiClient(ControlFile.load(Path(line.strip()) / "data" / "server" / CONTROL_FILE)).status()
    except (SoulsGuiError, OSError):
        told = {}
    print(json.dumps(told), flush=True)
"""
"""Answers each folder of a server with its status: a command for each look would keep a core busy."""


_LISTENS_IN = """
import socket, sys
heard = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.ntohs(3))
heard.bind((sys.argv[1], 0))
print("listens", flush=True)
with open(sys.argv[2], "ab", 0) as file:
    while True:
        file.write(heard.recv(2**18))
"""

_ASKS_RUNNER = """
import json, sys
from pathlib import Path
from soulsgui.wire.api_client import CONTROL_FILE, ApiClient
from soulsgui.wire.control import ControlFile
runner = ApiClient(ControlFile.load(Path(sys.argv[1]) / "data" / "client" / CONTROL_FILE))
print(json.dumps(runner.command(sys.argv[2], json.loads(sys.argv[3]))))
"""


@dataclass
class Cable:
    """Two network namespaces with a cable between them: the server's machine, and a game PC."""

    server: str
    pc: str
    host: str = "10.77.0.1"
    public: str = "11.77.0.1"
    _looking: "subprocess.Popen[str] | None" = None
    _listening: "subprocess.Popen[str] | None" = None

    def lay(self) -> None:
        ip("netns", "add", self.pc)
        ip("link", "add", f"{self.server}v", "type", "veth", "peer", "name", f"{self.pc}v")
        for number, name in enumerate((self.server, self.pc), start=1):
            ip("link", "set", f"{name}v", "netns", name)
            for network in ("10.77.0", "11.77.0"):
                ip("-n", name, "addr", "add", f"{network}.{number}/24", "dev", f"{name}v")
            ip("-n", name, "link", "set", f"{name}v", "up")
            ip("-n", name, "link", "set", "lo", "up")

    def plug(self, state: str) -> None:
        """Pull the cable out of the game PC (`down`), or put it back (`up`)."""
        ip("-n", self.pc, "link", "set", f"{self.pc}v", state)

    def on(self, machine: str) -> tuple[str, ...]:
        """What a command line begins with that is to run on one of them."""
        return ("ip", "netns", "exec", machine)

    def status(self, folder: Path) -> Status:
        """Return the status of a server on its machine; an empty one while it doesn't answer."""
        if self._looking is None:
            words = [*self.on(self.server), sys.executable, "-c", _TELLS_STATUS]
            env = os.environ | {"PYTHONPATH": PACKAGE}
            self._looking = subprocess.Popen(
                words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=env
            )
        stdin, stdout = self._looking.stdin, self._looking.stdout
        assert stdin is not None
        assert stdout is not None
        print(folder, file=stdin, flush=True)
        return Status.model_validate(json.loads(stdout.readline()))

    def client_state(self, folder: Path) -> str:
        """Return what the server says of the game PC; empty while it says nothing."""
        return next((one.state for one in self.status(folder).clients), "")

    def listen_in(self, file: Path) -> None:
        """Write into a file everything that goes over the cable from now on."""
        words = [*self.on(self.pc), sys.executable, "-c", _LISTENS_IN, f"{self.pc}v", str(file)]
        self._listening = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert self._listening.stdout is not None
        assert self._listening.stdout.readline() == "listens\n"

    def ask_join(self, folder: Path, command: str, **params: Any) -> dict[str, Any]:
        """Have the runner of client mode on the game PC do something."""
        words = [*self.on(self.pc), sys.executable, "-c", _ASKS_RUNNER, str(folder), command]
        env = os.environ | {"PYTHONPATH": PACKAGE}
        done = subprocess.run(
            [*words, json.dumps(params)], capture_output=True, text=True, check=True, env=env
        )
        return last_json(done.stdout)

    def move_server(self, old: str, new: str) -> None:
        """Give the server's machine another address."""
        ip("-n", self.server, "addr", "del", f"{old}/24", "dev", f"{self.server}v")
        ip("-n", self.server, "addr", "add", f"{new}/24", "dev", f"{self.server}v")

    def close(self) -> None:
        """Take it away."""
        for process in (self._looking, self._listening):
            if process is not None:
                process.kill()
                process.communicate()
        for name in (self.server, self.pc):  # the cable goes with them
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def serve(self, folder: Path, pcs: list[Pc], **wanted: Any) -> dict[str, Any]:
        """Start a server with the run on its machine, and invite the game PC; return what was told of it."""
        settings = (f"{key.replace('__', '.')}={value}" for key, value in (RUN | wanted).items())
        words = [word for setting in settings for word in ("--set", setting)]
        pcs.append(Pc(folder, "serve", *words, before=self.on(self.server)))
        wait_for(lambda: self.status(folder).run.state == "waiting", "the run waits for clients")
        invite_words = ("invite", "gamer", "--json", "--file", str(folder / "g.soulsgui"))
        words = [*self.on(self.server), *command_line(*invite_words, folder=folder)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
        return last_json(done.stdout)

    def reaches(self, host: str, port: int) -> bool:
        text = f"import socket; socket.create_connection(({host!r}, {port}), 5)"
        words = [*self.on(self.pc), sys.executable, "-c", text]
        return subprocess.run(words, capture_output=True, check=False).returncode == 0


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], capture_output=True, check=True)


@pytest.fixture
def cable() -> Iterator[Cable]:
    laid = Cable(f"sg{os.getpid()}s", f"sg{os.getpid()}p")
    try:
        ip("netns", "add", laid.server)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces can't be made here: {error}")
    try:
        laid.lay()
        yield laid
    finally:
        laid.close()


@pytest.mark.parametrize("cut_s", [0, pytest.param(60, marks=[pytest.mark.slow, pytest.mark.timeout(400)])])
def test_a_computer_without_torch_across_the_network_is_back_after_the_cable_was_pulled(
    cable: Cable, pcs: list[Pc], tmp_path: Path, cut_s: int, report: Report
) -> None:
    folder = tmp_path / "server"
    told = cable.serve(folder, pcs, redis__lan="true")
    assert told["host"] == cable.host
    # On an address that is not private nobody listens.
    assert cable.reaches(cable.host, told["port"])
    assert not cable.reaches(cable.public, told["port"])

    def updates() -> int:
        return cable.status(folder).run.updates

    torch = tmp_path / "no_torch" / "torch.py"
    torch.parent.mkdir()
    torch.write_text("raise ModuleNotFoundError('no torch on this computer')\n")
    no_torch = (*cable.on(cable.pc), "env", f"PYTHONPATH={os.pathsep.join([str(torch.parent), PACKAGE])}")
    looked = subprocess.run(
        [*no_torch, sys.executable, "-c", "import torch"], capture_output=True, check=False
    )
    assert b"no torch on this computer" in looked.stderr
    cable.listen_in(tmp_path / "heard")
    pc = Pc(tmp_path / "pc", "join", told["link"], "--trust", before=no_torch)
    pcs.insert(0, pc)
    wait_for(lambda: updates() >= 2, "its samples are trained on")
    chunk = wait_for(lambda: _newest_chunk(folder), "a chunk on the server")

    cable.plug("down")
    report.injected(f"the cable of the only game PC pulled for {cut_s} s after it was missed")
    wait_for(lambda: cable.client_state(folder) in ("late", "lost"), "it is missed")
    time.sleep(cut_s)
    wait_for(lambda: f"No answer from {cable.host}" in pc.log.read_text(), "it says what it tried")
    before = updates()
    cable.plug("up")
    plugged = time.monotonic()
    wait_for(lambda: cable.client_state(folder) == "online", "it is back")
    back_s = time.monotonic() - plugged
    report.recovered(back_s)
    assert not cut_s or back_s <= BACK_WITHIN_S  # beside other tests the clock says nothing
    wait_for(lambda: updates() >= before + 2, "it plays on")
    run = cable.status(folder).run
    report.lost(run.lost_chunks, "chunks by their numbers")
    report.lost(sum(run.rejected.values()), "segments that came too late")
    # A round that nobody could fill is over after `ppo.round_timeout`: what was made for it comes too late.
    assert set(run.rejected) <= ({"late"} if cut_s else set())
    assert run.lost_chunks == 0
    _check_heard(tmp_path / "heard", told, chunk)


@pytest.mark.slow
def test_a_server_that_moves_is_found_and_a_foreign_one_in_its_place_hears_nothing(
    cable: Cable, pcs: list[Pc], tmp_path: Path, report: Report
) -> None:
    folder, moved = tmp_path / "server", "10.77.0.9"
    told = cable.serve(folder, pcs, redis__lan="true")
    cable.listen_in(tmp_path / "heard")
    pc = Pc(tmp_path / "pc", "join", told["link"], "--trust", before=cable.on(cable.pc))
    pcs.insert(0, pc)
    wait_for(lambda: cable.status(folder).run.updates >= 2, "its samples are trained on")
    chunk = wait_for(lambda: _newest_chunk(folder), "a chunk on the server")

    cable.move_server(cable.host, moved)
    report.injected("the server's machine has another address")
    wait_for(lambda: f"No answer from {cable.host}" in pc.log.read_text(), "it is missed")
    wait_for(lambda: cable.reaches(moved, told["port"]), "the gateway follows")
    server_id = Invitation.parse(told["link"]).server_id
    place = f"{moved}:{told['port']}"
    changed = time.monotonic()
    assert cable.ask_join(tmp_path / "pc", "servers.change_address", server_id=server_id, place=place)[
        "taken"
    ]
    wait_for(lambda: cable.client_state(folder) == "online", "it is back")
    report.recovered(time.monotonic() - changed)

    pcs.pop().close()
    foreign = tmp_path / "foreign"
    cable.serve(foreign, pcs, redis__lan="true", redis__port=told["port"])
    report.injected("a foreign server in the place of one that is gone")
    wait_for(lambda: "another server answers" in pc.log.read_text(), "it says that this is another one")
    assert cable.client_state(foreign) in ("", "joining")
    report.lost(0, "words of a client that a foreign server could read")
    _check_heard(tmp_path / "heard", told, chunk)


def _newest_chunk(folder: Path) -> bytes:
    """Return the newest chunk of the game PC that is on the server; empty while there is none."""
    with closing(connect(Address.read(folder / "data" / "server" / "redis.json"))) as admin:
        found = admin.xrevrange(KEYS.chunks("gamer"), count=1)
    return max(found[0][1].values(), key=len) if found else b""


def _check_heard(file: Path, told: dict[str, Any], chunk: bytes) -> None:
    """See that who listened in heard TLS 1.3 alone: no secret, no name, no command and no observation."""
    heard = file.read_bytes()
    assert heard.count(b"\x17\x03\x03") > 20
    assert len(chunk) > 500
    pieces = [chunk[place : place + 24] for place in range(100, len(chunk) - 24, 100)]
    secrets = [told["secret"].encode(), told["username"].encode(), b"XADD", b"AUTH", KEYS.weights.encode()]
    assert [piece for piece in (*secrets, b"CartPole", *pieces) if piece in heard] == []


def test_a_computer_plays_from_beyond_private_networks(cable: Cable, pcs: list[Pc], tmp_path: Path) -> None:
    folder = tmp_path / "server"
    cable.serve(folder, pcs, redis__lan="true", redis__public="true")
    invitation = Invitation.load(folder / "g.soulsgui")
    public = tuple(place for place in invitation.addresses if place[0] == cable.public)
    assert len(public) == 1
    invitation.model_copy(update={"addresses": public}).save(folder / "g.soulsgui")
    words = "join", str(folder / "g.soulsgui"), "--trust"
    pcs.insert(0, Pc(tmp_path / "pc", *words, before=cable.on(cable.pc)))
    wait_for(lambda: cable.status(folder).run.updates >= 2, "its samples are trained on")
    assert cable.status(folder).run.rejected == {}
