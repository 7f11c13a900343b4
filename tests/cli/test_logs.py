"""`--log-level` and `--log-format`: pass events on standard error."""

import json
import logging
import re
from pathlib import Path

from tests.helpers.command_line import apass, program, write_model


def test_info_logs_the_end_of_each_pass(tmp_path: Path, backend: str) -> None:
    source = program(tmp_path / "m.relay")
    result = apass("opt", source, "-p", "FoldConstant", "--log-level", "info", "--backend", backend)
    lines = [
        re.sub(r"^[\d-]+ [\d:,]+", "TIME", re.sub(r"\d+\.\d{6}", "N", line)) for line in result.stderr.splitlines()
    ]
    outer = "TIME INFO    apass.pass pass_finished pass_name=sequential pass_path=0:sequential"
    inner = outer.replace("name=sequential", "name=FoldConstant") + "/0:FoldConstant"
    typing = inner.replace("name=FoldConstant", "name=InferType") + "/0:InferType"
    assert lines == [
        f"{typing} module_name=m.relay seconds=N changed=False",
        *(f"{line} module_name=m.relay seconds=N changed=True" for line in (inner, outer)),
    ]
    logger = logging.getLogger("apass")
    assert (logger.level, logger.handlers, logger.propagate) == (logging.NOTSET, [], True)


def test_json_log_has_traceback_of_a_failure_once(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    model.write_bytes(model.read_bytes().replace(b"Neg", b"Ngg"))
    result = apass("opt", model, "-p", "onnx.Checker", "--log-level", "error", "--log-format", "json")
    inner, outer = [json.loads(line) for line in result.stderr.splitlines() if line.startswith("{")]
    assert "ValidationError" in inner.pop("traceback")
    for shown, name in ((inner, "onnx.Checker"), (outer, "sequential")):
        assert (shown["level"], shown["logger"], shown["event"]) == ("error", "apass.pass", "pass_failed")
        assert (shown["pass_name"], shown["module_name"], shown["error"][:14]) == (name, "m.onnx", "AdapterError: ")
        assert list(shown)[:4] == ["time", "level", "logger", "event"]


def test_log_format_without_level_is_rejected(tmp_path: Path) -> None:
    model = write_model(tmp_path / "m.onnx")
    result = apass("opt", model, "--log-format", "json")
    assert (result.exit_code, result.stderr) == (2, "apass: --log-format needs --log-level\n")
