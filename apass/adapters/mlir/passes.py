"""The passes of `mlir-opt`, registered as `mlir.NAME`."""

import inspect
import keyword
import re
from collections.abc import Awaitable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, Optional, cast

from apass.adapters.mlir.catalogue import Catalogue, OptionEntry, PassEntry, catalogue_of
from apass.adapters.mlir.module import MLIRModule
from apass.adapters.mlir.reproducers import RunReproducer
from apass.adapters.mlir.reviews import PASSES, reviews_of
from apass.adapters.mlir.running import NOTHING, Step, run_steps
from apass.adapters.program_pool import run_version
from apass.adapters.programs import MLIR_OPT, TIME_LIMIT
from apass.core.context import PassContext
from apass.core.outside import reviewed
from apass.core.pass_info import PassInfo
from apass.errors import AdapterError, PassDefinitionError
from apass.passes.base import ModulePass, Pass
from apass.passes.registry import provide_pass

__all__ = ["PREFIX", "MLIRPass"]

PREFIX: Final = "mlir."
"""The prefix of the names of the passes."""

_ANCHOR: Final = re.compile(r"[\w.$-]+(/[\w.$-]+)*")

_OWN: Final = ("anchor", "time_limit")
"""Options of every pass, which are not given to `mlir-opt`."""

_RESERVED: Final = frozenset({"passes", "extensions", *_OWN})
"""Names that an option of `mlir-opt` cannot have here; they get an underscore at the end."""

# Type checkers reject types that are made at run time.
_LITERAL: Final[Any] = Literal
_OPTIONAL: Final[Any] = Optional

_TYPES: Final[Mapping[str, Any]] = {"bool": bool, "int": int, "float": float, "str": str, "choice": str}


class MLIRPass(ModulePass[MLIRModule]):
    """A pass of `mlir-opt`, run in a process.

    - The input module is not changed. If the pass changes nothing, the result is the input module itself.
    - A cancellation, such as the end of a deadline, kills the process.
    - An error that the pass reports raises AdapterError.
    - A crash, and the end of the time limit, raise HelperError.
    - Consecutive passes of a Sequential run in one process if no instrument or store is in force.

    Parameters:
        program: the path of `mlir-opt`.
        steps: the passes in the pipeline of `mlir-opt`, at least one.
        info: level and name of the pass.
        version: the version of the program, which cached results depend on.
        time_limit: seconds that the process may take.
        hands_over: whether a result has its bytecode as well, for the next pass. The program needs the pass `NOTHING`.

    """

    cacheable: bool | Literal["module"] = True

    def __init__(
        self,
        program: Path | str,
        steps: Sequence[Step],
        info: PassInfo,
        version: str,
        time_limit: float = TIME_LIMIT,
        *,
        hands_over: bool = False,
    ) -> None:
        self.info = info
        self.version = version
        self.program = str(program)
        """The path of `mlir-opt`."""
        self.steps = tuple(steps)
        """The passes in the pipeline of `mlir-opt`."""
        self.time_limit = time_limit
        """Seconds that the process may take."""
        self.hands_over = hands_over
        """Whether a result has its bytecode as well."""

    merges: bool = True
    in_program: bool = True

    def merged_with(self, following: Sequence[Pass[MLIRModule]]) -> "MLIRPass | None":
        """Return a pass that runs all steps in one process.

        None if a pass has an executor or another program.
        """
        passes: list[MLIRPass] = [self]
        for pass_ in following:
            if not isinstance(pass_, MLIRPass):
                return None
            passes.append(pass_)
        if any(pass_.executor is not None or pass_.program != self.program for pass_ in passes):
            return None
        info = PassInfo(0, ", ".join(pass_.info.name for pass_ in passes))
        steps = [step for pass_ in passes for step in pass_.steps]
        return MLIRPass(self.program, steps, info, self.caching.version, sum(pass_.time_limit for pass_ in passes))

    def transform_module(self, mod: MLIRModule, ctx: PassContext) -> Awaitable[MLIRModule]:
        """Run `mlir-opt` on `mod`.

        Raises:
            AdapterError: if `mod` is not an `MLIRModule`, or the pass fails.
            HelperError: if `mlir-opt` crashes, or exceeds the time limit.

        """
        if not isinstance(mod, MLIRModule):
            kind = f"{type(mod).__module__}.{type(mod).__qualname__}"
            known = {"xdsl": "mlir.FromXDSL", "apass.adapters.llvm.module.Module": "mlir.FromLLVM"}
            converter = known.get(kind) or known.get(kind.partition(".")[0])
            hint = f"; convert it with {converter}" if converter else ""
            raise AdapterError(f"pass {self.info.name!r} takes an MLIRModule, got {kind}{hint}")
        program, name = Path(self.program), self.info.name
        return run_steps(program, self.steps, mod, ctx, self.time_limit, name, hands_over=self.hands_over)


def _register(program: Path, catalogue: Catalogue, entry: PassEntry) -> None:
    """Register a pass with its options."""
    name = f"{PREFIX}{entry.name}"
    options = {_identifier(option.name): option for option in entry.options}
    reviews = reviews_of(entry.name)
    hands_over = any(known.name == NOTHING.name for known in catalogue.passes)
    parameters = [
        *(reviewed(_parameter(key, option), reviews) for key, option in options.items()),
        inspect.Parameter("anchor", inspect.Parameter.KEYWORD_ONLY, default=entry.anchor, annotation=str),
        inspect.Parameter("time_limit", inspect.Parameter.KEYWORD_ONLY, default=TIME_LIMIT, annotation=float),
    ]

    def factory(*, anchor: str = entry.anchor, time_limit: float = TIME_LIMIT, **values: Any) -> MLIRPass:
        texts = [f"{options[key].name}={_value_text(name, key, value)}" for key, value in values.items()]
        step = Step(entry.name + (f"{{{' '.join(texts)}}}" if texts else ""), anchor)
        if not _ANCHOR.fullmatch(anchor):
            raise PassDefinitionError(
                f"option 'anchor' of pass {name!r} must be an operation, or several as in "
                f"'gpu.module/gpu.func'; got {anchor!r}"
            )
        version = run_version(catalogue.version)
        pass_ = MLIRPass(program, [step], PassInfo(0, name), version, time_limit, hands_over=hands_over)
        pass_.outside = PASSES.get(entry.name)
        return pass_

    lines = [entry.doc.rstrip(".") + "." if entry.doc else entry.name]
    lines += [f"It runs on `{entry.anchor}` unless `anchor` names another operation."]
    described = [f"- `{key}`: {option.doc}" for key, option in options.items() if option.doc]
    provide_pass(name, options=parameters, doc="\n\n".join([*lines, "\n".join(described)]).strip())(factory)


def _identifier(name: str) -> str:
    """Return the name of an option of `mlir-opt` as a name in Python."""
    key = name.replace("-", "_").replace(".", "_")
    return f"{key}_" if keyword.iskeyword(key) or key in _RESERVED else key


def _parameter(key: str, option: OptionEntry) -> inspect.Parameter:
    tp: Any = _TYPES[option.kind]
    if option.kind == "choice" and option.choices:
        tp = _LITERAL[option.choices]
    default: Any = _default(option)
    if option.is_list:
        tp, default = list.__class_getitem__(tp), []
    elif default is None:
        tp = _OPTIONAL[tp]
    return inspect.Parameter(key, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=tp)


def _default(option: OptionEntry) -> Any:
    """Return the default value, or None if it is unknown."""
    text = option.default
    if text is None:
        return None
    try:
        match option.kind:
            case "bool":
                return {"true": True, "false": False}[text]
            case "int":
                return int(text)
            case "float":
                return float(text)
            case "choice":
                return text if text in option.choices else None
            case _:
                return text
    except (KeyError, ValueError):
        return None


def _value_text(name: str, key: str, value: object) -> str:
    """Return a value in the syntax of `mlir-opt`."""
    if isinstance(value, list | tuple):
        return ",".join(_value_text(name, key, item) for item in cast("Sequence[object]", value))
    if isinstance(value, bool):
        return str(value).lower()
    text = str(value)
    # `mlir-opt` counts braces, also those in quotes, to find the end of the options.
    if not _has_balanced_braces(text):
        raise PassDefinitionError(f"option {key!r} of pass {name!r} has a brace without its other one: {text!r}")
    if all(char.isalnum() or char in "_.-+:/@" for char in text):
        return text
    for opening, closing in (('"', '"'), ("'", "'")):
        if opening not in text:
            return f"{opening}{text}{closing}"
    raise PassDefinitionError(f"option {key!r} of pass {name!r} contains both kinds of quotes: {text!r}")


def _has_balanced_braces(text: str) -> bool:
    """Return whether each closing brace follows its opening one, and each is closed."""
    depth = 0
    for char in text:
        depth += (char == "{") - (char == "}")
        if depth < 0:
            return False
    return depth == 0


def _register_all() -> None:
    program = MLIR_OPT.find()
    catalogue = catalogue_of(program)
    for entry in catalogue.passes:
        _register(program, catalogue, entry)
    provide_pass(f"{PREFIX}Reproducer")(RunReproducer)


_register_all()
