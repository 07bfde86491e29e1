"""What starting Orion costs: which libraries are loaded, and how long it takes compared with pydantic alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

TRIES = 5
HEAVY = {
    *("numpy", "cv2", "PIL", "zxingcpp", "rapidocr", "onnxruntime", "pypdfium2", "pypdf", "pdfplumber", "pi_heif"),
    *("litellm", "openai", "xllamacpp", "IPython", "docker", "fastapi", "pandas", "matplotlib"),
}

TIMER = """
import sys, time
began = time.perf_counter()
{code}
print(time.perf_counter() - began)
"""
LISTER = """
import json, sys
before = set(sys.modules)
{code}
new = {{name.partition('.')[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(new - set(sys.stdlib_module_names))))
"""
HELP = "from orion.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    print()"


def python(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip().splitlines()[-1]


def loaded(code: str) -> set[str]:
    return set(json.loads(python(LISTER.format(code=code))))


def test_import_orion_loads_nothing_beyond_pydantic() -> None:
    pydantic_alone = loaded("import pydantic, platformdirs")
    assert loaded("import orion") <= pydantic_alone | {"orion"}


def test_the_command_line_loads_no_third_party_library_for_its_help() -> None:
    assert {name for name in loaded(HELP) if not name.startswith(("orion", "__editable__"))} == set()


@pytest.mark.parametrize(
    "code", ["from orion import Orion", "import orion.cli_run, orion.doctor, orion.notebook, orion.demo"]
)
def test_the_agent_itself_loads_nothing_heavy(code: str) -> None:
    assert loaded(code) & HEAVY == set()


def test_import_orion_is_not_slower_than_pydantic() -> None:
    """The fastest of several tries of each, in turn, so that a busy machine hits both alike."""
    times: dict[str, list[float]] = {"import orion": [], "import pydantic.main": []}
    for _try in range(TRIES):
        for code, taken in times.items():
            taken.append(float(python(TIMER.format(code=code))))
    assert min(times["import orion"]) <= 1.5 * min(times["import pydantic.main"])
