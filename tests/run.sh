#!/bin/sh
# All checks on a fresh machine: environment, local model, style, types, tests and doctests.
# PYTHON chooses the interpreter (3.11 to 3.13), VENV the folder; arguments go to pytest.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
"$VENV/bin/orion" model pull
"$VENV/bin/ruff" check .
"$VENV/bin/ruff" format --check .
"$VENV/bin/mypy"
exec "$VENV/bin/python" -m pytest --doctest-modules orion tests benchmarks "$@"
