"""`AnswerRecorder`: writes the answers from outside that a run received."""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from apass.core.instrument import pass_instrument
from apass.core.questions import Answer
from apass.errors import AnswersError
from apass.external.answers.format import ANSWERS_FILE, answers_text, line_of

__all__ = ["AnswerRecorder"]


@pass_instrument
class AnswerRecorder:
    """Writes the answers of services, helpers, analyses and measurements to a file.

    An `AnswerReplayer` gives them again. The file has a JSON object in each line: the question, the
    answer or the error in its place, and the pass that asked. Each line is written at once, so that a run that is
    killed leaves the answers before.

    Secrets are left out by rule. Headers and environment variables are never written, nor are the values of fields,
    parameters and options with names such as `token` or `password`.

    A result of an analysis is written once, although it may be asked for again. An answer that JSON cannot express is
    left out, with the reason in its place; a replay then asks.

    Parameters:
        folder: the folder; it is created when the first context is entered.
        extend: whether to add to the answers that the folder has, those which a replay did not know.

    Raises:
        AnswersError: if the folder has recorded answers and `extend` is false; from `enter_pass_ctx`, if it cannot be
            written.

    """

    reads_modules: Final = False
    """The hooks do not read modules."""

    def __init__(self, folder: Path | str, *, extend: bool = False) -> None:
        self.folder: Final = Path(folder)
        """The folder of the file."""
        self.extend: Final = extend
        """Whether answers are added to those in the folder."""
        self._is_created = False
        self._analyses: set[str] = set()
        """The keys of the questions whose analyses were written."""
        self._lock = Lock()
        if self.path.exists() and not extend:
            raise self._exists()

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / ANSWERS_FILE

    def enter_pass_ctx(self) -> None:
        """Create the file."""
        with self._lock:
            if self._is_created:
                return
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                if not (self.extend and self.path.exists()):
                    with self.path.open("x", encoding="utf-8") as file:
                        file.write(answers_text([]))
            except OSError as error:
                if isinstance(error, FileExistsError) and self.folder.is_dir():
                    raise self._exists() from error
                raise AnswersError(f"cannot record answers in {self.folder}: {error.strerror}") from error
            self._is_created = True

    def on_answer(self, answer: Answer) -> None:
        """Write a line."""
        if self.extend and answer.is_replayed:
            return
        key = answer.question.key if answer.question.kind == "analysis" else None
        line = line_of(answer)
        with self._lock:
            if key is None or key not in self._analyses:
                self._write([line])
            if key is not None:
                self._analyses.add(key)

    def for_worker(self) -> Callable[[], object]:
        """Return a function that creates the twin for a worker (see `PortableInstrument`)."""
        return _Twin

    def merge_records(self, records: Sequence[str]) -> None:
        """Write the lines of a twin."""
        with self._lock:
            self._write(records)

    def _exists(self) -> AnswersError:
        return AnswersError(
            f"{self.path} exists; choose another folder, or remove it. To add to it, replay its answers as well"
        )

    def _write(self, lines: Sequence[str]) -> None:
        # Opened for each line: a context may be entered by many tasks, and left at any time.
        with self.path.open("a", encoding="utf-8") as file:
            file.write("".join(f"{line}\n" for line in lines))


@pass_instrument
class _Twin:
    """Keeps the lines in a worker."""

    reads_modules: Final = False

    def __init__(self) -> None:
        self._lines: list[str] = []

    def on_answer(self, answer: Answer) -> None:
        self._lines.append(line_of(answer))

    def worker_records(self) -> Sequence[str]:
        return self._lines
