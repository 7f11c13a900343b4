"""`reduce`: shrinks the module and the pipeline of a failure to a small example."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

from apass.concurrency.backend import backend_name
from apass.core.adapter import adapter_for, facts_of, type_name
from apass.core.context import PassContext
from apass.core.ir_plugin import data_suffix
from apass.core.run import current_module_name
from apass.debugging.reduction import Kept, Reduced, Search, Size, fields_of_pass, text_or_none
from apass.debugging.replay import (
    ResultCheck,
    check_context,
    read_answers,
    read_module,
    read_pass,
)
from apass.errors import ReproducerError
from apass.external.answers.format import ANSWERS_FILE
from apass.external.answers.replayer import AnswerReplayer
from apass.instruments.reproducer.capture import context_fields
from apass.instruments.reproducer.folder import (
    Reproducer,
    read_reproducer,
)
from apass.instruments.support.paths import file_name
from apass.passes.base import Pass
from apass.pipelines.parser import as_pass, check_allow

__all__ = ["reduce", "reduce_module"]


async def reduce(
    folder: Path | str,
    pass_: Pass[Any] | str | None = None,
    *,
    check: ResultCheck | None = None,
    keep: Kept | None = None,
    message: str | None = None,
    timeout: float | None = None,
    isolate: bool = False,
    jobs: int = 1,
    tried: Path | str | None = None,
    output: Path | str | None = None,
    report: Callable[[str], object] | None = None,
    on_try: Callable[[int, Size], object] | None = None,
    unknown_answers: Literal["error", "ask"] = "error",
    allow: Iterable[str] = (),
) -> Reduced:
    """Shrink the module and the pipeline of a reproducer while it fails the same way.

    The result is written as another reproducer. The adapter defines what can be removed from a module: an IRAdapter may
    have a method `shrinkings(mod)`, which yields the possible shrinkings.

    - A pipeline loses passes and options. Passes that contain others are replaced by these. If the failure only needs
      the result of the first passes, that becomes the module.
    - A dict loses entries, including those within its functions.
    - Relay loses functions. Expressions are replaced by their parts or by constants of their type. Lets and parameters
      are removed.
    - ONNX loses nodes, outputs, initializers, inputs and functions, and nodes within functions and subgraphs.

    Parameters:
        folder: the folder written by `ReproducerInstrument`.
        pass_: the pass to run, or the text of a pipeline, in place of the recorded one.
        check: takes the module before and after the passes, and returns whether the result is good; `def` or `async
            def`. An exception means that it is not. The failure to keep is then that of the check. It must accept the
            module before the passes as their result.
        keep: what is left as it is, `module` or `pipeline`. A pipeline without a text is left as it is, too.
        message: a regular expression that the failure's message must match. By default the first line must be the
            same, except for names and numbers. The type must always be the same.
        timeout: seconds after which the smallest reproducer so far is the result.
        isolate: whether the passes run in worker processes, for a pass that may crash or never end. An attempt that
            takes a minute longer than ten times the first one ends, and does not count. Without `isolate`, a pass that
            blocks the event loop cannot be ended.
        jobs: number of attempts that run at once. It makes sense with `isolate`, or a check that starts a process. The
            result is the same.
        tried: a file for the outcomes of attempts. The next search for the same reproducer, pipeline, check and message
            goes on from it. It is removed at the end, except after a timeout.
        output: the output folder. The default is `reduced` in the folder, or `reduced~2` if that exists.
        report: called with a line for each step that made the reproducer smaller.
        on_try: called after each attempt with the number of attempts and the size of the smallest reproducer.
        unknown_answers: what a question without a recorded answer does: raise an error, so that the smaller module does
            not count, or ask.
        allow: what of the folder may reach outside of the module, as `replay` takes it.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        ReproducerError: if the folder has no reproducer, it does not fail that way any more, the check rejects the
            original module, or the adapter has no `shrinkings`.
        OSError: if a file cannot be written.

    """
    path = Path(folder)
    target = _named(path / "reduced" if output is None else Path(output))
    reproducer = read_reproducer(path)
    allowed = check_allow(allow)
    check_context(path, reproducer, allowed)
    search = Search(
        reproducer,
        read_module(path, reproducer),
        read_pass(path, reproducer, allowed) if pass_ is None else as_pass("reduce(folder, pass_)", pass_),
        read_answers(path, reproducer, unknown_answers),
        check=check,
        failure=None if check is not None else reproducer.failure,
        keep=keep,
        message=message,
        isolate=isolate,
        jobs=jobs,
        tried=None if tried is None else Path(tried),
        report=report or _ignore,
        on_try=on_try or _ignore,
    )
    return await search.run(target, timeout)


async def reduce_module(
    mod: Any,
    pass_: Pass[Any] | str,
    output: Path | str,
    *,
    check: ResultCheck | None = None,
    keep: Kept | None = None,
    message: str | None = None,
    timeout: float | None = None,
    isolate: bool = False,
    jobs: int = 1,
    tried: Path | str | None = None,
    report: Callable[[str], object] | None = None,
    on_try: Callable[[int, Size], object] | None = None,
) -> Reduced:
    """Shrink a module and a pipeline that fail, or whose result a check rejects.

    The passes run with the settings of the current context. The result is written as a reproducer. For the other
    parameters see `reduce`.

    Parameters:
        mod: the module.
        pass_: the pass, or the text of a pipeline.
        output: the output folder; it gets another number if it exists.

    Raises:
        TypeError: if `pass_` is neither a pass nor a text.
        ReproducerError: if nothing fails, the check rejects the original module, or the adapter has no `shrinkings`.
        OSError: if a file cannot be written.

    >>> import anyio, apass, tempfile
    >>> @apass.module_pass(opt_level=0)
    ... def LoseG(mod, ctx):
    ...     return {name: 0 if name == "g" else value for name, value in mod.items()}
    >>> async def main(folder):
    ...     check = lambda before, after: before == after
    ...     found = await apass.reduce_module({"f": 1, "g": 2, "h": 3}, LoseG, folder + "/small", check=check)
    ...     print("before:", found.before)
    ...     print("after: ", found.after)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     anyio.run(main, folder)
    before: 3 functions, 3 lines, 24 bytes
    after:  1 function, 1 line, 8 bytes

    """
    target = _named(Path(output))
    ctx = PassContext.current()
    answers = ctx.run_settings.answers
    runner = as_pass("reduce_module(mod, pass_)", pass_)
    search = Search(
        _state(mod, runner, ctx),
        mod,
        runner,
        answers if isinstance(answers, AnswerReplayer) else None,
        check=check,
        failure=None,
        keep=keep,
        message=message,
        isolate=isolate,
        jobs=jobs,
        tried=None if tried is None else Path(tried),
        report=report or _ignore,
        on_try=on_try or _ignore,
    )
    return await search.run(target, timeout)


def _named(output: Path) -> Path:
    """Return the path of an output folder, which must end with a name."""
    # The name gets a number if the folder exists.
    if output.name in ("", ".."):
        raise ReproducerError(f"output must be the path of a new folder, got {str(output)!r}; add a name")
    return output


def _state(mod: Any, pass_: Pass[Any], ctx: PassContext) -> Reproducer:
    """Return the reproducer of a pass that has not failed yet."""
    return Reproducer(
        **fields_of_pass(pass_),
        pipeline=text_or_none(pass_),
        rest=None,
        module=current_module_name(),
        function=None,
        failure=None,
        **context_fields(ctx, backend_name()),
        module_type=type_name(mod),
        module_file=file_name(f"module{data_suffix(mod)}"),
        answers_file=None if ctx.run_settings.answers is None else ANSWERS_FILE,
        facts=facts_of(adapter_for(mod), mod),
        trouble=None,
    )


def _ignore(*_arguments: object) -> None:
    """Do nothing."""
