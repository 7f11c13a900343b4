"""`PrefixTree`: builds candidates, which share their common beginnings."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from apass.concurrency.single_flight import SingleFlight

__all__ = ["PrefixStatistics", "PrefixTree"]

MOST_SEEN: Final = 65_536
"""Beginnings that are remembered, so that the memory stays flat."""

Elements = tuple[str, ...]
"""The texts of consecutive passes."""


@dataclass(frozen=True, slots=True)
class PrefixStatistics:
    """How many runs of passes the tree has saved."""

    passes: int
    """The passes of all candidates that were built."""
    runs: int
    """The passes that ran for them."""

    @property
    def saved(self) -> float:
        """The share of passes that did not run."""
        return 1 - self.runs / self.passes if self.passes else 0.0


class PrefixTree:
    """Builds modules by sequences of passes that share common beginnings.

    The result of a sequence is kept, so that a longer one continues from it. If a sequence begins like an earlier one,
    the passes up to the point where they part run first, and their result is kept as well.

    Parameters:
        run: called as `run(mod, elements)`; runs the passes on a module.
        kept: the number of modules that are kept, those that were used last.
        shortest: how long a common beginning must be to run it apart. Running it apart costs a call.

    """

    def __init__(self, run: Callable[[Any, Elements], Awaitable[Any]], *, kept: int = 64, shortest: int = 2) -> None:
        self._run = run
        self._most = kept
        self._shortest = shortest
        self._kept: OrderedDict[tuple[str, Elements], Any] = OrderedDict()
        """The modules by the start and the passes."""
        self._seen: OrderedDict[int, None] = OrderedDict()
        """Hashes of the beginnings of earlier sequences, of which the oldest are forgotten."""
        self._flights: SingleFlight[tuple[str, Elements], Any] = SingleFlight()
        self._passes = self._runs = 0

    @property
    def statistics(self) -> PrefixStatistics:
        """How many runs of passes were saved so far."""
        return PrefixStatistics(self._passes, self._runs)

    async def build(self, start: str, mod: Any, elements: Elements) -> Any:
        """Return the module after the passes.

        Parameters:
            start: the fingerprint of the module.
            mod: the module.
            elements: the texts of the passes.

        Raises:
            Exception: any error of a pass.

        """
        self._passes += len(elements)
        shared = self._shared(start, elements)
        if shared:
            # Concurrent candidates with the same beginning wait for one run of it.
            key = start, elements[:shared]
            mod = await self._flights.get(key, lambda: self._extend(start, mod, key[1]))
        return await self._extend(start, mod, elements, after=shared)

    def _shared(self, start: str, elements: Elements) -> int:
        """Return how many passes to run apart, because earlier sequences have them."""
        longest = 0
        for length in range(1, len(elements) + 1):
            beginning = hash((start, elements[:length]))
            if beginning in self._seen:
                self._seen.move_to_end(beginning)
                if length < len(elements):
                    longest = length
            else:
                self._seen[beginning] = None
        while len(self._seen) > MOST_SEEN:
            self._seen.popitem(last=False)
        return longest if longest >= self._shortest else 0

    async def _extend(self, start: str, mod: Any, elements: Elements, after: int = 0) -> Any:
        """Return the module after the passes, and keep it.

        The first `after` passes made `mod`.
        """
        for length in range(len(elements), after, -1):
            known = start, elements[:length]
            if known in self._kept:
                self._kept.move_to_end(known)
                mod, after = self._kept[known], length
                break
        if after < len(elements):
            mod = await self._run(mod, elements[after:])
            self._runs += len(elements) - after
        self._kept[start, elements] = mod
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return mod
