"""Tensor arrays: lists of tensors of one element type and of rank 0 to 6.

TVM's prelude has the same definitions.

They are generated as Relay text. Relay has no dependent types, so each element type has its own definitions.
"""

from typing import Final

from apass.relay.ir.module import IRModule
from apass.relay.text.parsing.reader import read_module

__all__ = ["ELEMENT_TYPES", "add_tensor_arrays"]

ELEMENT_TYPES: Final = ("float32", "float16", "float64", "int32", "uint8", "int8", "int16", "uint16", "int64")
"""The element types for which TVM's prelude has tensor arrays."""

_RANKS: Final = range(7)
_SHARED: Final = """
def @tensor_array_DTYPE(%size: int32) -> List[tensor_DTYPE_t] {
  if (%size == 0) { Nil } else { Cons(tensor_nil_DTYPE, @tensor_array_DTYPE(%size - 1)) }
}

def @tensor_array_read_DTYPE(%array: List[tensor_DTYPE_t], %n: int32) -> tensor_DTYPE_t {
  @nth(%array, %n)
}

def @tensor_array_write_DTYPE(%array: List[tensor_DTYPE_t], %n: int32, %v: tensor_DTYPE_t)
    -> List[tensor_DTYPE_t] {
  @update(%array, %n, %v)
}

def @tensor_array_concat_DTYPE(%array: List[tensor_DTYPE_t]) -> tensor_DTYPE_t {
  match (%array) {
    Cons(%first, Nil) => %first,
    Cons(%first, %rest) => @tensor_concatenate_DTYPE(%first, @tensor_array_concat_DTYPE(%rest)),
    Nil => tensor_nil_DTYPE,
  }
}

def @tensor_array_stack_DTYPE(%array: List[tensor_DTYPE_t]) -> tensor_DTYPE_t {
  @tensor_array_concat_DTYPE(@map(@tensor_expand_dims_DTYPE, %array))
}

def @tensor_array_gather_helper_DTYPE(%array: List[tensor_DTYPE_t], %indices: Tensor[(?), int32], %at: int32,
    %end: int32) -> List[tensor_DTYPE_t] {
  if (%at == %end) {
    Nil
  } else {
    Cons(@nth(%array, take(%indices, %at)), @tensor_array_gather_helper_DTYPE(%array, %indices, %at + 1, %end))
  }
}

def @tensor_array_gather_DTYPE(%array: List[tensor_DTYPE_t], %indices: Tensor[(?), int32]) -> tensor_DTYPE_t {
  let %count = take(shape_of(%indices, dtype="int32"), 0);
  @tensor_array_stack_DTYPE(@tensor_array_gather_helper_DTYPE(%array, %indices, 0, %count))
}

def @tensor_array_scatter_helper_DTYPE(%array: List[tensor_DTYPE_t], %indices: Tensor[(?), int32], %at: int32,
    %end: int32, %values: List[tensor_DTYPE_t]) -> List[tensor_DTYPE_t] {
  if (%at == %end) {
    %array
  } else {
    let %written = @update(%array, take(%indices, %at), @nth(%values, %at));
    @tensor_array_scatter_helper_DTYPE(%written, %indices, %at + 1, %end, %values)
  }
}

def @tensor_array_scatter_DTYPE(%array: List[tensor_DTYPE_t], %indices: Tensor[(?), int32],
    %values: List[tensor_DTYPE_t]) -> List[tensor_DTYPE_t] {
  let %count = take(shape_of(%indices, dtype="int32"), 0);
  @tensor_array_scatter_helper_DTYPE(%array, %indices, 0, %count, %values)
}

def @tensor_array_split_helper_DTYPE(%array: List[tensor_DTYPE_t], %value: tensor_DTYPE_t, %offset: int32,
    %at: int32, %end: int32, %lengths: Tensor[(?), int32]) -> List[tensor_DTYPE_t] {
  if (%at == %end) {
    %array
  } else {
    let %next = %offset + take(%lengths, %at);
    let %written = @update(%array, %at, @tensor_take_DTYPE(%value, %offset, %next));
    @tensor_array_split_helper_DTYPE(%written, %value, %next, %at + 1, %end, %lengths)
  }
}

def @tensor_array_split_DTYPE(%array: List[tensor_DTYPE_t], %value: tensor_DTYPE_t, %lengths: Tensor[(?), int32])
    -> List[tensor_DTYPE_t] {
  let %count = take(shape_of(%lengths, dtype="int32"), 0);
  @tensor_array_split_helper_DTYPE(%array, %value, 0, 0, %count, %lengths)
}
"""
_UNSTACK: Final = """
def @tensor_array_unstack_tensorRANK_helper_DTYPE(%at: int32, %end: int32, %tensor: SHAPED) -> List[tensor_DTYPE_t] {
  if (%at == %end) {
    Nil
  } else {
    let %rest = @tensor_array_unstack_tensorRANK_helper_DTYPE(%at + 1, %end, %tensor);
    Cons(tensorBELOW_DTYPE(take(%tensor, %at, axis=0)), %rest)
  }
}

def @tensor_array_unstack_tensorRANK_DTYPE(%tensor: SHAPED) -> List[tensor_DTYPE_t] {
  @tensor_array_unstack_tensorRANK_helper_DTYPE(0, take(shape_of(%tensor, dtype="int32"), 0), %tensor)
}
"""


def add_tensor_arrays(mod: IRModule, dtype: str) -> None:
    """Add the tensor arrays of an element type to a module, unless it has them.

    The module must have the prelude.

    Raises:
        ValueError: if `dtype` is not in `ELEMENT_TYPES`.

    """
    if dtype not in ELEMENT_TYPES:
        raise ValueError(f"the element type of tensor arrays must be one of {', '.join(ELEMENT_TYPES)}, got {dtype!r}")
    if f"tensor_array_{dtype}" not in mod:
        mod.update(read_module(_text(dtype), "tensor_array.rly", mod))


def _text(dtype: str) -> str:
    ranks = list(_RANKS)
    parts = [_data_type(), _take(ranks[1:]), _expand_dims(ranks[:-1]), _concatenate(ranks[1:]), _SHARED]
    parts += [_unstack(rank) for rank in ranks[1:]]
    return "\n".join(parts).replace("DTYPE", dtype)


def _unstack(rank: int) -> str:
    return _UNSTACK.replace("RANK", str(rank)).replace("BELOW", str(rank - 1)).replace("SHAPED", _type(rank))


def _type(rank: int) -> str:
    return f"Tensor[({', '.join('?' * rank)}), DTYPE]" if rank else "DTYPE"


def _data_type() -> str:
    constructors = "".join(f"  tensor{rank}_DTYPE({_type(rank)}),\n" for rank in _RANKS)
    return f"type tensor_DTYPE_t {{\n  tensor_nil_DTYPE,\n{constructors}}}\n"


def _take(ranks: list[int]) -> str:
    slices = 'take(%t, arange(%lower, %upper, 1, start=None, stop=None, step=None, dtype="int32"), axis=0)'
    cases = "".join(f"    tensor{rank}_DTYPE(%t) => tensor{rank}_DTYPE({slices}),\n" for rank in ranks)
    head = "def @tensor_take_DTYPE(%tensor: tensor_DTYPE_t, %lower: int32, %upper: int32) -> tensor_DTYPE_t"
    return f"{head} {{\n  match? (%tensor) {{\n{cases}  }}\n}}\n"


def _expand_dims(ranks: list[int]) -> str:
    cases = "".join(
        f"    tensor{rank}_DTYPE(%t) => tensor{rank + 1}_DTYPE(expand_dims(%t, axis=0)),\n" for rank in ranks
    )
    head = "def @tensor_expand_dims_DTYPE(%tensor: tensor_DTYPE_t) -> tensor_DTYPE_t"
    return f"{head} {{\n  match? (%tensor) {{\n{cases}  }}\n}}\n"


def _concatenate(ranks: list[int]) -> str:
    cases = "".join(
        f"    (tensor{rank}_DTYPE(%a), tensor{rank}_DTYPE(%b)) => tensor{rank}_DTYPE(concatenate((%a, %b), axis=0)),\n"
        for rank in ranks
    )
    head = "def @tensor_concatenate_DTYPE(%x: tensor_DTYPE_t, %y: tensor_DTYPE_t) -> tensor_DTYPE_t"
    return f"{head} {{\n  match? ((%x, %y)) {{\n{cases}  }}\n}}\n"
