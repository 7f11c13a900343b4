"""Text cases of each Relay pass, below `tests/relay/cases/<name of the pass>/`.

`<case>.relay` is the program before the pass, `<case>.expected.relay` the program after it. Lines at the top of the
first file may set the following:

- `// with: InferType`: the pass runs on the typed program. Both programs are typed if possible before comparing.
- `// options: key=value, ...`: the options of the pass, with Python values.
- `// level: 3`: the level of the context.
"""

import ast
import re
from pathlib import Path

from apass.relay.dataflow_pattern import is_op, wildcard
from apass.relay.op.contrib.register import PatternEntry, register_pattern_table
from tests.helpers.repository import ROOT


@register_pattern_table("tests.cases")
def patterns() -> list[PatternEntry]:
    """Return the patterns of the table `tests.cases`, which cases can name."""
    return [("tests.dense_relu", is_op("nn.relu")(is_op("nn.dense")(wildcard(), wildcard())))]


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
