"""`JobPipelines`: the pipelines that jobs may name, and the texts that they allow."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from anyio.to_thread import run_sync

from apass.batch.journal import describe_run
from apass.core.context import PassContext
from apass.errors import ApassError, did_you_mean
from apass.passes.base import Pass
from apass.pipelines.parser import parse_pipeline
from apass.service.errors import InvalidJobError
from apass.util.checks import check_type

__all__ = ["JobPipelines", "KnownPipeline"]

KEPT_TEXTS: Final = 1_000
"""How many texts of pipelines are kept parsed."""


@dataclass(frozen=True, slots=True)
class KnownPipeline:
    """A pipeline that is ready to run."""

    pass_: Pass[Any] | None
    """The pipeline; None for the default pipeline of the model's IR, which is known to workers only."""
    description: Any
    """What results depend on besides the model, as values of JSON."""


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

    async def load(self) -> None:
        """Import the passes of the named pipelines, so that no job has to.

        Raises:
            PipelineSyntaxError: if the text of a pipeline is invalid.

        """
        for name, pipeline in self.named.items():
            self._known[name] = await run_sync(_known, pipeline, name)

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
            known = await run_sync(_known, parsed, text)
        except (ApassError, ValueError, TypeError) as error:
            raise InvalidJobError(str(error)) from error
        self._texts[text] = known
        if len(self._texts) > KEPT_TEXTS:
            self._texts.popitem(last=False)
        return known


def _known(pipeline: Pass[Any] | str, name: str) -> KnownPipeline:
    """Return a pipeline with its description."""
    if not pipeline:
        return KnownPipeline(None, describe_run({"": parse_pipeline("")}, PassContext()))
    parsed = parse_pipeline(pipeline) if isinstance(pipeline, str) else pipeline
    try:
        return KnownPipeline(parsed, describe_run({"": parsed}, PassContext()))
    except ApassError:
        # It cannot be written as text, so that its name has to identify it.
        return KnownPipeline(parsed, {"pipeline": name})
