"""Text cases of each Relay pass, below `tests/relay/cases/<name of the pass>/`.

`<case>.relay` is the program before the pass, `<case>.expected.relay` the program after it. Lines at the top of the
first file may set the following:

- `// with: InferType`: the pass runs on the typed program. Both programs are typed if possible before comparing.
- `// options: key=value, ...`: the options of the pass, with Python values.
- `// level: 3`: the level of the context.

Cases run inside `case_hooks()`, so that passes that only call hooks of operators have an effect.
The compiler `cases` supports the operators `add` and `nn.relu`.
"""

import ast
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from apass.relay.dataflow_pattern import is_op, wildcard
from apass.relay.expr import Call, Expr
from apass.relay.ir.attrs import Attrs
from apass.relay.op import get, nn, register_op_attr
from apass.relay.op.contrib.register import PatternEntry, register_pattern_table
from apass.relay.testing.temp_op_attr import TempOpAttr
from apass.relay.ty import TensorType, Type
from tests.helpers.repository import ROOT


@register_pattern_table("tests.cases")
def patterns() -> list[PatternEntry]:
    """Return the patterns of the table `tests.cases`, which cases can name."""
    return [("tests.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())))]


def _in_blocks(attrs: Attrs, inputs: Sequence[Expr], tinfos: Sequence[TensorType], out_type: Type) -> Call | None:
    """Return a convolution of blocks of two channels."""
    if attrs["data_layout"] != "NCHW" or any(size % 2 for size in tinfos[1].concrete_shape[:2]):
        return None
    layouts = {"data_layout": "NCHW2c", "kernel_layout": "OIHW2i2o"}
    return Call(get("nn.contrib_conv2d_NCHWc"), inputs, attrs.replaced(**layouts))


def _leaky(attrs: Attrs, inputs: Sequence[Expr], types: Sequence[Type]) -> Call:
    """Return relu as a leaky_relu without a slope."""
    return nn.leaky_relu(inputs[0], 0.0)


@contextmanager
def case_hooks() -> Generator[None]:
    """Register the hooks of AlterOpLayout and Legalize that the cases use."""
    with TempOpAttr("nn.conv2d", "FTVMAlterOpLayout", _in_blocks), TempOpAttr("nn.relu", "FTVMLegalize", _leaky):
        yield


@register_op_attr("add", "target.cases")
@register_op_attr("nn.relu", "target.cases")
def is_supported(call: Expr) -> bool:
    """Let the compiler `cases` support an operator."""
    return True


CASES = ROOT / "tests" / "relay" / "cases"
EXPECTED = ".expected.relay"
SETTING = re.compile(r"^// (with|options|level): *(.*)$", re.MULTILINE)


def cases_below(root: Path) -> list[Path]:
    """Return the programs before the passes."""
    return sorted(path for path in root.glob("*/*.relay") if not path.name.endswith(EXPECTED))


def settings_of(text: str) -> dict[str, str]:
    """Return the settings at the top of a case."""
    head = text[: text.index("def ")] if "def " in text else text
    return dict(SETTING.findall(head))


def options_of(text: str) -> dict[str, object]:
    """Return options that are written like the arguments of a Python call."""
    call = ast.parse(f"options({text})", mode="eval").body
    assert isinstance(call, ast.Call)
    return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
