"""Mutations of ONNX models: damaged bytes, and messages with wrong contents."""

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Any, Final

import onnx

from tests.helpers.onnx_models import proto_of, rich_proto

__all__ = ["MUTATIONS", "SEEDS", "mutated"]

NUMBERS: Final = (0, 1, -1, 2, 7, 100, 2**31 - 1, -(2**31), 2**31, 2**62, -(2**63))
TEXTS: Final = ("", "a", "x", "a\x1b[2J", "\u202ecba", "Relu", "Identity", "local", "If", "n" * 300)


def _functions_and_subgraphs() -> onnx.ModelProto:
    return proto_of(
        """g (float[4] a, bool c) => (float[4] x, float[4] y) <float[4] w = {1, 2, 3, 4}> {
            s = Identity(a)
            t = local.f <n: float = 0.5> (s)
            u = Add(t, w)
            v = Add(t, w)
            x = Mul(u, v)
            y = If (c) <then_branch = yes () => (float[4] p) <float[4] e = {5, 6, 7, 8}> { p = Mul(t, e) },
                        else_branch = no () => (float[4] q) { q = local.h(w) }>
        }""",
        "f <n> (p) => (q) { r = LeakyRelu <alpha: float = @n> (p) q = Identity(r) }",
        "h (p) => (q) { q = local.f <n: float = 1.0> (p) }",
    )


SEEDS: Final = (rich_proto(), _functions_and_subgraphs(), proto_of("g (float[4] a) => (float[4] x) { x = Relu(a) }"))
"""Valid models with most parts of the format."""


def _flip(rng: Random, data: bytes, other: bytes) -> bytes:
    damaged = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        damaged[rng.randrange(len(damaged))] = rng.randrange(256)
    return bytes(damaged)


def _truncate(rng: Random, data: bytes, other: bytes) -> bytes:
    return data[: rng.randrange(len(data))]


def _splice(rng: Random, data: bytes, other: bytes) -> bytes:
    """Insert, repeat or replace a range of bytes."""
    start, position = rng.randrange(len(other)), rng.randrange(len(data))
    part = other[start : start + rng.randint(1, 40)]
    return data[:position] + part + data[position + rng.choice((0, len(part))) :]


def _change_message(rng: Random, data: bytes, other: bytes) -> bytes:
    """Change fields of random submessages."""
    model, donor = onnx.ModelProto.FromString(data), onnx.ModelProto.FromString(other)
    for _ in range(rng.randint(1, 3)):
        message = rng.choice(_messages(model))
        change = rng.choice((_set_scalar, _set_scalar, _shuffle, _graft))
        change(rng, message, donor)
    return model.SerializeToString()


def _messages(root: Any) -> list[Any]:
    found = [root]
    for message in found:
        for field, value in message.ListFields():
            if field.message_type is not None:
                found += value if _is_list(value) else [value]
    return found


def _is_list(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__")


def _new(rng: Random, value: Any, texts: list[str]) -> Any:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((value + 1, value - 1, rng.randrange(40), *NUMBERS))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, float("nan"), float("inf"), 1e30))
    if isinstance(value, bytes):
        return rng.choice((b"", b"\xff\xfe", value[:-1], value + value))
    return rng.choice((*TEXTS, *texts, *texts))


def _set_scalar(rng: Random, message: Any, donor: onnx.ModelProto) -> None:
    """Replace a number or a name; names are often those of other parts."""
    texts = [part.name for part in _messages(donor) if hasattr(part, "name")]
    fields = [field for field in message.DESCRIPTOR.fields if field.message_type is None]
    if not fields:
        return
    field = rng.choice(fields)
    value = getattr(message, field.name)
    try:
        if _is_list(value):
            items = list(value)
            index = rng.randrange(len(items) + 1)
            items[index : index + rng.randrange(2)] = [_new(rng, items[0] if items else field.default_value, texts)]
            del value[:]
            value.extend(items)
        else:
            setattr(message, field.name, _new(rng, value, texts))
    except (TypeError, ValueError):
        return  # the field does not accept the value


def _shuffle(rng: Random, message: Any, donor: onnx.ModelProto) -> None:
    """Remove, repeat or reorder parts."""
    fields = [(field, value) for field, value in message.ListFields()]
    if not fields:
        return
    field, value = rng.choice(fields)
    if not _is_list(value):
        message.ClearField(field.name)
        return
    items = list(value)
    change = rng.choice((lambda: items.pop(), lambda: items.append(rng.choice(items)), lambda: rng.shuffle(items)))
    change()
    copies = [deepcopy(item) for item in items]
    del value[:]
    value.extend(copies)


def _graft(rng: Random, message: Any, donor: onnx.ModelProto) -> None:
    """Replace the message by another one of its type."""
    same = [part for part in _messages(donor) if type(part) is type(message)]
    if same:
        message.CopyFrom(deepcopy(rng.choice(same)))


MUTATIONS: Final[tuple[Callable[[Random, bytes, bytes], bytes], ...]] = (
    _flip,
    _truncate,
    _splice,
    _change_message,
    _change_message,
    _change_message,
)
"""The kinds of mutation; each receives two models, and returns the bytes of a changed first one."""


def mutated(rng: Random) -> bytes:
    """Return the bytes of a damaged model."""
    first, second = (rng.choice(SEEDS).SerializeToString(deterministic=True) for _ in range(2))
    return rng.choice(MUTATIONS)(rng, first, second)
