"""`TextStore`: every text comes back, each is kept once, and what resembles another costs little."""

import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from apass.instruments.report.texts import Base, TextStore

CHARACTERS = st.characters(exclude_categories=["Cs"])


@given(st.lists(st.text(CHARACTERS), max_size=60))
def test_every_text_comes_back(texts: list[str]) -> None:
    store, base = TextStore(), None
    indices: list[int] = []
    for text in texts:
        base = store.add(text, base)
        indices.append(base.index)
    assert [store.text(index) for index in indices] == texts
    assert len(store.texts) == len(set(texts))


def test_a_text_that_resembles_the_one_before_costs_little() -> None:
    rng = random.Random(0)
    lines = [f"%{n} = {rng.random()}" for n in range(500)]
    store = TextStore()
    base = store.add("\n".join(lines), None)
    first = len(store.texts[0].data)
    for n in range(100):
        lines[5 * n] = f"changed {n}"
        base = store.add("\n".join(lines), base)
    rest = sum(len(one.data) for one in store.texts[1:])
    assert (len(store.texts), rest < 8 * first) == (101, True)


def test_no_text_needs_more_than_a_few_others() -> None:
    store, base = TextStore(), None
    for n in range(200):
        base = store.add(str(n), base)
    assert max(one.links for one in store.texts) <= 25
    assert all(one.base < number for number, one in enumerate(store.texts))


def test_a_long_text_is_read_with_the_end_of_the_one_before() -> None:
    rng = random.Random(1)
    long = rng.randbytes(100_000).hex()
    store = TextStore()
    base = store.add(long, None)
    index = store.add(long[1:], base).index
    assert store.text(index) == long[1:]
    assert store.texts[index].base == 0


def test_beyond_the_limit_texts_are_refused_and_known_ones_found() -> None:
    store = TextStore(limit=10)
    first = store.add(zlib.compress(bytes(range(256))).hex(), None)
    assert store.add("another", first) == Base(-1, b"")
    assert (store.add(store.text(0), None).index, store.refused, len(store.texts)) == (0, 1, 1)
    assert store.add("a third", Base(-1, b"")).index == -1


def test_what_utf_8_does_not_have_is_spelt() -> None:
    store = TextStore()
    assert store.text(store.add("a\ud800b", None).index) == "a\\ud800b"
