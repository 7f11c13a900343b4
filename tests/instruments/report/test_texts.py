"""`TextStore`: texts are stored without loss, once, and as differences."""

import random
import zlib

from hypothesis import given
from hypothesis import strategies as st

from apass.instruments.report.texts import Base, TextStore

CHARACTERS = st.characters(exclude_categories=["Cs"])


@given(st.lists(st.text(CHARACTERS), max_size=60))
def test_stored_texts_are_returned_unchanged(texts: list[str]) -> None:
    store, base = TextStore(), None
    indices: list[int] = []
    for text in texts:
        base = store.add(text, base)
        indices.append(base.index)
    assert [store.text(index) for index in indices] == texts
    assert len(store.texts) == len(set(texts))


def test_similar_texts_compress_well() -> None:
    rng = random.Random(0)
    lines = [f"%{n} = {rng.random()}" for n in range(500)]
    store = TextStore()
    base = store.add("\n".join(lines), None)
    first = len(store.texts[0].data)
    for n in range(100):
        lines[5 * n] = f"changed {n}"
        base = store.add("\n".join(lines), base)
    rest = sum(len(item.data) for item in store.texts[1:])
    assert (len(store.texts), rest < 8 * first) == (101, True)


def test_chains_of_texts_are_short() -> None:
    store, base = TextStore(), None
    for n in range(200):
        base = store.add(str(n), base)
    assert max(item.links for item in store.texts) <= 25
    assert all(item.base < number for number, item in enumerate(store.texts))


def test_long_text_uses_the_previous_tail() -> None:
    rng = random.Random(1)
    long = rng.randbytes(100_000).hex()
    store = TextStore()
    base = store.add(long, None)
    index = store.add(long[1:], base).index
    assert store.text(index) == long[1:]
    assert store.texts[index].base == 0


def test_full_store_refuses_only_new_texts() -> None:
    store = TextStore(limit=10)
    first = store.add(zlib.compress(bytes(range(256))).hex(), None)
    assert store.add("another", first) == Base(-1, b"")
    assert (store.add(store.text(0), None).index, store.refused, len(store.texts)) == (0, 1, 1)
    assert store.add("a third", Base(-1, b"")).index == -1


def test_surrogates_are_stored_as_escapes() -> None:
    store = TextStore()
    assert store.text(store.add("a\ud800b", None).index) == "a\\ud800b"
