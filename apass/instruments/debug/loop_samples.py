"""Samples of where the threads of event loops are, taken by a thread of its own."""

import sys
from collections import Counter, deque
from collections.abc import Callable, Sequence
from threading import Condition, Thread, get_ident
from time import perf_counter
from types import FrameType
from typing import Final

from apass.core.places import Place, place_of_frame

__all__ = ["LoopSamples"]

INTERVAL: Final = 0.01
"""Seconds between two samples."""

# The documentation of Python describes the function, in spite of its name.
_frames_of_threads: Callable[[], dict[int, FrameType]] = vars(sys)["_current_frames"]

_LINGER: Final = 100
"""Samples after the last pass before the sampling thread ends; starting a thread for each pass would be slow."""


class LoopSamples:
    """Samples the current line of each thread between `begin` and `end`.

    One object serves all threads. It keeps the latest 1000 samples of each.
    """

    def __init__(self) -> None:
        self._changed = Condition()
        self._counts: Counter[int] = Counter()
        self._samples: dict[int, deque[tuple[float, Place | None]]] = {}
        self._thread: Thread | None = None

    def begin(self) -> None:
        """Sample the current thread until `end`; calls may be nested."""
        with self._changed:
            self._counts[get_ident()] += 1
            self._samples.setdefault(get_ident(), deque(maxlen=1000))
            if self._thread is None:
                self._thread = Thread(target=self._run, name="apass debug mode", daemon=True)
                self._thread.start()

    def end(self) -> None:
        """Stop sampling the current thread after the outermost `begin`."""
        with self._changed:
            self._counts[get_ident()] -= 1
            if not self._counts[get_ident()]:
                del self._counts[get_ident()], self._samples[get_ident()]

    def place(
        self, start: float, end: float, default: Place | None, without: Sequence[tuple[float, float, float]] = ()
    ) -> Place | None:
        """Return where the current thread was most often in a span of `perf_counter`.

        It is None if no body was running there, and `default` if there is no sample because a library held the GIL.

        Parameters:
            start: the start of the span.
            end: its end.
            default: the place if there is no sample.
            without: start and end of spans within it that do not count.

        """
        with self._changed:
            samples = [
                place
                for time, place in self._samples.get(get_ident(), ())
                if start <= time <= end and not any(begin <= time <= until for begin, until, _ in without)
            ]
        if not samples:
            return default
        places = Counter(place for place in samples if place is not None).most_common(1)
        return places[0][0] if places else None

    def _run(self) -> None:
        idle = 0
        while True:
            with self._changed:
                self._changed.wait(INTERVAL)
                idle = 0 if self._counts else idle + 1
                if idle > _LINGER:
                    self._thread = None
                    return
                if self._counts:
                    self._sample()

    def _sample(self) -> None:
        # In a method of its own: a frame that is referred to keeps the variables of a body that has ended.
        time = perf_counter()
        frames = _frames_of_threads()
        for thread, samples in self._samples.items():
            samples.append((time, place_of_frame(frames.get(thread))))
