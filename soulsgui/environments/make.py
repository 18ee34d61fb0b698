"""Environments by name: Gymnasium ids or `module:Env-v0`, with wrappers by name or import path."""

import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from soulsgui.config.errors import nearest
from soulsgui.environments.imports import import_named
from soulsgui.errors import (
    EnvironmentCheckError,
    EnvironmentMissingError,
    NotAgreedError,
    error_words,
)

Env = gymnasium.Env[Any, Any]
Vector = VectorEnv[Any, Any, Any]
_UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument '(\w+)'")
_VERSION = re.compile(r"-v\d+$")
_NEAR = 0.75  # how alike two names must be, 0 to 1, that one can have been meant by the other
_SPELLING = "Check the spelling, or write module:Name."

BROKEN = (Exception, SystemExit)  # what a broken environment may raise: games like to end the whole program

WrapperEntry = str | Mapping[str, Mapping[str, Any] | None]


def make_env(env_id: str, kwargs: Mapping[str, Any], wrappers: Sequence[WrapperEntry]) -> Env:
    """Make one environment.

    Args:
        env_id: A registered Gymnasium id, or `module:Env-v0`, where importing the module registers the id.
        kwargs: Of the environment's constructor (and of `gymnasium.make`).
        wrappers: From the inside out: `Name` out of `gymnasium.wrappers`, `module:Class`, or `{either:
            {kwargs}}`.

    Raises:
        EnvironmentCheckError: Unknown id or wrapper, missing package, or a constructor that fails.
    """
    layers = [_wrapper(entry) for entry in wrappers]
    spec = find_spec(env_id)
    try:
        env: Env = gymnasium.make(spec, disable_env_checker=True, **kwargs)
    except BROKEN as error:
        raise _constructor_failed(spec, env_id, kwargs, error) from error
    for name, wrap in layers:
        try:
            env = wrap(env)
        except BROKEN as error:
            env.close()
            raise EnvironmentCheckError(
                f"The wrapper {name} can't wrap {env_id}: {_words(error)}.",
                _unknown_argument(wrap.func, error, "env.wrappers")
                or "Check its arguments and its place in the list under env.wrappers.",
            ) from error
    return env


def wrapper_faults(wrappers: Sequence[WrapperEntry]) -> list[str]:
    """Return what is wrong with single entries of `env.wrappers`, in sentences; nothing when all are well."""
    found = []
    for number, entry in enumerate(wrappers, 1):
        try:
            _wrapper(entry)
        except EnvironmentCheckError as error:
            found.append(f"env.wrappers, entry {number}: {error}")
    return found


def make_vector(
    env_id: str, kwargs: Mapping[str, Any], wrappers: Sequence[WrapperEntry], num_envs: int
) -> Vector:
    """Make environments that step together, at least one; all else is as in `make_env`.

    An environment's own vector form is used where there is one, no wrapper stands in its way and it takes the
    arguments; else the environments step one after the other. Autoreset differs: see `step.EnvStepper`.
    """
    spec = find_spec(env_id)
    if not wrappers and has_native_vector(spec, kwargs):
        try:
            return gymnasium.make_vec(spec, num_envs, vectorization_mode="vector_entry_point", **kwargs)
        except BROKEN as error:
            raise _constructor_failed(spec, env_id, kwargs, error) from error
    make = partial(make_env, env_id, kwargs, wrappers)
    return SyncVectorEnv([make] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)


def find_spec(env_id: str) -> EnvSpec:
    """Look an id up in Gymnasium's registry, importing the module in front of a colon.

    Raises:
        EnvironmentMissingError: The module can't be imported.
        EnvironmentCheckError: The id is not registered; names the nearest one.
    """
    module, colon, name = env_id.rpartition(":")
    if colon:
        _import(env_id, f"the environment {env_id}", EnvironmentMissingError)
    try:
        return gymnasium.spec(name)
    except gymnasium.error.NamespaceNotFound as error:
        raise EnvironmentCheckError(
            f"There is no environment “{env_id}”: nothing registered the namespace “{name.split('/')[0]}”.",
            f"Install the package that brings it, and put the module in front: module:{name}",
        ) from error
    except gymnasium.error.Error as error:
        # What Gymnasium says of an unknown name is nothing but its own guess at the nearest one.
        unknown = isinstance(error, gymnasium.error.NameNotFound)
        why = "" if unknown else f": {_words(error)}"
        hint = _nearest(name, gymnasium.registry)
        if colon and hasattr(sys.modules.get(module), name):
            why = f": {module} has a {name}, but registers no environment of that name"
            hint = f"{module} should call gymnasium.register(id='{name}-v0', entry_point='{module}:{name}')."
        raise EnvironmentCheckError(f"There is no environment “{env_id}”{why}.", hint) from error


def longest_episode(
    env_id: str, kwargs: Mapping[str, Any], wrappers: Sequence[WrapperEntry], otherwise: int
) -> int:
    """Return after how many steps an episode is over, `otherwise` without a limit; raises as `find_spec`."""
    limits = [kwargs.get("max_episode_steps") or find_spec(env_id).max_episode_steps]  # -1 takes it away
    entries = [entry for entry in wrappers if not isinstance(entry, str)]
    limits += [
        (arguments or {}).get("max_episode_steps")
        for entry in entries
        for name, arguments in entry.items()
        if name.rpartition(":")[2] == "TimeLimit"
    ]
    return max((limit for limit in limits if limit is not None and limit > 0), default=otherwise)


def named(path: str, wanted_for: str) -> Callable[..., Any]:
    """Return what `module:Name` in `wanted_for` names.

    Raises:
        EnvironmentCheckError: There is no such module, or nothing of that name in it.
    """
    _, _, name = path.rpartition(":")
    owner = _import(path, wanted_for)
    return _member(owner, name, f"There is no “{name}” in {owner.__name__}, which {wanted_for} names.")


def _member(owner: Any, name: str, missing: str) -> Callable[..., Any]:
    """Return a function or class of a module, or say that it is missing, and which one is the nearest."""
    found = getattr(owner, name, None)
    if not callable(found):
        known = [item for item in dir(owner) if not item.startswith("_") and callable(getattr(owner, item))]
        raise EnvironmentCheckError(missing, _nearest(name, known))
    function: Callable[..., Any] = found
    return function


def has_native_vector(spec: EnvSpec, kwargs: Mapping[str, Any]) -> bool:
    """Say whether an environment has a vector form of its own that takes these arguments."""
    if spec.vector_entry_point is None or spec.additional_wrappers:
        return False
    entry = spec.vector_entry_point
    creator: Callable[..., Any] = load_env_creator(entry) if isinstance(entry, str) else entry
    try:
        inspect.signature(creator).bind(num_envs=1, **{**spec.kwargs, **kwargs})
    except TypeError:
        return False
    return True


def _wrapper(entry: WrapperEntry) -> tuple[str, "partial[Env]"]:
    """Read one entry of `env.wrappers`: its name and a function that puts it around an environment."""
    if not isinstance(entry, str) and len(entry) != 1:
        raise EnvironmentCheckError(
            f"A wrapper is a name or {{name: {{arguments}}}}, not {dict(entry)!r}.",
            "Give each wrapper an entry of its own under env.wrappers.",
        )
    name, kwargs = (entry, None) if isinstance(entry, str) else next(iter(entry.items()))
    _, colon, class_name = name.rpartition(":")
    owner = _import(name, f"the wrapper {name}") if colon else gymnasium.wrappers
    wrapper = _member(owner, class_name, f"There is no wrapper “{class_name}” in {owner.__name__}.")
    if not (isinstance(wrapper, type) and issubclass(wrapper, gymnasium.Wrapper)):
        # Settings come from other computers, too: with any callable they would reach a shell.
        raise EnvironmentCheckError(
            f"{name} is not a wrapper: it is not a subclass of gymnasium.Wrapper.",
            "Name one of gymnasium.wrappers, or module:Class of your own.",
        )
    make: Callable[..., Env] = wrapper
    return name, partial(make, **(kwargs or {}))


def _import(name: str, wanted_for: str, missing: type[EnvironmentCheckError] = EnvironmentCheckError) -> Any:
    """Import the module of `module:Name`."""
    module, _, _ = name.rpartition(":")
    if not all(part.isidentifier() for part in module.split(".")):
        raise EnvironmentCheckError(
            f"“{module}” of {wanted_for} is not a module name.",
            "Write it as Python imports it, without a path and without .py: package.module:Name",
        )
    try:
        return import_named(name)
    except NotAgreedError:
        raise
    except SystemExit as error:
        raise EnvironmentCheckError(
            f"The module “{module}” of {wanted_for} ends the program when it is imported: {_words(error)}.",
            "Fix the module: what is imported must not end Python.",
        ) from error
    except Exception as error:
        remedy = "Fix the module: it was found, and it fails when it is imported."
        if isinstance(error, ModuleNotFoundError):
            package = (error.name or module).split(".")[0]
            remedy = (
                "Check the spelling. A module of your own must be found by Python (PYTHONPATH); a package "
                f"is installed first (often `pip install {package}`)."
            )
        raise missing(
            f"The module “{module}” of {wanted_for} can't be imported: {_words(error)}.", remedy
        ) from error


def _constructor_failed(
    spec: EnvSpec, env_id: str, kwargs: Mapping[str, Any], error: BaseException
) -> EnvironmentCheckError:
    install = re.search(r"pip install [^`]*", error_words(error))
    if install:
        remedy = f"Install what is missing: {install.group().strip()}"
    elif isinstance(error, ModuleNotFoundError) and error.name:
        remedy = f"Install the package that holds it (often `pip install {error.name.split('.')[0]}`)."
    elif kwargs:
        entry = spec.entry_point
        creator = load_env_creator(entry) if isinstance(entry, str) else entry
        remedy = _unknown_argument(creator, error, "env.kwargs") or f"Check env.kwargs: {dict(kwargs)!r}."
    else:
        remedy = "Create it with gymnasium.make in Python to see why."
    return EnvironmentCheckError(f"The environment {env_id} can't be made: {_words(error)}.", remedy)


def _unknown_argument(taker: Callable[..., Any] | None, error: BaseException, where: str) -> str:
    """Return which arguments there are when an error complains of an unknown one; empty otherwise."""
    unknown = _UNKNOWN_ARGUMENT.search(error_words(error)) if isinstance(error, TypeError) else None
    if unknown is None or taker is None:
        return ""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    known = [name for name, one in inspect.signature(taker).parameters.items() if one.kind in kinds]
    known = [name for name in known if name not in ("self", "env")]
    near = nearest(unknown.group(1), known)
    hint = f"The nearest known argument is {near}. " if near else ""
    return f"{hint}Under {where} it takes: {', '.join(known) or 'nothing'}."


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return what to do about an unknown name: take the one that was probably meant, if there is one.

    Versions are left out of the comparison: two short names would be alike by `-v5` alone.
    """
    newest = {_VERSION.sub("", one).casefold(): one for one in sorted(known)}
    word = _VERSION.sub("", name).casefold()
    near = get_close_matches(word, newest, 1, _NEAR)
    return f"The nearest known name is {newest[near[0]]}." if near else _SPELLING


def _words(error: BaseException) -> str:
    """Return an error in words; of the end of the program, which may say nothing, also its place."""
    place = place_of(error) if isinstance(error, SystemExit) else ""
    return error_words(error).rstrip(". ") + place


def place_of(error: BaseException) -> str:
    """Return where an error was raised: ` (game.py, line 12, in step)`."""
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno}, in {frames[-1].name})"
