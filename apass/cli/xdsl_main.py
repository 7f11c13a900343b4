"""`xdsl-opt` whose passes run as those of apass."""

import argparse
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import anyio
import typer
from xdsl.dialects.builtin import ModuleOp
from xdsl.xdsl_opt_main import xDSLOptMain

from apass.adapters.xdsl.extensions import registered_passes
from apass.adapters.xdsl.passes import wrap
from apass.adapters.xdsl.text import CONTEXT, DIALECTS, VERIFY
from apass.cli.command import Command
from apass.cli.inputs import Job
from apass.cli.instruments import OBSERVER_OPTIONS, ObserverOptions, RunObserver, RunPlan
from apass.cli.optimize import JobResult
from apass.cli.options import with_options
from apass.cli.planning import Plan
from apass.cli.settings import ContextOptions, SelectionOptions, make_context
from apass.core.instrument import PassInstrument
from apass.core.pass_info import PassInfo
from apass.core.run import enter_module
from apass.errors import ApassError
from apass.passes.base import Pass
from apass.passes.sequential import Sequential
from apass.sync import run

__all__ = ["listed_options", "run_xdsl"]


class _Callback(PassInstrument):
    """Calls what `xdsl-opt` does after each pass: it prints the module, or the time."""

    def __init__(self, main: "_Main") -> None:
        self._main = main
        self._done = 0

    def run_after_pass(self, mod: ModuleOp, info: PassInfo) -> None:
        """Call the callback of xDSL, unless the pass is the pipeline."""
        passes, callback = self._main.pipeline.passes, self._main.pipeline.callback
        if callback is not None and self._done < len(passes) and info.name == f"xdsl.{passes[self._done].name}":
            self._done += 1
            callback(passes[self._done - 1], mod, passes[self._done] if self._done < len(passes) else None)


class _Main(xDSLOptMain):
    """`xdsl-opt` that lets apass run the passes.

    Parameters:
        args: the command line.
        options: the options of apass that select passes.

    """

    def __init__(self, args: Sequence[str], options: SelectionOptions) -> None:
        super().__init__(args=args)
        self._options = options
        self.instruments: Sequence[object] = ()
        """What observes the passes."""
        self._result: ModuleOp | None = None

    def register_all_dialects(self) -> None:
        """Register the dialects of xDSL, and those of users."""
        # xDSL declares no types for these methods.
        cast("Any", super()).register_all_dialects()
        for name, dialect in DIALECTS.items():
            # A dialect of xDSL is registered already.
            if name not in self.ctx.registered_dialect_names:
                self.ctx.register_dialect(name, dialect)

    def register_all_passes(self) -> None:
        """Register the passes of xDSL, and those of users."""
        cast("Any", super()).register_all_passes()
        for name, library_pass in registered_passes().items():
            self.register_pass(name, partial(_itself, library_pass))

    def apply_passes(self, prog: ModuleOp) -> None:
        """Run the passes by apass. The result is printed in place of `prog`.

        An error of a pass is raised as xDSL raises it.
        """
        passes, callback = self.pipeline.passes, self.pipeline.callback
        if callback is not None:
            # It verifies the module before the first pass.
            callback(None, prog, passes[0] if passes else None)
        looks = self.args.time_passes or self.args.print_between_passes
        pipeline: Pass[ModuleOp] = Sequential([wrap(pass_) for pass_ in passes])
        context = make_context(self._options, [pipeline], [*self.instruments, *([_Callback(self)] if looks else [])])
        self._result = prog
        try:
            with CONTEXT.set_to(self.ctx), VERIFY.set_to(not self.args.disable_verify):
                self._result = run(pipeline, prog, context=context)
        except ApassError as error:
            if error.__cause__ is None:
                raise
            raise error.__cause__ from None

    def output_resulting_program(self, prog: ModuleOp) -> str:
        """Return the text of the result for the target."""
        return super().output_resulting_program(prog if self._result is None else self._result)


def _itself(library_pass: Any) -> Any:
    return library_pass


def listed_options() -> str:
    """Return the help of `xdsl-opt`."""
    parser = argparse.ArgumentParser()
    main = xDSLOptMain.__new__(xDSLOptMain)
    main.available_frontends, main.available_passes, main.available_targets = {}, {}, {}
    xDSLOptMain.register_all_arguments(main, parser)
    return parser.format_help()


def run_xdsl(native: Sequence[str], own: Sequence[str]) -> int:
    """Run a command line of `xdsl-opt`, and return its exit status.

    Parameters:
        native: the arguments of `xdsl-opt`.
        own: the options of `apass opt`.

    """
    options, groups = _parsed(own)
    # As xdsl-opt does.
    warnings.filterwarnings("default", category=DeprecationWarning)
    try:
        main = _Main(native, options)
        path = Path(main.args.input_file or "stdin")
        job = Job(path.name, path, path)
        plan = RunPlan(plan=Plan([job], {}, {}), context=ContextOptions(), backend="asyncio")
        observers = [observer for group in groups if (observer := group.create_observer(plan)) is not None]
        main.instruments = [one for observer in observers for one in observer.instruments()]
        enter_module(job.name)
        with _observed(observers, job):
            cast("Any", main).run()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except ApassError:
        raise
    except Exception:  # xdsl-opt ends so as well, and tests look for the type of the error
        traceback.print_exc()
        return 1
    return 0


@contextmanager
def _observed(observers: Sequence[RunObserver], job: Job) -> Generator[None]:
    """Let observers begin and finish around the block, and print to standard error."""
    start = perf_counter()
    with ExitStack() as closing:
        for observer in reversed(observers):
            closing.callback(observer.finish, partial(print, file=sys.stderr))
        for observer in observers:
            observer.begin()
            observer.phase(job, "optimizing")
        yield
        for observer in observers:
            observer.result(JobResult(job, None, None, perf_counter() - start))
            observer.phase(job, "done")
            anyio.run(observer.follow_up)


def _parsed(arguments: Sequence[str]) -> tuple[SelectionOptions, Sequence[ObserverOptions]]:
    """Return the options of apass."""
    found: list[Any] = []

    @with_options(SelectionOptions, *OBSERVER_OPTIONS)
    def keep(*, options: tuple[Any, ...]) -> None:
        found.extend(options)

    app = typer.Typer(add_completion=False)
    app.command(cls=Command)(keep)
    main: Callable[..., Any] = typer.main.get_command(app).main
    main(args=list(arguments), prog_name="apass xdsl-opt", standalone_mode=False)
    return found[0], found[1:]
