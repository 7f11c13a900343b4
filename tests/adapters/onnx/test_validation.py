"""The structure of ONNX models, which is checked when they are loaded."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import anyio
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto
from onnx.helper import make_tensor

import apass
from apass.adapters.onnx import ADAPTER, load_model, save_model
from apass.adapters.onnx.passes import TABLE
from apass.adapters.onnx.validation import MAX_CALLS, MAX_NESTING, check_structure, is_text_too_deep
from tests.helpers.amounts import amount, some
from tests.helpers.command_line import apass as command
from tests.helpers.onnx_models import corpus, op_types, proto_of, run, with_functions
from tests.helpers.onnx_mutations import mutated
from tests.helpers.rows import row

Proto = onnx.ModelProto

HEADER = "g (float[4] a) => (float[4] x)"
SUBGRAPHS = (
    "<then_branch = yes () => (float[4] y) {{ y = {0} }}, else_branch = no () => (float[4] z) {{ z = Relu(a) }}>"
)


def in_subgraph(expression: str) -> str:
    """Return a graph with an expression in the branch of an If node."""
    return f"g (float[4] a, bool c) => (float[4] x) {{ x = If (c) {SUBGRAPHS.format(expression)} }}"


GRAPHS = {
    f"{HEADER} {{ x = Add(a, b) }}": "node 0 (Add) of graph 'g' reads 'b', which no node, input or initializer defines",
    in_subgraph("Neg(b)"): "node 0 (Neg) of subgraph 'yes' of node 0 (If) of graph 'g' reads 'b', which",
    in_subgraph("Neg(x)"): "the nodes form a cycle: node 0 (If) of graph 'g' -> node 0 (If) of graph 'g'",
    f"{HEADER} {{ y = Add(a, x) x = Relu(y) }}": "form a cycle: node 0 (Add) of graph 'g' -> node 1 (Relu) of graph",
    f"{HEADER} {{ y = Relu(a) }}": "graph 'g' has the output 'x', which no node, input or initializer defines",
    f"{HEADER} {{ x = Relu(a) x = Neg(a) }}": (
        "node 1 (Neg) of graph 'g' defines 'x' again; node 0 (Relu) of graph 'g' defines it first"
    ),
    f"{HEADER} {{ a = Relu(a) x = Neg(a) }}": "node 0 (Relu) of graph 'g' defines 'a' again; an input or initializer",
    "g (float[4] a, float[4] a) => (float[4] x) { x = Relu(a) }": "graph 'g' has two inputs named 'a'",
    f"{HEADER} <float[1] w = {{1}}, float[1] w = {{2}}> {{ x = Add(a, w) }}": "has two initializers named 'w'",
    f"{HEADER} {{ x = other.F(a) }}": "node 0 (F) of graph 'g' uses the operator set 'other', which is not imported",
    f"{HEADER} {{ x = Elu <alpha: float = 1.0, alpha: float = 2.0> (a) }}": "has two attributes named 'alpha'",
}


@pytest.mark.parametrize("graph", GRAPHS)
def test_invalid_graph_is_rejected_when_loaded(graph: str) -> None:
    with pytest.raises(apass.errors.AdapterError) as caught:
        ADAPTER.loads(proto_of(graph).SerializeToString())
    assert str(caught.value).startswith("these bytes: ")
    assert GRAPHS[graph] in str(caught.value)


FUNCTIONS = {
    "f (p) => (q) { q = local.f(p) }": "functions call each other in a cycle: local::f -> local::f",
    "f (p) => (q) { q = Add(p, r) }": "node 0 (Add) of function 'local::f' reads 'r', which no node",
    "f (p) => (q) { r = Relu(p) }": "function 'local::f' has the output 'q', which no node",
    "f (p, p) => (q) { q = Relu(p) }": "function 'local::f' has two inputs named 'p'",
}


@pytest.mark.parametrize("function", FUNCTIONS)
def test_invalid_function_is_rejected_when_loaded(function: str) -> None:
    proto = proto_of(f"{HEADER} {{ x = local.f(a) }}", function)
    with pytest.raises(apass.errors.AdapterError) as caught:
        ADAPTER.loads(proto.SerializeToString())
    assert FUNCTIONS[function] in str(caught.value)


def repeat_function(proto: Proto) -> None:
    proto.functions.append(proto.functions[0])


CHANGES: dict[str, Callable[[Proto], object]] = {
    "the IR version is 99, expected 1 to": lambda proto: setattr(proto, "ir_version", 99),
    "graph 'g' imports operator set '' of version 0, expected 1 to": lambda proto: setattr(
        proto.opset_import[0], "version", 0
    ),
    "graph 'g' imports operator set '' of version 9999, expected": lambda proto: setattr(
        proto.opset_import[0], "version", 9999
    ),
    "graph 'g' imports operator set 'local' of version -1, expected": lambda proto: setattr(
        proto.opset_import[1], "version", -1
    ),
    "imports two versions of operator set '': 21 and 1": lambda proto: setattr(
        proto.opset_import[1], "domain", "ai.onnx"
    ),
    "node 0 (f) of graph 'g' uses the operator set 'local', which is not imported": lambda proto: (
        proto.opset_import.pop()
    ),
    "there are two functions 'local::f'": repeat_function,
    "graph 'g' has an input named ''": lambda proto: setattr(proto.graph.input[0], "name", ""),
}


@pytest.mark.parametrize("message", CHANGES)
def test_invalid_part_is_rejected_when_loaded(message: str) -> None:
    proto = proto_of(f"{HEADER} {{ x = local.f(a) }}", "f (p) => (q) { q = Relu(p) }")
    CHANGES[message](proto)
    with pytest.raises(apass.errors.AdapterError) as caught:
        ADAPTER.loads(proto.SerializeToString())
    assert message in str(caught.value)


TENSORS = {
    "initializer 'w' has 3 values of data, but its shape [4] needs 4": TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[4], float_data=[1, 2, 3]
    ),
    "initializer 'w' has 4 bytes of data, but its shape [2] needs 8": TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2], raw_data=bytes(4)
    ),
    "initializer 'w' has 0 values of data, but its shape [1099511627776] needs 1,099,511,627,776": TensorProto(
        name="w", data_type=TensorProto.INT8, dims=[2**40]
    ),
    "initializer 'w' has 2 bytes of data, but its shape [5] needs 3": TensorProto(
        name="w", data_type=TensorProto.INT4, dims=[5], raw_data=bytes(2)
    ),
    "initializer 'w' has 0 strings of data, but its shape [1] needs 1": TensorProto(
        name="w", data_type=TensorProto.STRING, dims=[1]
    ),
    "initializer 'w' has the shape [4611686018427387904, 4, 0], expected": TensorProto(
        name="w", data_type=TensorProto.FLOAT, dims=[2**62, 4, 0]
    ),
    "initializer 'w' has the shape [-1], expected": TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[-1]),
    "initializer 'w' has the unknown data type 0": TensorProto(name="w", dims=[1], raw_data=bytes(4)),
    "initializer 'w' has the unknown data type 999": TensorProto(name="w", dims=[1], data_type=999),
    "initializer 'w' is one segment of a tensor": TensorProto(
        name="w", data_type=TensorProto.FLOAT, segment=TensorProto.Segment(begin=0, end=1)
    ),
    "graph 'g' has an initializer named ''": make_tensor("", TensorProto.FLOAT, [1], [1]),
}


@pytest.mark.parametrize("message", TENSORS)
def test_invalid_initializer_is_rejected_when_loaded(message: str) -> None:
    proto = proto_of(f"{HEADER} {{ x = Relu(a) }}")
    proto.graph.initializer.append(TENSORS[message])
    with pytest.raises(apass.errors.AdapterError) as caught:
        ADAPTER.loads(proto.SerializeToString())
    assert message in str(caught.value)


def test_invalid_tensor_of_attribute_names_the_node() -> None:
    proto = proto_of(f"{HEADER} {{ k = Constant <value = float[1] {{1}}> () x = Add(a, k) }}")
    proto.graph.node[0].attribute[0].t.dims[0] = 3
    with pytest.raises(
        apass.errors.AdapterError, match=r"attribute 'value' of node 0 \(Constant\) of graph 'g' has 1 values"
    ):
        ADAPTER.loads(proto.SerializeToString())


def test_text_that_is_not_utf8_is_rejected() -> None:
    data = proto_of(f"{HEADER} {{ x = Relu(a) }}").SerializeToString()
    with pytest.raises(apass.errors.AdapterError, match="the model has a text in a NodeProto that is not valid UTF-8"):
        ADAPTER.loads(data.replace(b"Relu", b"R\xfflu"))


def test_attribute_without_type_is_rejected() -> None:
    proto = proto_of(f"{HEADER} {{ x = Elu <alpha: float = 1.0> (a) }}")
    proto.graph.node[0].attribute[0].ClearField("type")
    with pytest.raises(
        apass.errors.AdapterError, match=r"attribute 'alpha' of node 0 \(Elu\) of graph 'g' has no known type"
    ):
        ADAPTER.loads(proto.SerializeToString())


def test_names_in_errors_are_short_and_printable() -> None:
    proto = proto_of(f"{HEADER} {{ x = Relu(a) }}")
    proto.graph.node[0].name = "\x1b[2J\u202e" + "n" * 1000
    proto.graph.node[0].input[0] = "b\n"
    with pytest.raises(apass.errors.AdapterError) as caught:
        ADAPTER.loads(proto.SerializeToString())
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 300
    assert r"node '\x1b[2J\u202ennn" in message
    assert r"reads 'b\n'" in message


def test_unsorted_graph_is_loaded_and_can_be_sorted() -> None:
    proto = proto_of(f"{HEADER} {{ x = Relu(y) y = Neg(a) }}")
    model = ADAPTER.loads(proto.SerializeToString())
    assert op_types(model) == ["Relu", "Neg"]
    assert op_types(run("onnx.TopologicalSort", model)) == ["Neg", "Relu"]
    with pytest.raises(apass.errors.VerifyError, match="topologically sorted"):
        ADAPTER.verify(model)


def test_invalid_default_of_a_function_is_rejected() -> None:
    proto = proto_of(f"{HEADER} {{ x = local.f(a) }}", "f <n: int = 1> (p) => (q) { q = Relu(p) }")
    default = proto.functions[0].attribute_proto[0]
    default.type = onnx.AttributeProto.TENSOR
    default.t.CopyFrom(TensorProto(data_type=TensorProto.FLOAT, dims=[2], float_data=[1]))
    with pytest.raises(apass.errors.AdapterError, match="attribute 'n' of function 'local::f' has 1 values of data"):
        ADAPTER.loads(proto.SerializeToString())
    default.ClearField("t")
    default.type = onnx.AttributeProto.GRAPH
    default.g.name = "b"
    with pytest.raises(
        apass.errors.AdapterError, match="attribute 'n' of function 'local::f' has a graph as its default"
    ):
        ADAPTER.loads(proto.SerializeToString())


def test_outer_value_of_a_later_node_is_rejected() -> None:
    branch = SUBGRAPHS.format("Neg(t)")
    proto = proto_of(f"g (float[4] a, bool c) => (float[4] x) {{ t = Relu(a) x = If (c) {branch} }}")
    assert op_types(ADAPTER.loads(proto.SerializeToString())) == ["Relu", "If"]
    proto.graph.node.reverse()
    message = r"node 0 \(Neg\) of subgraph 'yes' .* reads 't', which a later node of graph 'g' defines; sort the nodes"
    with pytest.raises(apass.errors.AdapterError, match=message):
        ADAPTER.loads(proto.SerializeToString())


def nested(depth: int) -> Proto:
    """Return a model with subgraphs of this depth."""
    proto = proto_of("g (float[4] a, bool c) => (float[4] x) { x = Relu(a) }")
    # protobuf cannot copy messages nested so deep, so fill them in place.
    graph = proto.graph
    for index in range(depth):
        node = graph.node[0]
        node.op_type, node.input[0] = "If", "c"
        graph = node.attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
        graph.node.add(op_type="Relu", input=["a"], output=[f"v{index}"])
        graph.output.add(name=f"v{index}")
    return proto


def test_definition_that_hides_an_outer_value_is_rejected() -> None:
    # The reference evaluator reads the outer value, onnxruntime the inner one.
    text = """g (bool c, float[1] x) => (float[1] y) <float[1] w = {{2}}> {{
        n = Abs(x)
        y = If (c) <then_branch = t () => (float[1] a) {0}, else_branch = e () => (float[1] b) {{ b = Neg(x) }}>
        z = Neg(y)
    }}"""
    message = "hides the value '{}' of graph 'g'; rename one of them"
    for name in ("c", "x", "w", "n"):
        initializer = f"<float[1] {name} = {{3}}> {{ a = Neg({name}) }}"
        node = f"{{ {name} = Constant <value_floats: floats = [3.0]> () a = Neg({name}) }}"
        for branch in (initializer, node):
            with row(branch), pytest.raises(apass.errors.AdapterError, match=message.format(name)):
                check_structure(proto_of(text.format(branch)))
    # Neither the results of the If nor those of later nodes are visible in it.
    for name in ("y", "z"):
        check_structure(proto_of(text.format(f"<float[1] {name} = {{3}}> {{ a = Neg({name}) }}")))


def test_deeply_nested_subgraphs_are_rejected() -> None:
    check_structure(nested(MAX_NESTING))
    with pytest.raises(
        apass.errors.AdapterError, match="graph 'g' has more than 32 nested subgraphs, the limit of protobuf"
    ):
        check_structure(nested(MAX_NESTING + 1))


def test_nesting_beyond_protobuf_is_reported() -> None:
    # Each level repeats the message of the inner ones, with its key and length.
    data = b""
    for number in (6, 5, 1) * 60:
        data = field(number, data)
    with pytest.raises(apass.errors.AdapterError, match="damaged, or nested deeper than 32 subgraphs"):
        ADAPTER.loads(field(7, data))


def field(number: int, data: bytes) -> bytes:
    """Return a field of a protobuf message, with data of up to 16 kB."""
    return bytes([number << 3 | 2, len(data) & 127 | 128, len(data) >> 7]) + data


@pytest.mark.filterwarnings("ignore:The onnxtxt format is experimental:UserWarning")
def test_deeply_nested_text_is_rejected_before_parsing(tmp_path: Path) -> None:
    opening = "x = If (c) <then_branch = b () => (float[4] x) { "
    path = tmp_path / "deep.onnxtxt"
    path.write_text(f"{HEADER} {{ {opening * 100_000} x = Relu(a) {'}>' * 100_000} }}")
    with pytest.raises(apass.errors.AdapterError, match=r"deep\.onnxtxt: the text has more than 128 nested brackets"):
        load_model(path)
    assert not is_text_too_deep(b'"' + b"(" * 1000 + b'\\" <" => ' + b"() <> {} => " * 1000)


def call_chain(length: int) -> Proto:
    """Return a model with functions that each call the next one."""
    bodies = [f"f{index} (p) => (q) {{ q = local.f{index + 1}(p) }}" for index in range(length - 1)]
    return proto_of(f"{HEADER} {{ x = local.f0(a) }}", *bodies, f"f{length - 1} (p) => (q) {{ q = Relu(p) }}")


def test_deeply_nested_calls_are_rejected() -> None:
    model = ADAPTER.loads(call_chain(MAX_CALLS).SerializeToString())
    assert op_types(run("onnx.Inline", model)) == ["Relu"]
    ADAPTER.verify(model)
    with pytest.raises(apass.errors.AdapterError, match="'local::f0' are nested 101 deep, but onnx allows 100"):
        ADAPTER.loads(call_chain(MAX_CALLS + 1).SerializeToString())


def test_real_models_have_a_valid_structure() -> None:
    for load in some(corpus()):
        check_structure(onnx.ModelProto.FromString(ADAPTER.dumps(load().model)))


LOCATIONS = ["../w", "sub/../../w", "/etc/hostname", "link", "", ".", "w\0"]


@pytest.mark.parametrize("location", LOCATIONS)
def test_external_data_outside_of_the_folder_is_rejected(tmp_path: Path, location: str) -> None:
    (tmp_path / "w").write_bytes(bytes(16))
    folder = tmp_path / "models"
    (folder / "sub").mkdir(parents=True)
    (folder / "link").symlink_to(tmp_path / "w")
    with pytest.raises(apass.errors.AdapterError, match=r"m\.onnx: tensor 'w' has its data in .*outside of the folder"):
        load_model(external(folder, location=location))


EXTENTS = {
    ("8", "8"): "needs 16 bytes, but refers to 8; correct its length",
    ("-16", "16"): "initializer 'w' has the offset '-16' of external data, expected a number of bytes",
    ("0", "x"): "initializer 'w' has the length 'x' of external data, expected a number of bytes",
    ("4", "16"): "ends at byte 20 of .*, which has 16 bytes; restore that file",
}


@pytest.mark.parametrize("extent", EXTENTS)
def test_invalid_extent_of_external_data_is_rejected(tmp_path: Path, extent: tuple[str, str]) -> None:
    (tmp_path / "data").write_bytes(bytes(16))
    offset, length = extent
    with pytest.raises(apass.errors.AdapterError, match=rf"m\.onnx: .*{EXTENTS[extent]}"):
        load_model(external(tmp_path, location="data", offset=offset, length=length))


def test_external_data_in_a_subfolder_is_loaded(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "data").write_bytes(bytes(16))
    path = external(tmp_path, location="sub/data")
    assert len(ADAPTER.dumps(load_model(path))) > 0
    with pytest.raises(
        apass.errors.AdapterError, match="these bytes: tensor 'w' has its data in a file; load the model with"
    ):
        ADAPTER.loads(path.read_bytes())


def external(folder: Path, **entries: str) -> Path:
    """Write a model with an initializer of four floats in another file."""
    proto = proto_of(f"{HEADER} {{ x = Add(a, w) }}")
    tensor = proto.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4])
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


def test_invalid_model_is_one_failed_row(tmp_path: Path) -> None:
    (tmp_path / "cyclic.onnx").write_bytes(proto_of(next(iter(GRAPHS))).SerializeToString())
    save_model(with_functions(), tmp_path / "good.onnx")
    result = command("opt", str(tmp_path))
    assert result.exit_code == 1
    assert "1 of 2 models written" in result.stdout
    assert "cyclic.onnx: node 0 (Add) of graph 'g' reads 'b'" in result.stdout
    assert (tmp_path / "good.opt.onnx").exists()


async def exercise(data: bytes, folder: Path) -> None:
    """Load and use a damaged model; only errors of apass may be raised."""
    path = folder / "m.onnx"
    path.write_bytes(data)
    with only_apass_errors(str(path)):
        model = load_model(path)
        ADAPTER.fingerprint(model)
        with only_apass_errors():
            assert ADAPTER.equal(ADAPTER.loads(ADAPTER.dumps(model)), model)
            ADAPTER.to_text(model)
            save_model(model, folder / "m.opt.onnx")
        for name in TABLE:
            # These two call C++ code of onnx.
            if name not in ("Checker", "ShapeInference"):
                with only_apass_errors():
                    ADAPTER.dumps(await apass.get_pass(f"onnx.{name}")(model))


@contextmanager
def only_apass_errors(part: str = "") -> Generator[None]:
    """Suppress errors of apass, whose messages must be short and contain `part`."""
    message = part
    try:
        yield
    except apass.ApassError as error:
        message = str(error)
    assert part in message
    assert len(message) < 1000


def fuzz(seeds: range, folder: Path) -> None:
    async def work() -> None:
        for seed in seeds:
            await exercise(mutated(Random(seed)), folder)

    anyio.run(work)


@settings(max_examples=amount(20))
@given(st.integers(0, 2**32))
def test_damaged_model_raises_only_apass_errors(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    fuzz(range(seed, seed + 1), tmp_path_factory.getbasetemp())


@pytest.mark.slow
def test_many_damaged_models_raise_only_apass_errors(tmp_path: Path) -> None:
    fuzz(range(amount(500)), tmp_path)
