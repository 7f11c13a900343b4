"""Recorded answers: the questions, the file, and which answer a replay gives."""

import json
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass import PassContext, answer_of
from apass.errors import AnswersError, UnknownAnswerError
from apass.external.answers.format import ANSWERS_FILE
from apass.instruments import AnswerRecorder, AnswerReplayer, Question
from tests.helpers.combinators import Module, setting, waiting

pytestmark = pytest.mark.anyio


@dataclass(frozen=True)
class Cost:
    """An answer of a class of one's own."""

    value: float


def giving(value: Any) -> Callable[[], Awaitable[Any]]:
    """Return a function that answers."""

    async def ask() -> Any:
        if isinstance(value, Exception):
            raise value
        return value

    return ask


async def never() -> Any:
    pytest.fail("a replay asked")


def lines_of(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a file, without the first one."""
    header, *lines = map(json.loads, (folder / ANSWERS_FILE).read_text().splitlines())
    assert header == {"format": 1, "apass": apass.__version__}
    return lines


async def test_recorded_answers_are_given_again(tmp_path: Path) -> None:
    values = {"a": 1, "b": (1, [2.5, None]), "c": {"x": b"\x00"}, "d": Cost(3.0)}
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        for question, value in values.items():
            assert await answer_of("board", question, giving(value), types=[Cost]) == value
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        for question, value in values.items():
            assert await answer_of("board", question, never, types=[Cost]) == value
    assert len(AnswerReplayer(tmp_path)) == 4
    first = lines_of(tmp_path)[0]
    assert len(first.pop("digest")) == 16
    assert first == {
        "kind": "measurement",
        "name": "board",
        "question": "a",
        "module": None,
        "passes": [],
        "function": None,
        "answer": 1,
    }


async def test_flipped_bit_gives_no_other_answer(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        for question, value in (("a", 1.25), ("b", "text")):
            await answer_of("board", question, giving(value))
    data = (tmp_path / ANSWERS_FILE).read_bytes()
    first = data.index(b"\n") + 1
    for place in range(first, len(data) - 1):
        damaged = bytearray(data)
        damaged[place] ^= 1 << place % 8
        (tmp_path / ANSWERS_FILE).write_bytes(damaged)
        try:
            answers = AnswerReplayer(tmp_path)
        except AnswersError:
            continue
        # White space between values means nothing.
        assert answers.get(Question("measurement", "board", "a"))[0].contents["answer"] == 1.25
        assert answers.get(Question("measurement", "board", "b"))[0].contents["answer"] == "text"


async def test_edited_line_needs_no_digest(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        await answer_of("board", "a", giving(1))
    path = tmp_path / ANSWERS_FILE
    text = path.read_text().replace('"answer": 1', '"answer": 2')
    path.write_text(text)
    with pytest.raises(AnswersError, match="line 2: the contents are damaged or edited; remove the field 'digest'"):
        AnswerReplayer(tmp_path)
    path.write_text(re.sub(r', "digest": "\w+"', "", text))
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await answer_of("board", "a", never) == 2


async def test_errors_are_raised_again(tmp_path: Path) -> None:
    class OddError(Exception):
        """A class that cannot be imported."""

    errors: dict[str, Exception] = {
        "known": apass.errors.HelperError("gone"),
        "local": OddError("strange"),
        "system": ConnectionResetError("reset"),
        "group": ExceptionGroup("several", [ValueError("one")]),
    }
    for folder, error in errors.items():
        async with PassContext(instruments=[AnswerRecorder(tmp_path / folder)]):
            with pytest.raises(type(error)):
                await answer_of("board", "a", giving(error))
        async with PassContext(instruments=[AnswerReplayer(tmp_path / folder)]):
            expected = type(error) if folder in ("known", "system") else apass.errors.HelperError
            with pytest.raises(expected) as caught:
                await answer_of("board", "a", never)
        assert (str(caught.value), type(caught.value).__qualname__) == (str(error), type(error).__qualname__)


async def test_unknown_question_is_an_error_or_asked(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        await answer_of("board", "a", giving(1))
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        with pytest.raises(UnknownAnswerError) as caught:
            await answer_of("board", {"text": "b"}, never)
    assert str(caught.value) == (
        f"{tmp_path / ANSWERS_FILE} has no answer to the question to measurement 'board': "
        '{"text": "b"}; record the run again, or let unknown questions through with unknown=\'ask\' '
        "(--unknown-answers ask)"
    )
    async with PassContext(instruments=[AnswerReplayer(tmp_path, unknown="ask")]):
        assert await answer_of("board", "b", giving(2)) == 2
        assert await answer_of("board", "a", never) == 1


async def test_unknown_answers_extend_the_folder(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        await answer_of("board", "a", giving(1))
    async with PassContext(
        instruments=[AnswerRecorder(tmp_path, extend=True), AnswerReplayer(tmp_path, unknown="ask")]
    ):
        await answer_of("board", "a", never)
        await answer_of("board", "b", giving(2))
    assert [line["answer"] for line in lines_of(tmp_path)] == [1, 2]
    with pytest.raises(AnswersError, match="exists; choose another folder, or remove it"):
        async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
            pass
    assert [line["answer"] for line in lines_of(tmp_path)] == [1, 2]


async def test_repeated_question_has_its_answers_in_order(tmp_path: Path) -> None:
    async def three() -> list[int]:
        return [await answer_of("board", "a", giving(next(values))) for _ in range(3)]

    values = iter([3, 1, 2])
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        assert await three() == [3, 1, 2]
    values = iter([0, 0, 0])
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await three() == [3, 1, 2]
        assert await answer_of("board", "a", never) == 2


async def test_answers_belong_to_the_pass_that_asked(tmp_path: Path) -> None:
    asked: list[int] = []

    async def measure(mod: Module) -> Module:
        async def ask() -> int:
            asked.append(mod["f"])
            return 10 * len(asked) + asked[-1]

        return {"f": await answer_of("board", "same", ask)}

    pipeline = apass.Sequential([waiting("A", measure), waiting("B", measure)])
    modules = {"one": {"f": 1}, "two": {"f": 2}}
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        expected = await apass.optimize_all(modules, pipeline)
    assert len(asked) == 4
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await apass.optimize_all(dict(reversed(modules.items())), pipeline) == expected
        # As in a replay of one pass alone: the same pass elsewhere.
        assert await waiting("B", measure)({"f": 0}) == expected["one"]
    assert len(asked) == 4


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (
            "https://user:secret@example.org/x?size=3&token=abc",
            "https://<left out>@example.org/x?size=3&token=<left out>",
        ),
        ("solver --api-key abc --size 3", "solver --api-key <left out> --size 3"),
        ("solver --token=abc -n 3", "solver --token=<left out> -n 3"),
        ("cost_model", "cost_model"),
        ("tokenizer --size 3", "tokenizer --size 3"),
    ],
)
async def test_secrets_in_names_are_left_out(name: str, expected: str) -> None:
    assert Question("service", name, None).name == expected


async def test_secrets_in_fields_are_left_out(tmp_path: Path) -> None:
    question = {"text": "token = 5", "auth_token": "abc", "nested": [{"Password": "abc", "tokens": 7}]}
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        await answer_of("board", question, giving({"x-api-key": "abc", "cost": 1}))
    assert "abc" not in (tmp_path / ANSWERS_FILE).read_text()
    (line,) = lines_of(tmp_path)
    assert line["question"] == {
        "text": "token = 5",
        "auth_token": "<left out>",
        "nested": [{"Password": "<left out>", "tokens": 7}],
    }
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        changed = {**question, "auth_token": "another"}
        assert await answer_of("board", changed, never) == {"x-api-key": "<left out>", "cost": 1}


async def test_analysis_is_recorded_and_replayed(tmp_path: Path) -> None:
    computed: list[object] = []

    @apass.analysis(name="Length")
    async def length(func: str) -> int:
        computed.append(func)
        return await answer_of("ruler", func, giving(len(func)))

    @apass.analysis(name="Opaque")
    def opaque(func: str) -> object:
        computed.append("opaque")
        return object()

    @apass.function_pass(opt_level=0, required=[length])
    async def Measure(func: str, mod: dict[str, str], ctx: PassContext) -> str:
        await ctx.get(opaque, func)
        assert await ctx.get(length, func) == ctx.got(length, func)
        return f"{func}{ctx.got(length, func)}"

    mod = {"f": "abc", "g": "abc", "h": "x"}
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        assert await Measure(mod) == {"f": "abc3", "g": "abc3", "h": "x1"}
    kinds = [(line["kind"], line.get("answer")) for line in lines_of(tmp_path)]
    assert [kind for kind in kinds if kind[0] == "measurement"] == [("measurement", 3), ("measurement", 1)]
    assert sorted(str(answer) for kind, answer in kinds if kind == "analysis") == [
        "None", "None", "{'json': 1}", "{'json': 3}",
    ]  # fmt: skip
    computed.clear()
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await Measure(mod) == {"f": "abc3", "g": "abc3", "h": "x1"}
    # What JSON cannot express is computed again.
    assert computed == ["opaque", "opaque"]


async def test_keys_of_a_race_are_replayed(tmp_path: Path) -> None:
    latencies = {1: 0.5, 2: 0.25, 3: 0.75}

    async def latency(mod: Module) -> float:
        return latencies[mod["f"]]

    race = apass.Race([setting(1, "A"), setting(2, "B"), setting(3, "C")], key=latency)
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        assert await race({"f": 0}) == {"f": 2}
    latencies.clear()
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        assert await race({"f": 0}) == {"f": 2}


async def test_unknown_question_ignores_error_policies(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        pass

    async def measure(mod: Module) -> Module:
        return {"f": await answer_of("board", "a", never)}

    async def body(mod: Module, ctx: PassContext) -> Module:
        return await measure(mod)

    keeping = apass.module_pass(body, opt_level=0, name="Keep", on_error="keep")
    alternatives = [waiting("A", measure), setting(1)]
    async with PassContext(instruments=[AnswerReplayer(tmp_path)]):
        for pass_ in (keeping, apass.First(alternatives), apass.Race(alternatives, key=len)):
            with pytest.raises(UnknownAnswerError):
                await pass_({"f": 0})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"format": 2}\n', "was written by another version of apass; record the run again"),
        ("[]\n", "line 1: expected a JSON object, got []"),
        ("not json\n", "line 1: Expecting value"),
        ('{"format": 1}\n{"kind": "x"}\n', "line 2: the field 'name' is missing"),
        ('{"format": 1}\n{"kind": 3}\n', "line 2: expected str, got 3"),
        (
            '{"format": 1}\n{"kind": "", "name": "", "question": 1, "module": null, "passes": [], "function": null}\n',
            "line 2: expected one of the fields 'answer', 'error' and 'left_out'",
        ),
        ("[" * 100_000 + "\n", "line 1:"),
    ],
)
async def test_invalid_file_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / ANSWERS_FILE).write_text(text)
    with pytest.raises(AnswersError) as caught:
        AnswerReplayer(tmp_path)
    assert message in str(caught.value)


async def test_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    async with PassContext(instruments=[AnswerRecorder(tmp_path)]):
        await answer_of("board", "a", giving(1))
        await answer_of("board", "b", giving(2))
    file = tmp_path / ANSWERS_FILE
    data = file.read_bytes()
    for end in range(len(data)):
        file.write_bytes(data[:end])
        assert len(AnswerReplayer(file)) == max(0, data[:end].count(b"\n") - 1)
    with pytest.raises(AnswersError, match="cannot read the recorded answers"):
        AnswerReplayer(tmp_path / "missing")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(["a", "b", "!"]), inner) | st.tuples(inner),
    max_leaves=8,
)


@given(json_values, json_values)
def test_any_value_is_restored(tmp_path_factory: pytest.TempPathFactory, question: object, answer: object) -> None:
    folder = tmp_path_factory.mktemp("answers")

    async def main() -> object:
        async with PassContext(instruments=[AnswerRecorder(folder)]):
            await answer_of("board", question, giving(answer))
        async with PassContext(instruments=[AnswerReplayer(folder)]):
            return await answer_of("board", question, never)

    result = anyio.run(main)
    assert result == answer
    assert repr(result) == repr(answer)
