"""`ModuleChange`: what differs between two runs on one module."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from enum import Enum
from math import isfinite, isnan
from typing import Any, Final

from apass.debugging.run_diff.recorded_run import PassOutput, RecordedModule, RecordedTexts
from apass.util.text_diff import diff_texts, limit_lines

__all__ = ["FirstDifference", "ModuleChange", "NumberChange", "ResultChange"]

_MOST_CHARACTERS: Final = 2**20
"""Maximum length of a text that is compared; comparing takes quadratic time."""
_MOST_LINES: Final = 60
"""Maximum number of lines of a diff."""


class ResultChange(Enum):
    """How the results of two runs on a module differ."""

    EQUAL = "equal"
    """They are equal, or both runs failed in the same way."""
    DIFFERENT = "different"
    """They differ, or both runs failed in different ways."""
    FAILED = "failed"
    """Only the second run failed."""
    FIXED = "fixed"
    """Only the first run failed."""
    UNKNOWN = "unknown"
    """A result is not recorded."""


@dataclass(frozen=True, slots=True)
class NumberChange:
    """A number that differs; it is 0 in a run that does not have it."""

    name: str
    """What it counts."""
    first: float
    """The number in the first run."""
    second: float
    """The number in the second run."""

    @property
    def mirrored(self) -> "NumberChange":
        """The change from the second run to the first."""
        return NumberChange(self.name, self.second, self.first)

    def __str__(self) -> str:
        return f"{self.name} {self.first:,.10g} -> {self.second:,.10g}{_percent(self.first, self.second)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstDifference:
    """The first pass after which the modules of two runs differ."""

    first: PassOutput | None
    """The pass in the first run; None if only the second run has it."""
    second: PassOutput | None
    """The pass in the second run; None if only the first run has it."""
    texts: tuple[tuple[RecordedTexts, int], tuple[RecordedTexts, int]] = field(compare=False, repr=False)
    """The texts of both runs, and the indices of those to compare.

    Without a pass in a run, that is the text of the module before the pass of the other run.
    """

    @property
    def mirrored(self) -> "FirstDifference":
        """The difference from the second run to the first."""
        return FirstDifference(first=self.second, second=self.first, texts=(self.texts[1], self.texts[0]))

    @property
    def diff(self) -> str:
        """Unified diff of the modules after both passes, of at most 60 lines.

        It is empty if the texts are equal or larger than 1 MiB, or the record has no texts.
        """
        before, after = (texts.text(index, _MOST_CHARACTERS) for texts, index in self.texts)
        return "" if before is None or after is None else limit_lines(diff_texts(before, after), _MOST_LINES)

    def __str__(self) -> str:
        first, second = (None if side is None else side.position.text for side in (self.first, self.second))
        if first == second:
            return str(first)
        if first is None or second is None:
            return f"{first or second}, only in the {'second' if first is None else 'first'} run"
        return f"{first} in the first run, {second} in the second"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleChange:
    """The differences of two runs on one module, except for times."""

    name: str
    """The name of the module."""
    result: ResultChange = ResultChange.EQUAL
    """How the results differ."""
    has_other_input: bool = False
    """Whether the inputs differ, so that other differences may follow from that."""
    failures: tuple[str | None, str | None] = (None, None)
    """The failures of both runs."""
    first_difference: FirstDifference | None = None
    """The first pass whose output differs; None if the outputs of all passes are equal or not recorded."""
    sizes: tuple[NumberChange, ...] = ()
    """The sizes of the results that differ."""
    statistics: tuple[NumberChange, ...] = ()
    """The statistics of passes that differ."""
    remarks: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    """The remarks that only the first run has, and those that only the second run has."""
    are_repeatable: tuple[bool, bool] = (True, True)
    """Whether the repetitions of each run have equal results."""

    @classmethod
    def of(cls, first: RecordedModule, second: RecordedModule) -> "ModuleChange":
        """Return the differences of two records of a module."""
        remarks = Counter(first.remarks), Counter(second.remarks)
        has_results = first.failure is None and second.failure is None
        return cls(
            name=first.name,
            result=_result_change(first, second),
            has_other_input=None not in (first.input, second.input) and first.input != second.input,
            failures=(first.failure, second.failure),
            first_difference=_first_difference(first, second),
            # A result that does not exist has no size.
            sizes=_changes(first.sizes, second.sizes, only_common=True) if has_results else (),
            statistics=_changes(_flat(first.statistics), _flat(second.statistics)),
            remarks=(
                tuple(sorted((remarks[0] - remarks[1]).elements())),
                tuple(sorted((remarks[1] - remarks[0]).elements())),
            ),
            are_repeatable=(first.is_repeatable, second.is_repeatable),
        )

    @property
    def is_empty(self) -> bool:
        """Whether nothing differs."""
        return self == ModuleChange(name=self.name, result=self.result, failures=self.failures) and self.result in (
            ResultChange.EQUAL,
            ResultChange.UNKNOWN,
        )

    @property
    def mirrored(self) -> "ModuleChange":
        """The differences from the second run to the first."""
        swapped = {ResultChange.FAILED: ResultChange.FIXED, ResultChange.FIXED: ResultChange.FAILED}
        return ModuleChange(
            name=self.name,
            result=swapped.get(self.result, self.result),
            has_other_input=self.has_other_input,
            failures=(self.failures[1], self.failures[0]),
            first_difference=None if self.first_difference is None else self.first_difference.mirrored,
            sizes=tuple(change.mirrored for change in self.sizes),
            statistics=tuple(change.mirrored for change in self.statistics),
            remarks=(self.remarks[1], self.remarks[0]),
            are_repeatable=(self.are_repeatable[1], self.are_repeatable[0]),
        )

    def as_json(self) -> dict[str, Any]:
        """Return the differences as values for JSON."""
        first = self.first_difference
        return {
            "module": self.name,
            "result": self.result.value,
            "other_input": self.has_other_input,
            "failures": list(self.failures),
            "first_difference": None
            if first is None
            else {
                "first": None if first.first is None else first.first.position.text,
                "second": None if first.second is None else first.second.position.text,
                "diff": first.diff,
            },
            "sizes": [_number_as_json(change) for change in self.sizes],
            "statistics": [_number_as_json(change) for change in self.statistics],
            "remarks": {"only_first": list(self.remarks[0]), "only_second": list(self.remarks[1])},
            "repeatable": list(self.are_repeatable),
        }


def _result_change(first: RecordedModule, second: RecordedModule) -> ResultChange:
    if first.failure is not None and second.failure is not None:
        return ResultChange.EQUAL if first.failure == second.failure else ResultChange.DIFFERENT
    if first.failure is not None or second.failure is not None:
        return ResultChange.FIXED if second.failure is None else ResultChange.FAILED
    if first.result is None or second.result is None:
        return ResultChange.UNKNOWN
    return ResultChange.EQUAL if first.result == second.result else ResultChange.DIFFERENT


def _first_difference(first: RecordedModule, second: RecordedModule) -> FirstDifference | None:
    """Return the first passes after which the modules differ.

    Passes that only one run has are compared together: several passes may do what one pass does in the other run.
    """
    states = [first.input_text, second.input_text]
    for lefts, rights in _blocks(first.outputs, second.outputs):
        left, right = (side[-1] if side else None for side in (lefts, rights))
        if left is not None and right is not None:
            # An output of a failed pass is not recorded. The failures are compared instead.
            is_equal = None in (left.digest, right.digest) or left.digest == right.digest
        else:
            is_equal = not any(output.is_changed for output in (*lefts, *rights))
        if not is_equal:
            # In a block of several passes, those before the first change are not the cause.
            changed = [next((output for output in side if output.is_changed), None) for side in (lefts, rights)]
            is_pair = len(lefts) == len(rights) == 1 and lefts[0].name == rights[0].name
            if is_pair or changed == [None, None]:
                changed = [left, right]
            indices = [state if output is None else output.text for state, output in zip(states, changed, strict=True)]
            return FirstDifference(
                first=changed[0],
                second=changed[1],
                texts=((first.texts, indices[0]), (second.texts, indices[1])),
            )
        states = [side[-1].text if side else state for side, state in zip((lefts, rights), states, strict=True)]
    return None


def _blocks(
    first: Sequence[PassOutput], second: Sequence[PassOutput]
) -> list[tuple[Sequence[PassOutput], Sequence[PassOutput]]]:
    """Return the passes of both runs side by side.

    These are pairs of passes of one name, and the passes between two pairs.
    """
    names = [output.name for output in first], [output.name for output in second]
    # The result of difflib depends on the order of its arguments. That of this function is symmetric.
    is_swapped = names[0] > names[1]
    left, right = reversed(names) if is_swapped else names
    blocks: list[tuple[Sequence[PassOutput], Sequence[PassOutput]]] = []
    for tag, start, end, other_start, other_end in SequenceMatcher(None, left, right, autojunk=False).get_opcodes():
        if is_swapped:
            start, end, other_start, other_end = other_start, other_end, start, end
        if tag == "equal":
            blocks += [
                ([mine], [other]) for mine, other in zip(first[start:end], second[other_start:other_end], strict=True)
            ]
        else:
            blocks.append((first[start:end], second[other_start:other_end]))
    return blocks


def _flat(statistics: Mapping[tuple[str, str], float]) -> dict[str, float]:
    return {f"{name}: {key}": amount for (name, key), amount in statistics.items()}


def _changes(
    first: Mapping[str, float], second: Mapping[str, float], *, only_common: bool = False
) -> tuple[NumberChange, ...]:
    names = first.keys() & second.keys() if only_common else first.keys() | second.keys()
    changes = [NumberChange(name, first.get(name, 0), second.get(name, 0)) for name in sorted(names)]
    # NaN differs from itself, but two runs that both count it are equal.
    return tuple(change for change in changes if not _are_equal(change.first, change.second))


def _are_equal(first: float, second: float) -> bool:
    return first == second or (isnan(first) and isnan(second))


def _number_as_json(change: NumberChange) -> dict[str, Any]:
    # JSON has no infinities.
    first, second = (value if isfinite(value) else str(value) for value in (change.first, change.second))
    return {"name": change.name, "first": first, "second": second}


def _percent(first: float, second: float) -> str:
    return f" ({(second - first) / first:+.1%})" if first > 0 else ""
