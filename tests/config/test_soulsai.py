"""What is taken over of configurations of SoulsAI, as its versions write them."""

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from soulsgui.config.errors import MOST_TOLD, ConfigError
from soulsgui.config.layers import combine, over_defaults
from soulsgui.config.parsing import MOST_BYTES, Layer
from soulsgui.config.schema import all_settings
from soulsgui.config.soulsai import Imported, import_file, imported

# The same training in the three forms that its keys have had.
FLAT = """
loglevel: info
redis_address: "redis"
env: LunarLander-v2
n_states: 8
n_actions: 4
lr: 0.001
gamma: 0.98
eps_max: [0.5, 0.1]
eps_min: [0.1, 0.01]
eps_steps: [500, 400]
grad_clip: 5.
q_clip: 200
buffer_size: 100_000
batch_size: 128
train_epochs: 50
update_samples: 25
fill_buffer: False
dqn_multistep: 3
layer_width: 96
network_type: "DQN"
noise: "UniformDiscreteNoise"
noise_kwargs:
  size_n: 4
checkpoint_epochs: 100
load_checkpoint: False
gdrive_sync: False
moving_average: 50
max_episodes: 200
enable_interrupt: False
step_delay: 0.02
"""

SECTIONS = """
loglevel: INFO
device: "cuda:0"
redis_address: "localhost"
env: LunarLander-v2
gamma: 0.98
use_env_kwargs: False
env_kwargs:
  use_info: True
algorithm: "DQN"
ppo:
  n_clients: 2
  actor_lr: 0.0003
dqn:
  variant: vanilla
  lr: 0.001
  eps_max: [0.5, 0.1]
  eps_min: [0.1, 0.01]
  eps_steps: [500, 400]
  eps_samples: 25
  grad_clip: 5.
  q_clip: 200
  buffer_size: 100_000
  batch_size: 128
  train_epochs: 50
  update_samples: 25
  multistep: 3
  network_type: "DQN"
  network_kwargs:
    input_dims: 8
    output_dims: 4
    layer_dims: 96
  noise: "UniformDiscreteNoise"
  noise_kwargs:
    size_n: 4
  action_masking: True
  normalize: False
  normalizer_kwargs:
  tau: 0.05
  min_samples: null
checkpoint_epochs: 100
telemetry:
  update_interval: 5
  moving_average: 50
monitoring:
  enable: True
max_episodes: -1
step_delay: 0.02
"""

KWARGS = """
loglevel: info
redis_address: localhost
local:
env:
  name: LunarLander-v2
  vectorize: False
  kwargs:
    gravity: -9.
  obs_shape: [8]
  n_actions: 4
  wrappers:
max_env_steps: 100_000
algorithm: dqn
dqn:
  batch_size: 128
  train_epochs: 50
  update_samples: 25
  fill_buffer: False
  min_samples: null
  max_model_delay: 10
  agent:
    type: DistributionalDQNAgent
    kwargs:
      lr: 0.001
      gamma: 0.98
      multistep: 3
      grad_clip: 5.
      q_clip: 200
      tau: 0.001
      device: cuda
  network:
    type: DistributionalDQN
    kwargs:
      input_dims: 8
      output_dims: 4
      layer_dims: 96
  replay_buffer:
    type: PrioritizedReplayBuffer
    kwargs:
      max_size: 100_000
      beta: 0.4
  observation_transform:
    type: Normalize
    kwargs:
      keys: [obs]
      shapes: [[8]]
  value_transform:
    type: Chain
    kwargs:
      transforms:
        - type: Mask
          kwargs: {key: __value__, mask_key: action_mask}
        - type: GreedyAction
          kwargs: {value_key: __value__, action_key: action}
  action_transform:
    type: ScheduledChoice
    kwargs:
      key: action
      scheduler:
        type: LinearScheduler
        kwargs: {start: [0.5, 0.5], end: [0.99, 0.01], steps: 20_000}
      transforms:
        - type: Identity
        - type: ReplaceWithNoise
          kwargs: {key: action, noise: {type: UniformDiscreteNoise, kwargs: {size_n: 4}}}
checkpoint: {save: False, epochs: 100, save_buffer: True, load: False, load_buffer: False, load_config: False}
telemetry:
  update_interval: 5
  moving_average: 50
  transforms:
    - type: MetricByKey
      kwargs: {key: ep_reward, name: rewards}
    - type: MetricByKey
      kwargs: {key: [info, boss_hp], name: boss_hp}
    - type: CompareValue
      kwargs: {key: ep_reward, name: wins, value: 200, op: gt}
    - type: Timer
  callbacks:
    - type: SaveBest
      kwargs: {key: rewards_av, channel: save_best}
monitoring:
  file_storage: {path: /home/somebody/saves}
  grafana: True
  prometheus: False
  wandb: {project: lander, entity: somebody}
max_episodes: -1
enable_interrupt: False
step_delay: 0.02
watchdog: {enable: True, minimum_samples: 90}
"""

PPO = """
loglevel: debug
env:
  name: LunarLander-v2
  kwargs:
max_env_steps: 200_000
gamma: 0.97
algorithm: "ppo"
ppo:
  n_clients: 3
  n_steps: 2048
  actor_net: {type: PPOActor, kwargs: {input_dims: 8, output_dims: 4, layer_dims: 48}}
  critic_net: {type: PPOCritic, kwargs: {input_dims: 8, layer_dims: 32}}
  vf_coef: 0.4
  max_grad_norm: 0.6
  clip_range: 0.1
  train_epochs: 8
  minibatch_size: 32
  actor_lr: 0.0003
  critic_lr: 0.0003
  gae_lambda: 0.95
  client_sync_timeout: 20
dqn:
  lr: 0.5
checkpoint: {save: True, epochs: 7}
"""

ALWAYS = {"env.num_envs": 1, "normalize.observations": False, "normalize.rewards": False}

OF_DQN = ALWAYS | {
    "algorithm": "dqn",
    "env.id": "LunarLander-v3",
    "network.activation": "relu",
    "network.name": "mlp",
    "network.hidden_sizes": [96, 96, 96],
    "dqn.dueling": False,
    "dqn.exploration": "epsilon",
    "dqn.gamma": 0.98,
    "dqn.learning_rate": 0.001,
    "dqn.max_grad_norm": 5.0,
    "dqn.q_clip": 200,
    "dqn.buffer_size": 100_000,
    "dqn.batch_size": 128,
    "dqn.n_step": 3,
    "dqn.replay_ratio": 256.0,  # 128 × 50 / 25
    "dqn.learning_starts": 6400,  # 128 × 50
    "checkpoint.every_updates": 5000,  # 100 × 50
    "stop.window": 50,
    "client.step_delay": 0.02,
    "logging.level": "info",
}
# Both count in steps of 25, the pieces follow each other, and nothing is random after them.
PIECES = [[0, 0.5], [12_500, 0.1], [12_501, 0.1], [22_501, 0.01], [22_502, 0.0]]
EPSILON = {"dqn.epsilon": {"schedule": "piecewise", "points": PIECES}}


def of(text: str) -> Imported:
    found = imported(text, "config.yaml")
    # Whatever is taken over is right.
    combine(over_defaults([Layer("config.yaml", found.values)]))
    return found


def dumped(**theirs: Any) -> Imported:
    return of(yaml.safe_dump(theirs))


def test_the_flat_form() -> None:
    found = of(FLAT)
    assert found.values == OF_DQN | EPSILON
    told = {"redis_address", "n_states", "n_actions", "gdrive_sync", "max_episodes"}
    assert found.left_out.keys() == told


def test_the_form_with_a_section_for_each_algorithm() -> None:
    found = of(SECTIONS)
    more = {"dqn.agent": "dqn", "learner.device": "cuda", "exporter.enabled": True}
    assert found.values == OF_DQN | EPSILON | more
    assert found.left_out == {
        "redis_address": "SoulsGUI starts a Redis of its own (or uses redis.url); invitations say where.",
        "env_kwargs": "is switched off there by use_env_kwargs.",
        "ppo": "is about another algorithm than dqn.",
        "dqn.network_kwargs.input_dims": "is read from the environment.",
        "dqn.network_kwargs.output_dims": "is read from the environment.",
        "dqn.tau": "is not used there: its DQN has two networks that learn in turns.",
        "telemetry.update_interval": "curves are drawn as they come.",
    }


def test_the_form_with_arguments_of_classes() -> None:
    found = of(KWARGS)
    assert found.values == OF_DQN | {
        "env.kwargs": {"gravity": -9.0},
        "normalize.observations": True,
        "network.hidden_sizes": [96, 96],
        "dqn.agent": "qr_dqn",
        "dqn.quantiles": 32,
        "dqn.target_tau": 0.001,
        "dqn.max_model_delay": 10,
        "dqn.replay": "prioritised",
        "dqn.priority_exponent": 0.5,
        "dqn.priority_correction": 0.4,
        # 20,000 batches, of which 50 come every 25 steps
        "dqn.epsilon": {"schedule": "linear", "from": 0.5, "to": 0.01, "over": 10_000},
        "learner.device": "cuda",
        "stop.env_steps": 100_000,
        "checkpoint.with_buffer": True,
        "client.min_steps_per_s": 1.5,
        "telemetry.metrics": {"boss_hp": "boss_hp", "wins": {"key": "return", "compare": ">", "value": 200}},
        "telemetry.wandb": "online",
        "telemetry.wandb_project": "lander",
        "exporter.enabled": True,
    }
    assert found.left_out.keys() == {
        "redis_address",
        "env.obs_shape",
        "env.n_actions",
        "dqn.network.kwargs.input_dims",
        "dqn.network.kwargs.output_dims",
        "checkpoint.save",
        "telemetry.update_interval",
        "telemetry.callbacks",
        "monitoring.file_storage",
        "monitoring.wandb.entity",
    }


def test_ppo() -> None:
    found = of(PPO)
    assert found.values == ALWAYS | {
        "algorithm": "ppo",
        "env.id": "LunarLander-v3",
        "stop.env_steps": 200_000,
        "network.activation": "tanh",
        "network.name": "mlp",
        "network.hidden_sizes": [48, 48],
        "network.value_hidden_sizes": [32, 32],
        "ppo.n_clients": 3,
        "ppo.n_steps": 2048,
        "ppo.gamma": 0.97,
        "ppo.gae_lambda": 0.95,
        "ppo.epochs": 8,
        "ppo.minibatch_size": 32,
        "ppo.learning_rate": 0.0003,
        "ppo.clip": 0.1,
        "ppo.value_coef": 0.4,
        "ppo.max_grad_norm": 0.6,
        "ppo.normalize_advantage": "none",
        "checkpoint.every_updates": 7,
        "logging.level": "debug",
    }
    assert found.left_out["dqn"] == "is about another algorithm than ppo."
    assert "ppo.critic_lr" not in found.left_out
    assert "one learning rate" in dumped(ppo={"actor_lr": 0.1, "critic_lr": 0.2}).left_out["ppo.critic_lr"]


def test_settings_stand_in_our_order_with_the_ones_they_come_from() -> None:
    taken = of(FLAT).taken
    known = list(all_settings())
    assert [one.key for one in taken] == sorted((one.key for one in taken), key=known.index)
    sources = {one.key: one.source for one in taken}
    assert sources["dqn.replay_ratio"] == "batch_size × train_epochs / update_samples"
    assert sources["env.num_envs"] == sources["algorithm"] == ""


def test_a_few_changes_alone_say_nothing_of_the_rest() -> None:
    assert dumped(dqn={"agent": {"kwargs": {"lr": 0.1}}}).values == {"dqn.learning_rate": 0.1}
    assert dumped(ppo={"lambda": 0.5}, gamma=0.9).values == {"ppo.gae_lambda": 0.5, "ppo.gamma": 0.9}
    assert dumped(env={"kwargs": {"game_speed": 2.0}}).values == {"env.kwargs": {"game_speed": 2.0}}
    found = dumped(dqn={"train_epochs": 25, "update_samples": 5, "lr": 0.1}, checkpoint={"epochs": 2})
    assert found.values == {"dqn.learning_rate": 0.1, "checkpoint.every_updates": 50}
    assert "only together with" in found.left_out["dqn.train_epochs"]
    assert (
        "needs train_epochs"
        in dumped(dqn={"lr": 0.1}, checkpoint={"epochs": 2}).left_out["checkpoint.epochs"]
    )


@pytest.mark.parametrize(
    ("env", "values"),
    [
        (
            {"name": "SoulsGymIudex-v0", "wrappers": {"IudexObservationWrapper": {"kwargs": None}}},
            {
                "env.id": "soulsgym:SoulsGymIudex-v0",
                "env.wrappers": ["soulsai.wrappers:IudexObservationWrapper"],
                "clients.local": 0,
            },
        ),
        (
            {
                "name": "ALE/Pong-v5",
                "kwargs": {"frameskip": 1},
                "wrappers": {
                    "AtariPreprocessing": {"kwargs": None},
                    "AtariExpandImage": {"kwargs": None},
                    "FrameStack": {"kwargs": {"num_stack": 4}},
                },
            },
            {
                "env.id": "ale_py:ALE/Pong-v5",
                "env.kwargs": {"frameskip": 1},
                "env.wrappers": [
                    {"AtariPreprocessing": {"grayscale_newaxis": True}},
                    {"FrameStackObservation": {"stack_size": 4}},
                ],
            },
        ),
        (
            {
                "name": "CartPole-v1",
                "vectorize": True,
                "kwargs": {"num_envs": 8, "vectorization_mode": "sync"},
            },
            {"env.id": "CartPole-v1", "env.num_envs": 8, "env.kwargs": {}},
        ),
    ],
)
def test_environments(env: dict[str, Any], values: dict[str, Any]) -> None:
    found = dumped(env=env)
    assert (found.values, found.left_out) == (values, {})


@pytest.mark.parametrize(
    ("network", "values"),
    [
        (
            {"type": "AdvantageDQN", "kwargs": {"layer_dims": 32, "nlayers": 4}},
            ("mlp", [32] * 4, True, "epsilon"),
        ),
        ({"type": "NoisyAdvantageDQN", "kwargs": {"layer_dims": 32}}, ("mlp", [32] * 3, True, "noisy")),
        ({"type": "NoisyDQN", "kwargs": {"layer_dims": 32}}, ("mlp", [32] * 2, False, "noisy")),
        ({"type": "CNNAdvantageDQN", "kwargs": {}}, ("nature_cnn", [128], True, "epsilon")),
        (
            {"type": "ImpalaDistributionalDQN", "kwargs": {"output_dims": 6, "n_quantiles": 8}},
            ("impala_resnet", [96], False, "epsilon"),
        ),
    ],
)
def test_networks(network: dict[str, Any], values: tuple[Any, ...]) -> None:
    found = dumped(dqn={"network": network}).values
    keys = "network.name", "network.hidden_sizes", "dqn.dueling", "dqn.exploration"
    assert tuple(found[key] for key in keys) == values


@pytest.mark.parametrize("network", [{"type": "Mine", "kwargs": {"layer_dims": 8}}, {"type": "DQN"}])
def test_a_network_of_ones_own_or_of_no_width_is_told(network: dict[str, Any]) -> None:
    found = dumped(dqn={"network": network})
    assert (list(found.values), list(found.left_out)) == (["dqn.exploration"], ["dqn.network"])


@pytest.mark.parametrize(
    ("env", "told"),
    [({"name": "evil:X-v1"}, "env.name"), ({"name": "X-v1", "wrappers": {"os:system": {}}}, "env")],
)
def test_a_stranger_names_no_module_to_be_imported(env: dict[str, Any], told: str) -> None:
    found = dumped(env=env, gamma=0.98)
    assert told in found.left_out
    assert not {"env.id", "env.wrappers"} & found.values.keys()


def test_exploration() -> None:
    ramp = {"type": "LinearScheduler", "kwargs": {"start": [2.0], "end": [0.1], "steps": 1000}}
    boltzmann = {"type": "ExponentialAction", "kwargs": {"scheduler": ramp}}
    rhythm = {"batch_size": 64, "train_epochs": 10, "update_samples": 40}
    found = dumped(
        dqn=rhythm | {"value_transform": boltzmann, "action_transform": {"type": "Identity"}}
    ).values
    assert found["dqn.exploration"] == "boltzmann"
    assert found["dqn.temperature"] == {"schedule": "linear", "from": 2.0, "to": 0.1, "over": 4000}
    assert found["dqn.epsilon"] == 0.0
    kinds = [{"type": "Identity"}, {"type": "ReplaceWithNoise"}]
    choice = {"type": "Choice", "kwargs": {"prob": [0.75, 0.25], "transforms": kinds}}
    assert dumped(dqn={"action_transform": choice}).values == {"dqn.epsilon": 0.25}
    # Steps of its own came later than the sections, and before them one of each update.
    pieces = {"eps_max": [0.2], "eps_min": [0.1], "eps_steps": [1000]}
    assert dumped(dqn=pieces).values["dqn.epsilon"]["points"] == [[0, 0.2], [1000, 0.1], [1001, 0.0]]


def test_of_a_schedule_only_a_number_of_steps_is_multiplied() -> None:
    told = {"start": [0.5, 0.5], "end": [1.0, 0.0], "steps": "12"}
    kwargs = {"scheduler": {"type": "LinearScheduler", "kwargs": told}}
    noise = {"type": "ScheduledChoice", "kwargs": kwargs}
    rhythm = {"batch_size": 64, "train_epochs": 10, "update_samples": 10}
    found = dumped(dqn=rhythm | {"action_transform": noise})
    assert found.left_out == {"dqn.action_transform": "should be a number."}


def test_when_learning_starts() -> None:
    rhythm = {"batch_size": 64, "train_epochs": 10, "buffer_size": 5000}
    assert dumped(dqn=rhythm).values["dqn.learning_starts"] == 640
    assert dumped(dqn=rhythm | {"min_samples": 700}).values["dqn.learning_starts"] == 700
    assert dumped(dqn=rhythm | {"min_samples": 7}).values["dqn.learning_starts"] == 64
    assert dumped(dqn=rhythm | {"fill_buffer": True}).values["dqn.learning_starts"] == 5000


@pytest.mark.parametrize(
    ("key", "dqn"),
    [
        ("dqn.agent.type", {"agent": {"type": "DistributionalR2D2Agent"}}),
        ("dqn.replay_buffer", {"replay_buffer": {"type": "TrajectoryBuffer"}}),
        ("dqn.observation_transform.type", {"observation_transform": {"type": "NormalizeImg"}}),
        ("dqn.observation_transform.type", {"observation_transform": {"type": "Chain"}}),
        ("dqn.value_transform", {"value_transform": {"type": "Magic"}}),
        ("dqn.value_transform", {"value_transform": "GreedyAction"}),
        ("dqn.action_transform", {"action_transform": {"type": "Magic"}}),
        ("dqn.action_transform", {"action_transform": {"type": "ScheduledChoice", "kwargs": {}}}),
        ("dqn.eps_max", {"eps_max": [0.1], "eps_min": [0.1, 0.1], "eps_steps": [5]}),
        ("dqn.lr", {"lr": 5}),
        ("dqn.lr", {"lr": "fast"}),
        ("dqn.lr", {"lr": float("nan")}),
        ("dqn.batch_size", {"batch_size": 0}),
        ("dqn.multistep", {"multistep": [3]}),
        ("dqn.colour", {"colour": "red"}),
    ],
)
def test_what_can_not_be_taken_over_is_told_and_the_rest_is_taken(key: str, dqn: dict[str, Any]) -> None:
    found = dumped(env="CartPole-v1", dqn=dqn)
    assert found.values == {"env.id": "CartPole-v1"}
    assert list(found.left_out) == [key]
    assert found.left_out[key].endswith(".")


def test_values_that_do_not_go_together_are_left_out() -> None:
    found = dumped(max_env_steps=500, algorithm="DQN", dqn={"min_samples": 1000})
    assert "stop.env_steps" not in found.values
    assert "stop.env_steps should be more than dqn.learning_starts" in found.left_out["max_env_steps"]
    found = dumped(algorithm="SAC", gamma=0.9)
    assert (found.values, found.left_out) == ({"dqn.gamma": 0.9}, {"algorithm": "should be dqn or ppo."})


def test_of_thousands_of_unknown_keys_a_hundred_are_told() -> None:
    found = dumped(env="CartPole-v1", **{f"k{number}": 1 for number in range(1500)})
    assert len(found.left_out_words) == MOST_TOLD + 1
    assert found.left_out_words[-1] == "… and 1,400 more."
    assert max(map(len, dumped(env="CartPole-v1", **{"k" * 9999: 1}).left_out_words)) < 300


def test_a_name_of_thousands_of_parts_is_one_of_no_setting_and_soon_told() -> None:
    begun = time.process_time()
    found = of(f"env: CartPole-v1\n? {'a.' * 50_000}a\n: {{b: 1}}\n")
    assert found.values == {"env.id": "CartPole-v1"}
    (line,) = found.left_out_words
    assert len(line) < 300
    assert time.process_time() - begun < 3.0


def test_a_name_that_is_empty_or_steers_is_nothing_else_than_one_of_no_setting() -> None:
    found = dumped(env="CartPole-v1", **{"": 5, "\x1b[31m\nppo.gamma": 1})
    assert found.values == {"env.id": "CartPole-v1"}
    assert [line.partition(": ")[0] for line in found.left_out_words] == [
        "",
        "\N{REPLACEMENT CHARACTER}[31m ppo.gamma",
    ]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no setting of SoulsAI"),
        ("seed: 5\nppo.gamma: 0.9\n", "holds no setting of SoulsAI"),
        ("algorithm: [", "not valid YAML"),
        ("- env\n", "expected settings"),
        ("env: CartPole-v1\nenv: LunarLander-v2\n", "line 2: env: is written twice"),
        (BOMB, "has more than 10,000 entries"),
        ("dqn: &loop\n  network: *loop\n", "config.yaml"),
        ("[" * 5000, "nested deeper than"),
        ("env: !!python/object/apply:os.system ['true']\n", "config.yaml"),
        ("dqn:\n  lr: " + "9" * 5000, "more than 1,000 digits"),
        ("gdrive_dir: 2024-01-01\nlr: 1", "put it in quotes"),
        ("#" * (MOST_BYTES + 1), "is 0.1 MB large"),
    ],
)
def test_a_file_that_is_none_is_refused_in_words(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        imported(text, "config.yaml")
    assert said in str(refused.value)


def test_a_file_is_read_as_config_yaml_is(tmp_path: Path) -> None:
    path = tmp_path / "config_d.yaml"
    with pytest.raises(ConfigError, match="no such file"):
        import_file(path)
    path.write_bytes(b"env: \xff")
    with pytest.raises(ConfigError, match="not UTF-8"):
        import_file(path)
    path.write_bytes(b"x" * 2**20)
    with pytest.raises(ConfigError, match="large"):
        import_file(path)
    path.write_text('{"env": "CartPole-v1"}')  # as it is saved with a run
    assert import_file(path).values == {"env.id": "CartPole-v1"}


def test_a_config_yaml_is_read_over_the_defaults_beside_it(tmp_path: Path) -> None:
    (tmp_path / "config_d.yaml").write_text(KWARGS)
    own = tmp_path / "config.yaml"
    own.write_text("algorithm: DQN\ndqn:\n  train_epochs: 5\n  agent:\n    kwargs:\n      lr: 0.01\n")
    found, defaults = import_file(own), of(KWARGS)
    changed = {key: value for key, value in found.values.items() if defaults.values[key] != value}
    assert changed == {
        "dqn.learning_rate": 0.01,
        "dqn.replay_ratio": 25.6,
        "dqn.learning_starts": 640,
        "dqn.epsilon": {"schedule": "linear", "from": 0.5, "to": 0.01, "over": 100_000},
        "checkpoint.every_updates": 500,
    }
    assert found.left_out == defaults.left_out
    own.rename(tmp_path / "mine.yaml")
    assert len(import_file(tmp_path / "mine.yaml").values) < 10
    (tmp_path / "mine.yaml").rename(own)
    (tmp_path / "config_d.yaml").write_text("env: [")
    with pytest.raises(ConfigError, match=r"config_d\.yaml, line 1"):
        import_file(own)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["DQN", "Chain"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


def places(tree: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    inner = [place for value in tree.values() if isinstance(value, dict) for place in places(value)]
    return [*((tree, key) for key in tree), *inner]


@settings(max_examples=25, deadline=None)
@given(data=st.data(), text=st.sampled_from([FLAT, SECTIONS, KWARGS, PPO]))
def test_whatever_stands_there_is_taken_over_or_told(data: st.DataObject, text: str) -> None:
    tree = yaml.safe_load(text)
    for _ in range(3):
        holder, key = data.draw(st.sampled_from(places(tree)))
        holder[key] = data.draw(ANYTHING)
    with contextlib.suppress(ConfigError):  # where nothing at all is left that can be
        of(yaml.safe_dump(tree))
