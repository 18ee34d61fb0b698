"""Writes a small picture of each environment that a preset trains, for the dialog that begins a run.

    .venv/bin/python packaging/write_pictures.py

Needs what those environments need to be drawn (`pip install "gymnasium[classic-control,box2d]"`) and Pillow.
"""

import sys
from pathlib import Path

import gymnasium
from PIL import Image

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from soulsgui.config.layers import preset_layer, preset_names  # noqa: E402

FOLDER = ROOT / "resources" / "environments"
SIZE_PX = (200, 134)
COLOURS = 32
STEPS = 56  # something has begun to happen by then
PARTS = {"CartPole-v1": (165, 150, 435, 330), "Pendulum-v1": (85, 140, 415, 360)}
"""Where something happens, in pixels, of those that are mostly empty around it: left, top, right, bottom."""


def main() -> None:
    """Write all of them."""
    FOLDER.mkdir(exist_ok=True)
    for env_id in sorted({str(preset_layer(name).values["env.id"]) for name in preset_names()}):
        env = gymnasium.make(env_id, render_mode="rgb_array")
        env.reset(seed=1)
        env.action_space.seed(1)
        for _ in range(STEPS):
            if any(env.step(env.action_space.sample())[2:4]):
                env.reset()
        picture = Image.fromarray(env.render()).crop(PARTS.get(env_id))
        picture.thumbnail(SIZE_PX, Image.Resampling.LANCZOS)
        path = FOLDER / f"{env_id}.png"
        picture.quantize(COLOURS).save(path, optimize=True)
        env.close()
        print(f"{path}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
