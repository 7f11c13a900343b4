"""Options that are mappings, in the text of a pipeline: `{key=value,...}`, and where mistakes in them are shown."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import apass
from apass.pipelines.parser import parse_pipeline
from tests.cli.models import apass as invoke


def weigh(weights: dict[str, int], extra: Mapping[int, list[float]] | None = None) -> apass.Pass[Any]:
    if "none" in weights:
        error = apass.PassDefinitionError("a weight of nothing")
        error.option = "weights"
        raise error
    if extra == {}:
        raise apass.PassDefinitionError("nothing extra")
    return apass.module_pass(lambda mod, ctx: mod, opt_level=0, name="Weigh")


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    apass.register_pass("Weigh", weigh)
    yield
    apass.unregister_pass("Weigh")


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("Weigh{weights={}}", "Weigh{weights={}}"),
        ("Weigh{weights={a=1,\n b = 2 , # c\n}}", "Weigh{weights={a=1,b=2}}"),
        ('Weigh{weights={"a b"=1,"c"=2,3=4}}', 'Weigh{weights={"a b"=1,c=2,"3"=4}}'),
        ("Weigh{weights={a=1},extra={1=[2,3.5],-4=[]}}", "Weigh{weights={a=1},extra={1=[2.0,3.5],-4=[]}}"),
        ("Weigh{weights={a=1},extra=none}", "Weigh{weights={a=1},extra=none}"),
        (
            "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default],nn.max_pool2d=[NHWC]}}",
            "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default],nn.max_pool2d=[NHWC]}}",
        ),
    ],
)
def test_a_mapping_is_read_and_written(text: str, written: str) -> None:
    pipeline = parse_pipeline(text)
    assert str(pipeline) == written
    assert parse_pipeline(written) == pipeline


def test_a_pipeline_made_in_python_has_the_same_text() -> None:
    made = apass.Sequential([apass.get_pass("ConvertLayout", desired_layouts={"nn.conv2d": ["NCHW4c", "default"]})])
    assert str(made) == "ConvertLayout{desired_layouts={nn.conv2d=[NCHW4c,default]}}"
    assert parse_pipeline(str(made)) == made


@pytest.mark.parametrize(
    ("text", "message", "rest"),
    [
        ("Weigh{weights={a=1,a=2}}", "key 'a' is given twice", "a=2}}"),
        ('Weigh{weights={a=1,"a"=2}}', "wanted each key once, got 'a' twice", '{a=1,"a"=2}}'),
        ("Weigh{weights={a:1}}", "expected '=' after the key 'a:1', not '}'", "}}"),
        ("Weigh{weights={[a]=1}}", "expected a key, not '['", "[a]=1}}"),
        ("Weigh{weights={a=}}", "expected a value, not '}'", "}}"),
        ("Weigh{weights={a=1 b=2}}", "expected ',' or '}' to close the '{' at character 14, not 'b'", "b=2}}"),
        ("Weigh{weights={a=1", "to close the '{' at character 14, not the end of the text", ""),
        ("Weigh{weights={a=x}}", "wanted int, got 'x' (str)", "a=x}}"),
        ("Weigh{weights={a=1,b=2,c=x,d=y}}", "wanted int, got 'x' (str)", "c=x,d=y}}"),
        ("Weigh{weights={a=1},extra={1=[2],2=[x]}}", "got {'1': ['2'], '2': ['x']} (dict)", "2=[x]}}"),
        ("Weigh{weights=[a]}", "wanted dict[str, int], got ['a'] (list)", "[a]}"),
        ("Weigh{weights=3}", "wanted dict[str, int], got 3 (int)", "3}"),
        ("Weigh{weights={a=1},extra={a=[]}}", "got {'a': []} (dict)", "a=[]}}"),
        ("Weigh{weights={none=1}}", "a weight of nothing", "{none=1}}"),
        ("FoldConstant,Weigh{weights={a=1},extra={}}", "nothing extra", "Weigh{weights={a=1},extra={}}"),
        (
            "InferType,ConvertLayout{desired_layouts={nn.konv2d=[NHWC]}}",
            "there is no operator named 'nn.konv2d'; did you mean 'nn.conv2d'?",
            "{nn.konv2d=[NHWC]}}",
        ),
        ("ConvertLayout{desired_layouts={nn.conv2d=NHWC}}", "wanted list[str], got 'NHWC' (str)", "nn.conv2d=NHWC}}"),
    ],
)
def test_a_mistake_is_shown_where_it_is(text: str, message: str, rest: str) -> None:
    with pytest.raises(apass.PipelineSyntaxError) as caught:
        parse_pipeline(text)
    assert message in str(caught.value)
    assert text[caught.value.position :] == rest


MODEL = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 2, 4, 4), float32], %w: Tensor[(2, 2, 1, 1), float32]) {
  nn.conv2d(%x, %w, padding=[0, 0, 0, 0], channels=2, kernel_size=[1, 1])
}
"""


def test_the_command_line_takes_it(tmp_path: Path) -> None:
    model, out = tmp_path / "model.relay", tmp_path / "out.relay"
    model.write_text(MODEL)
    pipeline = "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default]}}"
    done = invoke("opt", model, "-p", pipeline, "-O", "3", "-o", out, "--verify-outputs")
    assert (done.exit_code, done.stderr) == (0, "")
    assert 'data_layout="NHWC"' in (out / model.name).read_text()
