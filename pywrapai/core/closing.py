"""`with` and `async with`, for whatever has `close` and `aclose`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Self


class Closing(ABC):
    """Leaving its block closes it."""

    @abstractmethod
    def close(self) -> None:
        """Give back what is held open."""

    @abstractmethod
    async def aclose(self) -> None:
        """`close`, awaited."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()
