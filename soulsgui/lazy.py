"""Names of a package that are imported when they are asked for."""

from collections.abc import Callable, Mapping
from importlib import import_module


def lazily(package: str, where: Mapping[str, str]) -> Callable[[str], object]:
    """Return the `__getattr__` of a package.

    Args:
        package: Its name.
        where: The module below `soulsgui` of each name that it offers.
    """

    def found(name: str) -> object:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"soulsgui.{where[name]}"), name)

    return found
