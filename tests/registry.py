from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Registry:
    """What `winreg` is on Windows, as far as it is used.

    Attributes:
        keys: Values by the path of their key; a key without values, too, for it was made or is above another.
    """

    HKEY_CURRENT_USER, REG_SZ = "user", 1

    def __init__(self) -> None:
        self.keys: dict[str, dict[str, Any]] = {}

    @contextmanager
    def CreateKey(self, root: str, path: str) -> Iterator[str]:
        assert root == self.HKEY_CURRENT_USER
        names = path.split("\\")
        for depth in range(len(names)):
            self.keys.setdefault("\\".join(names[: depth + 1]), {})
        yield path

    @contextmanager
    def OpenKey(self, root: str, path: str) -> Iterator[str]:
        self._find(root, path)
        yield path

    def SetValueEx(self, key: str, name: str, _: int, kind: int, value: str) -> None:
        self.keys[key][name] = (value, kind)

    def QueryValueEx(self, key: str, name: str) -> Any:
        if name not in self.keys[key]:
            raise FileNotFoundError
        return self.keys[key][name]

    def DeleteValue(self, key: str, name: str) -> None:
        if name not in self.keys[key]:
            raise FileNotFoundError
        del self.keys[key][name]

    def QueryInfoKey(self, key: str) -> tuple[int, int, int]:
        return len(self._below(key)), len(self.keys[key]), 0

    def EnumKey(self, key: str, place: int) -> str:
        return self._below(key)[place]

    def DeleteKey(self, root: str, path: str) -> None:
        self._find(root, path)
        if self._below(path):
            raise PermissionError
        del self.keys[path]

    def _find(self, root: str, path: str) -> None:
        if root != self.HKEY_CURRENT_USER or path not in self.keys:
            raise FileNotFoundError

    def _below(self, key: str) -> list[str]:
        parents = (path.rpartition("\\") for path in self.keys)
        return [name for parent, _, name in parents if parent == key]
