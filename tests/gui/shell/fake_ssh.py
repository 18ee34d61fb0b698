"""What the tests put in the place of `ssh`: it runs the command here, and meanwhile really forwards a port.

    python fake_ssh.py FOLDER [ssh's own words]

Every call is a line of FOLDER/calls.jsonl. FOLDER/fails.json says at which hosts it fails: code and words.
"""

import json
import socket
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path


def forward(spec: str) -> None:
    host, port, far_host, far_port = spec.split(":")
    with socket.create_server((host, int(port))) as listening:
        while True:
            near, _ = listening.accept()
            try:
                far = socket.create_connection((far_host, int(far_port)))
            except OSError:  # as with ssh: only this connection ends
                near.close()
                continue
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=copy, args=(source, sink), daemon=True).start()


def copy(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(2**16):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def main(folder: Path, words: list[str]) -> int:
    with (folder / "calls.jsonl").open("a") as log:
        log.write(f"{json.dumps(words)}\n")
    at = words.index("--")
    options, host, command = words[:at], words[at + 1], words[at + 2 :]
    fails = folder / "fails.json"
    if fails.exists() and host in (found := json.loads(fails.read_text())):
        code, said = found[host]
        sys.stderr.write(said)
        return int(code)
    if "-L" in options:
        way = options[options.index("-L") + 1]
        threading.Thread(target=forward, args=(way,), daemon=True).start()
    sys.stdout.write("Welcome to the lab!\n")
    sys.stdout.flush()
    # As the shell there gets it: one line.
    return subprocess.run(" ".join(command), shell=True).returncode


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
