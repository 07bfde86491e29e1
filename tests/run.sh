#!/bin/sh
# All checks on a fresh machine: environment, local model, style, types, tests and doctests.
# PYTHON chooses the interpreter (3.11 to 3.13), VENV the folder; arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
fits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
tell='import platform; print("is Python " + platform.python_version())'
python=$VENV/bin/python advice="remove it with: rm -r '$VENV'"
[ -x "$python" ] || python=$PYTHON advice="choose another: PYTHON=/path/to/python3.12 sh tests/run.sh"
if ! "$python" -c "$fits" 2>/dev/null; then
    found=$("$python" -c "$tell" 2>/dev/null || echo "does not run")
    echo "error: Orion needs Python 3.11 to 3.13; $python $found; $advice" >&2
    exit 1
fi
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
echo "installing into $VENV (about a minute)…" >&2
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
"$VENV/bin/orion" model pull
"$VENV/bin/ruff" check .
"$VENV/bin/ruff" format --check .
"$VENV/bin/mypy"
exec "$VENV/bin/python" -m pytest --doctest-modules orion tests benchmarks "$@"
