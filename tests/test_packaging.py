"""The import names hold in a wheel, in an editable install and in a plain checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[1]
CODE = "import orion, orion.toolsets.core as core, orion.sandbox; print(core.__file__); print(core.calculate('2 + 3'))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    (built,) = out.glob("*.whl")
    return built


def test_a_wheel_holds_every_module_and_data_file(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for folder, package in (("orion", "orion"), ("toolsets", "orion/toolsets"), ("sandbox", "orion/sandbox")):
        for file in (ROOT / folder).glob("*.py"):
            assert f"{package}/{file.name}" in names
    for pattern in ("orion/prompts/*.md", "orion/data/*.json"):
        for file in ROOT.glob(pattern):
            assert str(file.relative_to(ROOT)) in names
    assert "orion/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "toolsets/", "sandbox/", "benchmarks/"))]


def test_a_wheel_works_outside_the_checkout(wheel: Path, tmp_path: Path) -> None:
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = f"import sys; sys.path.insert(0, {str(tmp_path / 'site')!r}); {CODE}"
    path, value = run(code, tmp_path)
    assert Path(path) == tmp_path / "site" / "orion" / "toolsets" / "core.py"
    assert value == "5"


def test_an_editable_install_and_a_checkout_give_the_same_names(tmp_path: Path) -> None:
    for code, folder in ((CODE, tmp_path), (f"import sys; sys.path.insert(0, {str(ROOT)!r}); {CODE}", tmp_path)):
        path, value = run(code, folder)
        assert Path(path).resolve() == ROOT / "toolsets" / "core.py"
        assert value == "5"


def run(code: str, folder: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_the_lock_pins_what_others_ask_for_with_an_extra() -> None:
    """pip 23 looks for `httpx[http2]` beside a pinned `httpx`, finds a newer release, and has no hash for it."""
    lines = (ROOT / "requirements" / "dev.txt").read_text().splitlines()
    pinned = {
        canonicalize_name(found.name): found.extras
        for found in (Requirement(line.split(" \\")[0]) for line in lines if line[:1].isalnum())
    }
    asked = [
        (canonicalize_name(wanted.name), wanted.extras)
        for distribution in metadata.distributions()
        if canonicalize_name(distribution.metadata["Name"]) in pinned
        for wanted in map(Requirement, distribution.requires or ())
        if wanted.extras and (wanted.marker is None or wanted.marker.evaluate({"extra": ""}))
    ]
    assert ("httpx", {"http2"}) in asked, "nothing asks for an extra any more: this test looks at nothing"
    assert [(name, extras) for name, extras in asked if not extras <= pinned.get(name, extras)] == []
