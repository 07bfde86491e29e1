"""What the first looks say when a library is not installed: what cannot be read, and the line that installs it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests import drawn, pictures

SECONDS = 120
LOOK = """
import importlib, json, sys

class Without:
    # A finder that does not find some modules, as if they had never been installed.
    def __init__(self, finder):
        self.finder = finder

    def find_spec(self, name, path=None, target=None):
        return None if name.partition(".")[0] in absent else self.finder.find_spec(name, path, target)

absent, module, path, text_only = json.loads(sys.argv[1])
sys.meta_path[:] = map(Without, sys.meta_path)
import orion.toolkit
from orion.tools import as_tool
toolset = importlib.import_module(f"orion.toolsets.{module}").TOOLSET
usable = [made.name for made in orion.toolkit.usable(toolset)]
lines = sorted({made.missing() for made in map(as_tool, toolset.tools)} - {None})
from pathlib import Path
seen = toolset.look(Path(path), {}, 4000, text_only)
print(json.dumps({"text": seen.text, "covers": seen.covers, "whole": seen.whole, "usable": usable, "lines": lines}))
"""


def look(module: str, path: Path, absent: Sequence[str], *, text_only: bool = True) -> dict[str, Any]:
    asked = json.dumps([list(absent), module, str(path), text_only])
    made = subprocess.run(
        [sys.executable, "-c", LOOK, asked], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert made.returncode == 0, made.stderr
    answer: dict[str, Any] = json.loads(made.stdout)
    return answer


@pytest.fixture
def label(tmp_path: Path) -> Path:
    path = tmp_path / "label.png"
    pictures.label(["Part 77-B"], [pictures.code("LOT-0042/7", "QRCode")]).save(path)
    return path


def test_image_without_ocr(label: Path) -> None:
    seen = look("image", label, ["rapidocr"])
    assert 'its text cannot be read: pip install "orion-visual-agent[ocr]"' in seen["text"]
    assert "LOT-0042/7" in seen["text"]
    assert "ocr" not in seen["usable"]
    assert "read_barcodes" in seen["usable"]
    assert seen["whole"] is False
    assert 'pip install "orion-visual-agent[ocr]"' in seen["lines"]
    # A model that sees the image does without.
    assert "cannot be read" not in look("image", label, ["rapidocr"], text_only=False)["text"]


def test_image_without_codes(label: Path) -> None:
    seen = look("image", label, ["zxingcpp"])
    assert 'codes cannot be read: pip install "orion-visual-agent[image]"' in seen["text"]
    assert "Part 77-B" in seen["text"]
    assert "read_barcodes" not in [*seen["usable"], *seen["covers"]]
    assert seen["whole"] is False


def test_scan_without_ocr(tmp_path: Path) -> None:
    path = tmp_path / "scan.pdf"
    path.write_bytes(drawn.picture_pdf([pictures.paper(["#Order 7741"])]))
    seen = look("document", path, ["rapidocr"])
    assert 'reading the scan needs: pip install "orion-visual-agent[ocr]"' in seen["text"]
    assert "read_text" not in seen["covers"]
    assert seen["whole"] is False


def test_form_without_pypdf(tmp_path: Path) -> None:
    path = tmp_path / "form.pdf"
    path.write_bytes(drawn.form_pdf("Club", [drawn.Field("city", "City", "Graz")]))
    seen = look("document", path, ["pypdf"])
    assert 'form fields cannot be read: pip install "orion-visual-agent[document]"' in seen["text"]
    assert "form_fields" not in [*seen["usable"], *seen["covers"]]
    assert seen["whole"] is False
