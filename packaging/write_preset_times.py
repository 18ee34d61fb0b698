"""Writes how long presets take into configs/preset_times.json, for the dialog that begins a run.

    .venv/bin/python packaging/write_preset_times.py "2 cores" cartpole_ppo lunarlander_ppo …

First what the machine is called, then the presets. Trains each once, with seed 1, from the command until
everything is saved and ended. Those that are not named keep their times: name all for another machine.
"""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "configs" / "preset_times.json"


def took_s(preset: str, folder: Path) -> int | None:
    """Train a preset and return how long that took; None where it was ended before its goal."""
    words = ["serve", "--preset", preset, "--until-done", "--json", "--set", "seed=1"]
    places = ["--data-dir", str(folder / "data"), "--config-dir", str(folder / "config")]
    command = [sys.executable, "-m", "soulsgui", *words, *places]
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True)
    reached = json.loads(done.stdout)["reached"]
    return round(time.monotonic() - began) if reached in ("mean_return", "env_steps") else None


def main() -> None:
    """Measure one after another."""
    machine, *presets = sys.argv[1:]
    for preset in presets:
        with tempfile.TemporaryDirectory() as folder:
            seconds = took_s(preset, Path(folder))
        print(f"{preset}: {seconds} s")
        table = json.loads(TABLE.read_text(encoding="utf-8"))
        kept = table["seconds"] | {preset: seconds}
        known = {name: kept[name] for name in sorted(kept) if kept[name] is not None}
        told = {"machine": machine, "seconds": known}
        TABLE.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
