"""The README's example prints what the README says it prints, on the embedded model."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.weights import embedded_gguf

ROOT = Path(__file__).resolve().parents[1]


def readme_blocks() -> tuple[str, str]:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    code = re.search(r"```python\n(.*?)```", text, re.DOTALL)
    printed = re.search(r"prints \(.*?```\n(.*?)```", text, re.DOTALL)
    assert code is not None
    assert printed is not None
    return code.group(1), printed.group(1)


def test_the_readme_shows_the_example_file() -> None:
    code, _printed = readme_blocks()
    assert (ROOT / "examples" / "invoice.py").read_text(encoding="utf-8").endswith(code)


@pytest.mark.model
def test_the_example_prints_what_the_readme_says(tmp_path: Path) -> None:
    _code, printed = readme_blocks()
    environment = {**os.environ, "ORION_MODEL": str(embedded_gguf()), "ORION_STORE": str(tmp_path / "store")}
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "invoice.py")],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout == printed
