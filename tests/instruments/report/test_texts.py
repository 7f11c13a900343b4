"""`TextStore`: texts are stored without loss, once, and as differences."""

import random
import zlib
from hashlib import blake2b

import pytest
from hypothesis import given
from hypothesis import strategies as st

from apass.instruments.report.texts import Base, StoredText, TextStore, text_at, text_digests

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


@given(st.lists(st.text(CHARACTERS), max_size=40))
def test_digests_identify_texts(texts: list[str]) -> None:
    store, base = TextStore(), None
    for text in texts:
        base = store.add(text, base)
    digests = text_digests(store.texts, 2**20)
    unique = list(dict.fromkeys(texts))
    assert [size for _, size in digests] == [len(text.encode()) for text in unique]
    assert [digest for digest, _ in digests] == [blake2b(text.encode(), digest_size=16).hexdigest() for text in unique]


def test_expanding_text_is_refused_early() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    small = StoredText(packer.compress(b"x" * 2**24) + packer.flush(), -1, 0)
    assert len(small.data) < 2**15
    with pytest.raises(ValueError, match="the texts have more than 1,000,000 bytes"):
        text_digests([small], 10**6)
    with pytest.raises(ValueError, match="text 0 has more than 1,000,000 bytes"):
        text_at([small], 0, 10**6)


@pytest.mark.parametrize("data", [b"", b"\xff\xff", b"\x4b"])
def test_damaged_text_is_a_value_error(data: bytes) -> None:
    for text in (StoredText(data, -1, 0), StoredText(data, 0, 1)):
        with pytest.raises(ValueError, match="text"):
            text_digests([text], 100)
        with pytest.raises(ValueError, match="text"):
            text_at([text], 0, 100)


def test_long_chain_of_texts_is_read() -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = StoredText(packer.compress(b"text") + packer.flush(), -1, 0)
    texts = [first]
    for number in range(5000):
        packer = zlib.compressobj(9, zlib.DEFLATED, -15, zdict=b"text")
        texts.append(StoredText(packer.compress(b"text") + packer.flush(), number, number + 1))
    assert text_at(texts, 5000) == "text"
    assert len({digest for digest, _ in text_digests(texts, 10**6)}) == 1
