"""`JobPipelines`: the pipelines that jobs may name, and the texts that they allow."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from anyio.to_thread import run_sync

from apass.batch.formats import ModelFormat, format_of
from apass.core.ir_plugin import plugin_for_suffix, plugin_for_type
from apass.core.pass_factories import known_names
from apass.errors import ApassError, PassNotAllowedError, UnknownPassError, did_you_mean
from apass.passes.base import Pass
from apass.passes.registry import get_required
from apass.passes.repeat import Repeat
from apass.passes.sequential import Sequential
from apass.pipelines.parser import check_allow, parse_pipeline
from apass.runner.cache_keys import own_version
from apass.service.errors import InvalidJobError
from apass.service.jobs import JobOptions
from apass.util.checks import check_type
from apass.util.fingerprint import fingerprint_value
from apass.util.imported_names import find_imported
from apass.util.typed_values import BARE_WORD

__all__ = ["JobPipelines", "KnownPipeline"]

KEPT_TEXTS: Final = 1_000
"""How many texts of pipelines are kept parsed."""

_PROCESS: Final = uuid4().hex
"""A part of the keys of results that another process must not reuse."""


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    """A pipeline that is ready to run."""

    pass_: Pass[Any] | None
    """The pipeline; None for the default pipeline of the model's IR, which is known to workers only."""
    fingerprint: str
    """What the results depend on, like in the keys of cacheable passes; empty for the default pipeline."""
    names: frozenset[str] | None = None
    """The names by which options select its passes; None if they are not known."""


class JobPipelines:
    """The pipelines of an optimizer.

    Passes are imported in a thread, because that takes long.

    Parameters:
        named: the pipelines by name, as passes or texts. An empty text is the default pipeline of the model's IR.
        allow: the passes that texts in jobs may name.
        longest: the maximum number of characters of a text in a job; None for no limit.

    Raises:
        TypeError: if a value has the wrong type.
        ValueError: if a name is empty, cannot be printed, or is a pattern of options.

    """

    def __init__(
        self, named: Mapping[str, Pass[Any] | str], allow: Iterable[str] = (), longest: int | None = None
    ) -> None:
        if not isinstance(named, Mapping):
            raise TypeError(f"pipelines must be a mapping of names to passes or texts, got {named!r}")
        for name, pipeline in named.items():
            check_type("name of a pipeline", name, str)
            if not name or not name.isprintable():
                raise ValueError(f"the name of a pipeline must be a text of printable characters, got {name!r}")
            check_type(f"pipeline {name!r}", pipeline, Pass | str)
        self.named: Final = dict(named)
        """The pipelines by name."""
        self.allow: Final = check_allow(allow)
        """The passes that texts in jobs may name."""
        self._longest = longest
        self._known: dict[str, KnownPipeline] = {}
        self._texts: OrderedDict[str, KnownPipeline] = OrderedDict()
        self._converting: dict[tuple[str, str, str], KnownPipeline] = {}
        """Pipelines with the conversions between two kinds of models, and default pipelines."""

    async def load(self) -> None:
        """Import the passes of the named pipelines, so that no job has to.

        Raises:
            PipelineSyntaxError: if the text of a pipeline is invalid.

        """
        for name, pipeline in self.named.items():
            self._known[name] = await run_sync(_known, pipeline)

    def loaded(self) -> dict[str, Pass[Any] | None]:
        """Return the named pipelines, after `load`."""
        return {name: known.pass_ for name, known in self._known.items()}

    async def find(self, text: str) -> KnownPipeline:
        """Return the pipeline that a job names.

        Raises:
            InvalidJobError: if it is unknown, contains a pass that is not allowed, or is no valid text.

        """
        if not isinstance(text, str):
            raise InvalidJobError(
                f"pipeline must be the name or the text of a pipeline, got {text!r}; "
                f"give a pass to Optimizer(pipelines=...), and its name to jobs"
            )
        known = self._known.get(text) or self._texts.get(text)
        if known is not None:
            return known
        if not self.allow:
            near = did_you_mean(text, self.named, listing="pipelines are ")
            raise InvalidJobError(f"there is no pipeline {text!r}{near}")
        if self._longest is not None and len(text) > self._longest:
            raise InvalidJobError(f"the text of the pipeline has {len(text)} characters; the limit is {self._longest}")
        try:
            parsed = await run_sync(partial(parse_pipeline, text, allow=self.allow))
            known = await run_sync(_known, parsed)
        except (UnknownPassError, PassNotAllowedError) as error:
            raise InvalidJobError(self._unknown(text) if BARE_WORD.fullmatch(text) else str(error)) from error
        except (ApassError, ValueError, TypeError) as error:
            raise InvalidJobError(str(error)) from error
        self._texts[text] = known
        if len(self._texts) > KEPT_TEXTS:
            self._texts.popitem(last=False)
        return known

    def _unknown(self, text: str) -> str:
        """Return the message about a word that is neither a pipeline nor an allowed pass."""
        allowed = [name for name in known_names() if any(fnmatchcase(name, pattern) for pattern in self.allow)]
        hint = did_you_mean(text, [*self.named, *allowed]) or (
            did_you_mean("", self.named, listing="pipelines are: ")
            + did_you_mean("", self.allow, listing="allowed passes are: ")
        )
        return f"there is no pipeline {text!r}, and no allowed pass of this name{hint}"

    async def check_options(self, text: str, kind: str, result_kind: str, options: JobOptions) -> None:
        """Check the names of passes in the options of a job.

        They may be those of passes of the pipeline, and of other passes that this process has imported.

        Raises:
            InvalidJobError: if a name is unknown; see `find` too.

        """
        if not (options.required_pass or options.disabled_pass):
            return
        known = await self._complete(text, kind, result_kind)
        if known.names is None:
            return
        names = {"required_pass": options.required_pass, "disabled_pass": options.disabled_pass}
        for parameter, values in names.items():
            unknown = sorted(set(values).difference(known.names, known_names()))
            if unknown:
                near = did_you_mean(unknown[0], known.names, listing="its passes are: ")
                raise InvalidJobError(f"{parameter} names {unknown[0]!r}, but the pipeline has no such pass{near}")

    async def key(self, text: str, kind: str, result_kind: str) -> str:
        """Return what results depend on, besides the model and the options.

        Two jobs with the same key have the same result. The keys of two processes are equal only if all passes are
        cacheable: a cacheable pass promises that its `version` changes with everything that its key does not contain,
        such as functions that it calls and global variables. The code of other passes may differ after a restart.

        Raises:
            InvalidJobError: see `find`.

        """
        known = await self._complete(text, kind, result_kind)
        return f"apass {own_version()}: {known.fingerprint} {kind} {result_kind}"

    async def _complete(self, text: str, kind: str, result_kind: str) -> KnownPipeline:
        """Return the pipeline of a job, or the default one, with its conversions."""
        known = await self.find(text)
        if known.pass_ is not None and kind == result_kind:
            return known
        question = text, kind, result_kind
        complete = self._converting.get(question)
        if complete is None:
            if len(self._converting) >= KEPT_TEXTS:
                self._converting.clear()
            complete = self._converting[question] = await run_sync(_converting, known.pass_, kind, result_kind)
        return complete


def _converting(pipeline: Pass[Any] | None, kind: str, result_kind: str) -> KnownPipeline:
    """Return a pipeline, or the default one, with its conversions.

    The library of the IR is imported for it: the versions of passes contain that of the library.
    """
    try:
        if kind.startswith("."):
            model_format = format_of(Path(f"model{kind}"), result_kind, pipeline)
        else:
            found = find_imported(kind)
            model_format = ModelFormat(plugin_for_type(found) if isinstance(found, type) else plugin_for_suffix(kind))
        chosen = parse_pipeline(model_format.default_pipeline) if pipeline is None else pipeline
        return _known(model_format.with_conversions(chosen))
    except (ApassError, ImportError, LookupError):  # perhaps only the workers have the library
        return KnownPipeline(None, f"pipeline of this process, {_PROCESS}")


def _known(pipeline: Pass[Any] | str) -> KnownPipeline:
    """Return a pipeline with its fingerprint."""
    if not pipeline:
        return KnownPipeline(None, "")
    parsed = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    passes = list(_all_passes(parsed, set()))
    # These two are results of the passes in them.
    is_cacheable = all(pass_.caching.cacheable or isinstance(pass_, Sequential | Repeat) for pass_ in passes)
    # An object without a fingerprint has another one in each process.
    contents = [
        (pass_, pass_.info, getattr(pass_, "on_error", None), getattr(pass_, "timeout", None)) for pass_ in passes
    ]
    names = frozenset(name for pass_ in passes for name in pass_.all_names)
    return KnownPipeline(parsed, fingerprint_value(contents) + ("" if is_cacheable else f" {_PROCESS}"), names)


def _all_passes(pass_: Pass[Any], seen: set[str]) -> Iterator[Pass[Any]]:
    """Iterate over a pass, those inside it, and those that they require."""
    yield pass_
    inner = [item for branch in pass_.branches() for item in branch]
    for name in pass_.info.required:
        if name not in seen:
            seen.add(name)
            with suppress(ApassError):  # jobs that run the pass fail with it
                inner.append(get_required(name, pass_.info.name))
    for item in inner:
        yield from _all_passes(item, seen)
