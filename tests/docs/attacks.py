"""Hostile input in numbers: `python -m tests.docs.attacks --count 1000`.

It prints the table of the page "Security". An outcome in capitals is a defect.
"""

import argparse
import asyncio
import json
import logging
import random
import tempfile
import warnings
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import numpy as np
import onnx

import apass
from apass import relay
from apass.adapters.mlir import ADAPTER as MLIR
from apass.adapters.onnx import ADAPTER as ONNX
from apass.adapters.onnx.outputs.evaluation import LOADERS
from apass.adapters.xdsl import ADAPTER as XDSL
from apass.errors import ApassError
from apass.passes.registry import pass_options
from apass.relay.integration.adapter import ADAPTER as RELAY
from apass.service import Optimizer
from apass.stores import SqliteStore
from apass.util.typed_values import type_name
from tests.helpers import onnx_mutations
from tests.helpers.mlir_modules import CALLS
from tests.helpers.native_cancellation import CANCELLERS, scenario, unbalanced
from tests.helpers.repository import ROOT

__all__ = ["ATTACKS", "outcomes", "table"]

Attempt = Callable[[random.Random, Path], Awaitable[str]]
"""Makes one attempt in an empty folder, and returns its outcome."""

REFUSED: Final = "one error"
ACCEPTED: Final = "accepted"

RELAY_TEXT: Final = """#[version = "0.0.5"]
type List[A] { Cons(A, List[A]), Nil, }
def @main(%x: Tensor[(1, 3, 8, 8), float32], %w: Tensor[(4, 3, 3, 3), float32], %c: bool) {
  %0 = nn.conv2d(%x, %w, strides=[1, 1], padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  let %y = if (%c) { nn.relu(%0) } else { %0 };
  %1 = (%y, strided_slice(%y, begin=[0, 2], end=[1, 4], strides=[1, 1]));
  reshape(%1.0, newshape=[1, -1])
}
"""
PIPELINES: Final = (
    "FoldConstant,Repeat{times=3}(DeadCodeElimination,EliminateCommonSubexpr)",
    'onnx.Inline{max_nodes=100},Race(Sequential{name="two words"}(InferType),SimplifyExpr)',
    "ConvertLayout{desired_layouts={nn.conv2d=[NHWC,default]}},PrintIR",
)
TOKENS: Final = (
    "(", ")", "{", "}", "[", "]", ",", "=", ":", '"', "\\", "\n", "\0", "\x1b[2J", "\u202e", "\ud800", "0", "-1",
    "1e999", "9" * 400, "os:system", "__import__", "../..", "/etc/passwd", "None", "true",
    "Repeat", "def", "let", "%0", "@main", "null",
)  # fmt: skip


def mutated_text(rng: random.Random, text: str) -> str:
    """Return a text with one or two parts removed, repeated or replaced."""
    for _ in range(rng.randint(1, 2)):
        start = rng.randrange(len(text) + 1)
        end = min(len(text), start + rng.choice((0, 0, 1, 1, 2, 12)))
        digits = [index for index, char in enumerate(text) if char.isdigit()]
        if digits and not rng.randrange(3):
            start = rng.choice(digits)
            end = start + 1
        other = text[rng.randrange(len(text) + 1) :][: rng.randint(1, 12)]
        middle = rng.choice(("", rng.choice(TOKENS), str(rng.randrange(12)), text[start:end] * 2, other))
        text = text[:start] + middle + text[end:]
    return text


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return bytes of which up to four are changed, or the end is missing."""
    if not rng.randrange(5):
        return data[: rng.randrange(len(data))]
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


async def onnx_bytes(rng: random.Random, _folder: Path) -> str:
    model = ONNX.loads(onnx_mutations.mutated(rng))
    ONNX.to_text(model)
    ONNX.fingerprint(model)
    ONNX.loads(ONNX.dumps(model))
    await apass.get_pass("onnx.Default")(model)
    return ACCEPTED


async def relay_text(rng: random.Random, _folder: Path) -> str:
    mod = relay.parse(mutated_text(rng, RELAY_TEXT))
    RELAY.to_text(mod)
    RELAY.verify(mod)
    return ACCEPTED


async def pipeline_text(rng: random.Random, _folder: Path) -> str:
    text = str(apass.parse_pipeline(mutated_text(rng, rng.choice(PIPELINES))))
    return ACCEPTED if str(apass.parse_pipeline(text)) == text else "ANOTHER PIPELINE"


@cache
def text_options() -> Sequence[tuple[str, str, str]]:
    """Return the passes of MLIR and xDSL, with their options that are text."""
    found: list[tuple[str, str, str]] = []
    for name in apass.list_passes():
        if name.startswith(("mlir.", "xdsl.")):
            options = pass_options(name).items()
            texts = [
                (key, type_name(option.annotation)) for key, option in options if "str" in type_name(option.annotation)
            ]
            found += [(name, key, "[{}]" if "[" in kind else "{}") for key, kind in [*texts, ("executable", "str")]]
    return found


async def option_value(rng: random.Random, folder: Path) -> str:
    secret, new = folder / "secret", folder / "new"
    secret.write_text("s3cr3t")
    writes = f"snapshot-op-locations{{filename={new}}}"
    values = (
        str(new), str(secret), f"a}},{writes}", f"any({writes})", f"builtin.module({writes})", f"any),{writes},any(",
        f"{writes[:-1]}", f"a b={new}", f"--output={new}", f"-o={new}", f'"{new}', f"'}},{writes},cse{{a='",
    )  # fmt: skip
    name, key, form = rng.choice(text_options())
    text = f"{name}{{{key}={form.format(json.dumps(rng.choice(values)))}}}"
    pipeline = apass.parse_pipeline(text, allow=["*"])
    mod = MLIR.loads(CALLS.encode()) if name.startswith("mlir.") else XDSL.loads(CALLS.encode())
    try:
        await pipeline(mod)
    except ApassError as error:
        if "s3cr3t" in str(error):
            return "FILE READ"
    return "FILE WRITTEN" if new.exists() or secret.read_text() != "s3cr3t" else ACCEPTED


async def reproducer_file(rng: random.Random, folder: Path) -> str:
    (folder / "module.json").write_text('{"f": 1}')
    text = mutated_text(rng, REPRODUCER)
    (folder / "reproducer.json").write_text(text, encoding="utf-8", errors="surrogatepass")
    apass.read_reproducer(folder)
    return ACCEPTED


async def journal_bytes(rng: random.Random, folder: Path) -> str:
    path = folder / "run.journal"
    modules = {"a": {"f": 1}, "b": {"f": 2}}
    await apass.optimize_all(modules, DOUBLE, journal=path)
    path.write_bytes(mutated_bytes(rng, path.read_bytes()))
    done = await apass.optimize_all(modules, DOUBLE, journal=path)
    return "right results" if done == {"a": {"f": 2}, "b": {"f": 4}} else "WRONG RESULT"


async def store_file(rng: random.Random, folder: Path) -> str:
    path = folder / "store.db"
    values = {f"f{number}": f"value {number} ".encode() * 20 for number in range(6)}
    async with SqliteStore(path) as store:
        for key, value in values.items():
            await store.put(key, value)
    path.write_bytes(mutated_bytes(rng, path.read_bytes()))
    async with SqliteStore(path) as store:
        found = [(await store.get(key), value) for key, value in values.items()]
    if any(got not in (None, value) for got, value in found):
        return "ANOTHER VALUE"
    return "right values" if all(got == value for got, value in found) else "values missing"


async def job_store(rng: random.Random, folder: Path) -> str:
    path, model = folder / "jobs.db", {"f": 21}
    async with Optimizer({"default": DOUBLE}, store=path) as optimizer:
        job = await optimizer.submit(model)
        right = await job.result()
    damaged = bytearray(path.read_bytes())
    damaged[rng.randrange(100, len(damaged))] ^= 1 << rng.randrange(8)
    path.write_bytes(damaged)
    async with Optimizer({"default": DOUBLE}, store=path) as optimizer:
        found = [await (await find).result() for find in (optimizer.find(job.id), optimizer.submit(model))]
    return "right results" if found == [right, right] else "WRONG RESULT"


async def outer_names(rng: random.Random, _folder: Path) -> str:
    x, y, z = (rng.choice("abcde") for _ in range(3))
    part = rng.choice((f"<float[2] {y} = {{1, 2}}> {{ r = Neg({z}) }}", f"{{ {y} = Abs({z}) r = Neg({y}) }}"))
    graph = f"""g (bool flag, float[2] a) => (float[2] e) <float[2] b = {{3, 4}}> {{
        c = Abs({x})
        d = If (flag) <then_branch = t () => (float[2] r) {part}, else_branch = f () => (float[2] s) {{ s = Exp(a) }}>
        e = Add(c, d)
    }}"""
    data = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {graph}').SerializeToString()
    model = ONNX.loads(data)
    after = ONNX.dumps(await apass.get_pass("onnx.Default")(model))
    inputs = [np.array(rng.random() < 0.5), np.array([-0.0, 2.0], np.float32)]
    before, result = (LOADERS["onnxruntime"](version)(inputs).outputs for version in (data, after))
    if before is None or result is None:
        return "NOT EVALUATED"
    return "equal outputs" if before[0].tobytes() == result[0].tobytes() else "OTHER OUTPUTS"


async def native_cancellation(rng: random.Random, _folder: Path) -> str:
    log: list[str] = []
    way = rng.choice(sorted(CANCELLERS))
    cancelled = await CANCELLERS[way](scenario(log, fails=rng.random() < 0.5), rng.randrange(80))
    if unbalanced(log):
        return "HOOKS MISSING"
    return "cancelled, all hooks called" if cancelled else "ended before"


@apass.register_pass("attacks.Double")
@apass.module_pass(opt_level=0)
def DOUBLE(mod: dict[str, int], ctx: apass.PassContext) -> dict[str, int]:
    """Double each function."""
    return {name: 2 * func for name, func in mod.items()}


REPRODUCER: Final = (ROOT / "tests/instruments/data/reproducer.json").read_text()

ATTACKS: Final[dict[str, Attempt]] = {
    "damaged bytes of ONNX models, then `onnx.Default`": onnx_bytes,
    "changed Relay text": relay_text,
    "changed pipeline text": pipeline_text,
    "paths and pipelines as options of MLIR and xDSL": option_value,
    "changed `reproducer.json`": reproducer_file,
    "damaged journal, then resumed": journal_bytes,
    "damaged SQLite store": store_file,
    "flipped bit in a job store, then asked again": job_store,
    "ONNX subgraphs with outer names, then `onnx.Default`": outer_names,
    "native cancellation at a random step": native_cancellation,
}


async def outcomes(attempt: Attempt, count: int, seed: int = 0) -> Counter[str]:
    """Return how often each outcome occurred."""
    counts: Counter[str] = Counter()
    for number in range(seed, seed + count):
        with tempfile.TemporaryDirectory() as folder:
            try:
                outcome = await attempt(random.Random(number), Path(folder))
            except ApassError as error:
                outcome = REFUSED if len(str(error)) < 2_000 else "LONG ERROR"
            except Exception as error:
                outcome = f"RAW ERROR {type(error).__name__}"
        counts[outcome] += 1
    return counts


def table(count: int) -> Iterator[str]:
    """Iterate over the lines of the table in Markdown."""
    yield "| Attack | Attempts | Outcomes |"
    yield "|---|---|---|"
    for name, attempt in ATTACKS.items():
        counts = asyncio.run(outcomes(attempt, count))
        yield f"| {name} | {count:,} | {', '.join(f'{n:,} {outcome}' for outcome, n in counts.most_common())} |"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="attempts for each attack")
    warnings.simplefilter("ignore")
    logging.disable()
    for line in table(parser.parse_args().count):
        print(line, flush=True)
