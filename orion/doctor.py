"""`orion doctor`: what is here, what is missing, and how to get it, on one screen."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from importlib import metadata
from pathlib import Path

from orion.cli import DISTRIBUTION, FAILED
from orion.console import Pen, print_json
from orion.doctor_model import Check, installed, model_check, probe_check
from orion.errors import UserError
from orion.settings import Settings
from orion.words import harmless, size_words

OLDEST_PYTHON, NEWEST_PYTHON = (3, 11), (3, 13)
IMPORT_SECONDS = 60.0
DOCKER_SECONDS = 5.0
EXTRAS = ("local", "image", "ocr", "document", "litellm", "notebook", "sandbox", "server")
"""Extras shown, in this order; `vllm` is for the machine that serves the model, `dev` for Orion's own developers."""

# Compiled libraries whose import is tried in a process of its own, since a CPU they were not built for ends it.
COMPILED = {
    "xllamacpp": "xllamacpp",
    "opencv-python-headless": "cv2",
    "zxing-cpp": "zxingcpp",
    "onnxruntime": "onnxruntime",
    "pypdfium2": "pypdfium2",
    "pi-heif": "pi_heif",
}
OPENCV = ("opencv-python", "opencv-python-headless", "opencv-contrib-python", "opencv-contrib-python-headless")


def doctor(*, as_json: bool, probe: bool) -> int:
    """Print the report; 0 when a run could work, 1 otherwise."""
    checks = examine(probe=probe)
    able = not _stoppers(checks)
    if as_json:
        print_json({"able": able, "checks": [asdict(check) for check in checks]}, sys.stdout)
    else:
        _print(checks)
    return 0 if able else FAILED


def examine(*, probe: bool = False) -> list[Check]:
    """Every check, in the order of the screen. Takes seconds, with `probe` up to some minutes."""
    checks = [_python(), _orion(), _machine()]
    try:
        settings = Settings.from_env()
    except UserError as error:
        checks.append(
            Check("system", "settings", "bad", error.message, error.fix or f"unset {error.param}", vital=True)
        )
        settings = None
    if settings is not None:
        checks += [
            _folder("cache", settings.cache_dir, "ORION_CACHE"),
            _folder("store", settings.store_dir, "ORION_STORE"),
        ]
    imports = _failed_imports()
    checks += [_extra(extra, imports) for extra in EXTRAS]
    checks.append(_opencv())
    if settings is not None:
        checks.append(model_check(settings, imports))
        if probe:
            checks.append(probe_check(settings))
    checks.append(_docker())
    return checks


def _python() -> Check:
    fits = OLDEST_PYTHON <= sys.version_info[:2] <= NEWEST_PYTHON
    text = f"{platform.python_version()} ({sys.executable})"
    fix = None if fits else "Use Python 3.11, 3.12 or 3.13: python3.13 -m venv venv"
    return Check("system", "python", "ok" if fits else "bad", text, fix, vital=True)


def _orion() -> Check:
    version = installed(DISTRIBUTION)
    if version is None:
        fix = f"pip install {DISTRIBUTION}"
        return Check("system", "orion", "bad", "not installed, only found as a folder", fix)
    return Check("system", "orion", "ok", f"{version} ({Path(__file__).parent})")


def _machine() -> Check:
    facts = [f"{platform.system()} {platform.machine()}", f"{os.cpu_count() or 1} cores"]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", {}):
        facts.append(f"{size_words(os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE'))} memory")
    flags = Path("/proc/cpuinfo")
    if platform.machine() in ("x86_64", "AMD64") and flags.is_file() and " avx2" not in flags.read_text():
        fix = "Serve the model elsewhere and set ORION_MODEL_URL"
        text = f"{', '.join(facts)}; no AVX2, which the embedded engine needs"
        return Check("system", "machine", "bad", text, fix)
    return Check("system", "machine", "ok", ", ".join(facts))


def _folder(name: str, folder: Path, setting: str) -> Check:
    """Whether Orion may write there, tried on the nearest folder that exists, and how much room is left."""
    there = next(parent for parent in (folder, *folder.parents) if parent.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        return Check("system", name, "bad", f"{folder} cannot be written", f"export {setting}=FOLDER", vital=True)
    return Check("system", name, "ok", f"{folder} ({size_words(shutil.disk_usage(there).free)} free)")


def _extra(extra: str, failed_imports: dict[str, str]) -> Check:
    """One extra: its libraries with their versions, or the line that installs it."""
    install = f'pip install "{DISTRIBUTION}[{extra}]"'
    names = sorted(_requirements(extra))
    if not names:
        return Check(
            "libraries", extra, "bad", "unknown to the installed package", f"pip install --upgrade {DISTRIBUTION}"
        )
    versions = {name: installed(name) for name in names}
    absent = [name for name, version in versions.items() if version is None]
    broken = [f"{name} does not import: {failed_imports[name]}" for name in names if name in failed_imports]
    here = ", ".join(f"{name} {version}" for name, version in versions.items() if version)
    if absent:
        return Check("libraries", extra, "missing", f"not installed: {', '.join(absent)}", install)
    if broken:
        return Check(
            "libraries", extra, "bad", "; ".join(broken), f"{install.replace('install', 'install --force-reinstall')}"
        )
    return Check("libraries", extra, "ok", here)


def _requirements(extra: str) -> set[str]:
    """Names of the distributions an extra asks for, those of the extras it includes left to their own line."""
    try:
        lines = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:
        return set()
    marker = re.compile(rf"""extra\s*==\s*["']{re.escape(extra)}["']""")
    names = (re.match(r"[A-Za-z0-9._-]+", line) for line in lines if marker.search(line))
    return {name.group() for name in names if name} - {DISTRIBUTION}


def _failed_imports() -> dict[str, str]:
    """Installed compiled libraries that do not import, with the last line of what they said."""
    names = [name for name in COMPILED if installed(name)]
    with ThreadPoolExecutor(2) as pool:
        outcomes = pool.map(lambda name: _try_import(COMPILED[name]), names)
    return {name: outcome for name, outcome in zip(names, outcomes, strict=True) if outcome}


def _try_import(module: str) -> str | None:
    command = [sys.executable, "-c", f"import {module}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"no answer within {IMPORT_SECONDS:.0f} s"
    if done.returncode == 0:
        return None
    said = done.stderr.strip().splitlines()
    return said[-1] if said else f"ended with code {done.returncode}"


def _opencv() -> Check:
    """They all bring a folder `cv2` and overwrite each other's; removing one takes files of the other along."""
    found = [name for name in OPENCV if installed(name)]
    if len(found) <= 1:
        return Check("libraries", "opencv", "ok", f"one distribution ({found[0]})" if found else "none installed")
    fix = f"pip uninstall -y {' '.join(found)} && pip install --force-reinstall --no-deps opencv-python-headless"
    return Check("libraries", "opencv", "bad", f"{len(found)} overwrite each other: {', '.join(found)}", fix)


def _docker() -> Check:
    """Only for information: Orion-1 needs no Docker."""
    where = shutil.which("docker")
    if where is None:
        return Check("more", "docker", "missing", "not installed (for Orion-2's sandbox only)")
    command = [where, "info", "--format", "{{.ServerVersion}}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DOCKER_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Check(
            "more", "docker", "missing", f"no answer within {DOCKER_SECONDS:.0f} s (for Orion-2's sandbox only)"
        )
    if done.returncode != 0:
        return Check("more", "docker", "missing", "installed, not running (for Orion-2's sandbox only)")
    return Check("more", "docker", "ok", f"running, {done.stdout.strip()}")


def _print(checks: Sequence[Check]) -> None:
    pen = Pen(sys.stdout)
    marks = {"ok": pen.green("✓"), "missing": pen.yellow("–"), "bad": pen.red("✗")}
    group = None
    for check in checks:
        if check.group != group:
            group = check.group
            print(pen.bold(group))
        print(f"  {marks[check.state]} {check.name:<9} {harmless(check.text)}")
        if check.fix:
            print(f"    {'':<9} {pen.yellow('→')} {check.fix}")
    stoppers = _stoppers(checks)
    print(pen.red(f"No run can work yet: {', '.join(stoppers)}.") if stoppers else pen.green("A run can work."))


def _stoppers(checks: Sequence[Check]) -> list[str]:
    return [check.name for check in checks if check.vital and check.state != "ok"]
