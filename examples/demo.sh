#!/bin/sh
# From nothing to an answer: a virtual environment, Orion with its locked dependencies, a local model, and a drawn
# invoice turned into JSON. PYTHON chooses the interpreter (3.11 to 3.13), VENV the folder of the environment.
set -eu
cd "$(dirname "$0")/.."
PYTHON=${PYTHON:-python3}
VENV=${VENV:-.venv}
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV"
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/demo.txt
"$VENV/bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --editable .
exec "$VENV/bin/orion" demo "$@"
