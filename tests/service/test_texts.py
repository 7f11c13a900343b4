"""`TextEncoder`, and the texts in the events of jobs."""

import zlib
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import apass
from apass.service import JobEvent, JobOptions, Optimizer
from apass.service.texts import LARGEST, TextEncoder
from apass.service.work import SMALL
from tests.helpers.amounts import amount

pytestmark = pytest.mark.anyio

MANY = amount(10_000, least=7_000)
"""Functions of a module whose text is made in a thread."""


def decoded(events: list[Mapping[str, Any]]) -> dict[int, str]:
    """Return the texts of events by their index."""
    texts: dict[int, bytes] = {}
    for fields in events:
        if "data" not in fields:
            continue
        base = texts.get(fields.get("base", -1), b"")
        head, tail = fields.get("head", 0), len(base) - fields.get("tail", 0)
        packed = b64decode(fields["data"])
        middle = zlib.decompressobj(-15, zdict=base[head:tail][-(2**15) :]).decompress(packed)
        texts[fields["text"]] = base[:head] + middle + base[tail:]
        assert len(texts[fields["text"]]) == fields["size"]
    return {index: data.decode() for index, data in texts.items()}


@given(st.lists(st.text("ab\n\u00e9\U0001f600", max_size=40), max_size=8))
def test_encoder_is_reversible(texts: list[str]) -> None:
    encoder = TextEncoder()
    added = [encoder.add(text) for text in texts]
    results = decoded([fields for _, fields in added if fields is not None])
    assert [results[index] for index, _ in added] == texts


def test_change_of_a_long_text_is_small() -> None:
    lines = [f"%{number} = add(%{number - 1}, {number * 7919 % 10_007})" for number in range(20_000)]
    encoder = TextEncoder()
    _, first = encoder.add("\n".join(lines))
    lines[10_000] = "%10000 = removed"
    _, second = encoder.add("\n".join(lines))
    assert first is not None
    assert second is not None
    assert len(first["data"]) > 50_000
    assert len(second["data"]) < 100
    assert decoded([first, second])[1] == "\n".join(lines)


def noise(size: int, seed: int) -> str:
    """Return a text that cannot be compressed by more than half."""
    return "".join(f"{(seed + number * number * 2_654_435_761) % 2**32:08x}" for number in range(size // 8))


def test_texts_beyond_a_limit_have_no_data() -> None:
    encoder = TextEncoder(limit=3_000)
    fields = [encoder.add(text)[1] for text in ("first", noise(8_000, 1), "second", noise(4 * LARGEST, 2))]
    sent = [item for item in fields if item is not None]
    assert [("data" in item, item["text"]) for item in sent] == [(True, 0), (False, 1), (True, 2), (False, 3)]
    assert decoded(sent) == {0: "first", 2: "second"}


@apass.function_pass(opt_level=0)
async def Halve(func: int, mod: dict[str, int], ctx: apass.PassContext) -> int:
    return func // 2


@apass.module_pass(opt_level=0)
async def Grow(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
    return {**mod, **{f"f{number}": number for number in range(MANY)}}


async def events_of(pipeline: apass.Pass[Any], mod: dict[str, int], options: JobOptions) -> list[JobEvent]:
    """Return the events of a job."""
    async with Optimizer({"default": pipeline}) as optimizer:
        job = await optimizer.submit(mod, options=options)
        return [event async for event in job.events()]


@pytest.mark.parametrize("functions", [False, True])
async def test_events_name_the_text_around_each_pass(functions: bool) -> None:
    pipeline = apass.Sequential([Halve, Halve, Halve])
    options = JobOptions(texts=True, functions=functions)
    events = await events_of(pipeline, {"f": 2, "g": 0}, options)
    texts = decoded([event.data for event in events if event.kind == "text"])
    assert list(texts.values()) == ["f: 2\ng: 0", "f: 1\ng: 0", "f: 0\ng: 0"]
    around = [
        (event.kind, event.data["path"], event.data["text"])
        for event in events
        if "path" in event.data and "text" in event.data
    ]
    assert around == [
        ("started", "0:sequential", 0),
        ("started", "0:sequential/0:Halve", 0),
        ("finished", "0:sequential/0:Halve", 1),
        ("started", "0:sequential/1:Halve", 1),
        ("finished", "0:sequential/1:Halve", 2),
        ("started", "0:sequential/2:Halve", 2),
        ("finished", "0:sequential/2:Halve", 2),
        ("finished", "0:sequential", 2),
    ]


async def test_large_texts_are_made_in_order() -> None:
    events = await events_of(apass.Sequential([Grow, Halve]), {"f": 2}, JobOptions(texts=True))
    texts = decoded([event.data for event in events if event.kind == "text"])
    assert min(len(text) for text in (texts[1], texts[2])) > SMALL
    assert [text.count("\n") for text in texts.values()] == [0, MANY, MANY]
    assert texts[2].endswith(f"f{MANY - 1}: {(MANY - 1) // 2}")
    kinds = [event.kind for event in events if event.kind != "state"]
    assert kinds == ["text", *["started"] * 2, "text", "finished", "started", "text", *["finished"] * 2]
