"""`answer_of`: asks outside of the program, or gives the recorded answer."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from apass.core.context import current_scope
from apass.core.questions import Question, answer_to, tagged_codec

__all__ = ["answer_of"]

R = TypeVar("R")


async def answer_of(
    name: str,
    question: object,
    ask: Callable[[], Awaitable[R]],
    *,
    kind: str = "measurement",
    types: Iterable[type] = (),
) -> R:
    """Return what `ask` returns; in a replay, the answer that was recorded.

    Call it around anything outside of the program that is no `Service`, such as a measurement on a device. See
    `AnswerRecorder` and `AnswerReplayer`.

    Parameters:
        name: what is asked.
        question: what the answer depends on. Equal questions have the same answers.
        ask: asks, and returns the answer.
        kind: a word for what is asked, in the file.
        types: dataclasses and enums that the answer may contain, besides Python's own types.

    Raises:
        UnknownAnswerError: in a replay, if no answer was recorded for the question.
        Exception: any error of `ask`; in a replay, the recorded one.

    >>> import anyio
    >>> async def main():
    ...     async def measure():
    ...         return 0.25
    ...     return await answer_of("board", {"code": "x"}, measure)
    >>> anyio.run(main)
    0.25

    """
    state = current_scope().state
    if state.answers is None and not state.hooks.answers:
        return await ask()
    return await answer_to(state, Question(kind, name, question), ask, tagged_codec(types))
