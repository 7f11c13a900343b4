"""`JobPipelines`: the pipelines that jobs may name, and the texts that they allow."""

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final
from uuid import uuid4

from anyio.to_thread import run_sync

from apass.core.ir_plugin import IRPlugin, plugin_for_suffix, plugin_for_type
from apass.errors import ApassError, did_you_mean
from apass.passes.base import Pass
from apass.passes.registry import get_required
from apass.passes.repeat import Repeat
from apass.passes.sequential import Sequential
from apass.pipelines.parser import parse_pipeline
from apass.runner.result_cache import own_version
from apass.service.errors import InvalidJobError
from apass.util.checks import check_type
from apass.util.fingerprint import fingerprint_value
from apass.util.imported_names import find_imported

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


class JobPipelines:
    """The pipelines of an optimizer.

    Passes are imported in a thread, because that takes long.

    Parameters:
        named: the pipelines by name, as passes or texts. An empty text is the default pipeline of the model's IR.
        allow: the passes that texts in jobs may name.
        longest: the maximum number of characters of a text in a job; None for no limit.

    Raises:
        TypeError: if a value has the wrong type.

    """

    def __init__(
        self, named: Mapping[str, Pass[Any] | str], allow: Iterable[str] = (), longest: int | None = None
    ) -> None:
        if isinstance(allow, str):
            raise TypeError(f"allow must be a list of names, got {allow!r}; write [{allow!r}]")
        for name, pipeline in named.items():
            check_type(f"pipeline {name!r}", pipeline, Pass | str)
        self.named: Final = dict(named)
        """The pipelines by name."""
        self.allow: Final = tuple(allow)
        """The passes that texts in jobs may name."""
        self._longest = longest
        self._known: dict[str, KnownPipeline] = {}
        self._texts: OrderedDict[str, KnownPipeline] = OrderedDict()
        self._defaults: dict[str, str] = {}
        """What the default pipeline of each kind of model depends on."""

    async def load(self) -> None:
        """Import the passes of the named pipelines, so that no job has to.

        Raises:
            PipelineSyntaxError: if the text of a pipeline is invalid.

        """
        for name, pipeline in self.named.items():
            self._known[name] = await run_sync(_known, pipeline)

    async def find(self, text: str) -> KnownPipeline:
        """Return the pipeline that a job names.

        Raises:
            InvalidJobError: if it is unknown, contains a pass that is not allowed, or is no valid text.

        """
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
        except (ApassError, ValueError, TypeError) as error:
            raise InvalidJobError(str(error)) from error
        self._texts[text] = known
        if len(self._texts) > KEPT_TEXTS:
            self._texts.popitem(last=False)
        return known

    async def key(self, text: str, kind: str, result_kind: str) -> str:
        """Return what results depend on, besides the model and the options.

        Two jobs with the same key have the same result. The keys of two processes are equal only if all passes are
        cacheable: a cacheable pass promises that its `version` changes with everything that its key does not contain,
        such as functions that it calls and global variables. The code of other passes may differ after a restart.

        Raises:
            InvalidJobError: see `find`.

        """
        known = await self.find(text)
        passes = known.fingerprint if known.pass_ is not None else await self._default_key(kind)
        return f"apass {own_version()}: {passes} {kind} {result_kind}"

    async def _default_key(self, kind: str) -> str:
        """Return what the default pipeline of an IR depends on."""
        if kind not in self._defaults:
            self._defaults[kind] = await run_sync(_default_fingerprint, kind)
        return self._defaults[kind]


def _default_fingerprint(kind: str) -> str:
    """Return the fingerprint of the default pipeline of an IR.

    The library of the IR is imported for it: the versions of passes contain that of the library.
    """
    try:
        found = None if kind.startswith(".") else find_imported(kind)
        plugin: IRPlugin[Any] = plugin_for_type(found) if isinstance(found, type) else plugin_for_suffix(kind)
        return _known(parse_pipeline(plugin.default_pipeline)).fingerprint
    except (ApassError, ImportError, LookupError):  # perhaps only the workers have the library
        return f"default of this process, {_PROCESS}"


def _known(pipeline: Pass[Any] | str) -> KnownPipeline:
    """Return a pipeline with its fingerprint."""
    if not pipeline:
        return KnownPipeline(None, "")
    parsed = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    passes = list(_all_passes(parsed, set()))
    # These two are results of the passes in them.
    is_cacheable = all(pass_.cacheable or isinstance(pass_, Sequential | Repeat) for pass_ in passes)
    # An object without a fingerprint has another one in each process.
    contents = [
        (pass_, pass_.info, getattr(pass_, "on_error", None), getattr(pass_, "timeout", None)) for pass_ in passes
    ]
    return KnownPipeline(parsed, fingerprint_value(contents) + ("" if is_cacheable else f" {_PROCESS}"))


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
