"""`AnswerReplayer`: gives the answers again that a run has recorded."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, final

from apass.core.instrument import pass_instrument
from apass.core.questions import Codec, Question
from apass.core.run import Run
from apass.core.run_settings import RunSettings
from apass.errors import UnknownAnswerError
from apass.external.answers.format import ANSWERS_FILE, RecordedAnswer, read_answers

__all__ = ["AnswerReplayer"]


@final
@pass_instrument
class AnswerReplayer:
    """Gives the answers again that an `AnswerRecorder` has written.

    It is an instrument: `PassContext(instruments=[AnswerReplayer(folder)])`. Each context begins with the first answer.

    Answers are looked up by kind, name and question. Repeated questions replay the answers in recorded order; the last
    one then repeats. Answers that the same pass received for the same function come first. For example, if a pass
    measured a function twice, its replay receives the two results in that order.

    Recorded errors are raised again. If the class of an error is not imported, the error is a HelperError of that name.

    The file may come from a stranger: reading it imports nothing and runs no code.

    Parameters:
        path: the folder of the recorder, or the file in it.
        unknown: what a question without an answer does: `"error"` raises an UnknownAnswerError, `"ask"` asks.

    Raises:
        AnswersError: if the file cannot be read or has an invalid line. A last line that was not written to its end is
            left out.

    """

    def __init__(self, path: Path | str, *, unknown: Literal["error", "ask"] = "error") -> None:
        if unknown not in ("error", "ask"):
            raise ValueError(f"unknown must be 'error' or 'ask', got {unknown!r}")
        given = Path(path)
        self.path: Final = given / ANSWERS_FILE if given.is_dir() else given
        """The file."""
        self.unknown: Final = unknown
        """What a question without an answer does."""
        self._by_key: Final = MappingProxyType(read_answers(self.path))

    @property
    def run_settings(self) -> RunSettings:
        """The settings of the runner: the answers."""
        return RunSettings(answers=self)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that reads the file again (see `PortableInstrument`)."""
        return partial(AnswerReplayer, self.path, unknown=self.unknown)

    def cursor(self) -> "_Cursor":
        """Return a cursor before the first answer."""
        return _Cursor(self)

    def __reduce__(self) -> tuple[Any, ...]:
        return self.for_worker(), ()

    def __repr__(self) -> str:
        return f"AnswerReplayer({str(self.path)!r}, unknown={self.unknown!r})"

    def __len__(self) -> int:
        """Return the number of answers."""
        return sum(map(len, self._by_key.values()))

    def get(self, question: Question) -> Sequence[RecordedAnswer]:
        """Return the answers to a question, in the order of the file."""
        return self._by_key.get(question.key, ())


class _Cursor:
    """Gives the recorded answers to one context, in order."""

    def __init__(self, answers: AnswerReplayer) -> None:
        self._answers = answers
        self._given: Counter[tuple[str, Any]] = Counter()

    def find(self, question: Question, run: Run | None, codec: Codec) -> Callable[[], Any] | None:
        """Return a function that returns the answer or raises the error.

        Return None if the question is to be asked.

        Raises:
            UnknownAnswerError: if no answer is recorded, and unknown questions are errors.

        """
        recorded = self._answers.get(question)
        if recorded:
            label, matches = _best_matches(recorded, run)
            index = self._given[question.key, label]
            self._given[question.key, label] += 1
            found = matches[min(index, len(matches) - 1)]
            # An answer that could not be written is computed again.
            return None if "left_out" in found.contents else lambda: found.unwrap(self._answers.path, codec)
        if self._answers.unknown == "ask":
            return None
        raise UnknownAnswerError(
            f"{self._answers.path} has no answer to the question to {question}; record the run again, or let unknown "
            "questions through with unknown='ask' (--unknown-answers ask)"
        )


def _best_matches(recorded: Sequence[RecordedAnswer], run: Run | None) -> tuple[object, Sequence[RecordedAnswer]]:
    """Return the answers to a question that fit a run best.

    Return what they have in common as well.
    """
    if run is not None:
        asker = (run.module, run.path, run.function)
        same = [item for item in recorded if item.asker == asker]
        if same:
            return asker, same
        # The pass may run in another pipeline, as in a replay of this pass alone.
        alike = [item for item in recorded if (item.asker[1][-1:], item.asker[2]) == (run.path[-1:], run.function)]
        if alike:
            return asker[1:], alike
    return None, recorded
