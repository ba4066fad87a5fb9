"""Compiled kernels that cost nothing until they are first called.

Importing numba takes a third of a second, and commands such as `plan` import every mechanism. `@kernel` therefore
keeps the plain function and compiles it at the first call; kernels may call each other.
"""

from __future__ import annotations

import functools
import hashlib
import types
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class Kernel:
    """A function that becomes a numba dispatcher (no GIL, cached on disk, no fast-math) at its first call."""

    def __init__(self, function: types.FunctionType) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self._compiled: Callable[..., Any] | None = None

    def __call__(self, *args: Any) -> Any:
        """Run the compiled function."""
        return self.compiled()(*args)

    def compiled(self) -> Callable[..., Any]:
        """The numba dispatcher, made now if need be, with the kernels it calls made first."""
        if self._compiled is None:
            from numba import njit

            scope = dict(self.function.__globals__)
            for name in self.function.__code__.co_names:
                if isinstance(scope.get(name), Kernel):
                    scope[name] = scope[name].compiled()
            code = self.function.__code__
            bound = types.FunctionType(code, scope, self.function.__name__, self.function.__defaults__)
            bound.__qualname__ = f"{self.function.__qualname__}-{self.digest()}"
            bound.__module__ = self.function.__module__
            self._compiled = njit(bound, nogil=True, cache=True, error_model="numpy")
        return self._compiled

    def digest(self) -> str:
        """Stands for what the kernel is made of, so that a cached kernel dies with the kernels it calls.

        numba notices a change of the file a kernel stands in, not of the files it takes kernels and constants from.
        """
        code = self.function.__code__
        content = hashlib.blake2s(code.co_code + repr(code.co_consts).encode(), digest_size=8)
        for name in code.co_names:
            part = self.function.__globals__.get(name)
            if isinstance(part, Kernel):
                content.update(part.digest().encode())
            elif isinstance(part, int | float):
                content.update(f"{name}={part!r}".encode())
        return content.hexdigest()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile `function` with numba at its first call."""
    return Kernel(function)  # type: ignore[return-value, arg-type]
