#!/bin/sh
# examples/generate against recorded results of the reference implementation, against itself, and with damaged files: see
# generate/generate_test.py.
#
#   generate_test.sh path/to/generate        EMULATOR: command that runs it      PYTHON: [python3]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v "${PYTHON:-python3}" >/dev/null; then
    echo 'generate_test: skipped, there is no python3'
    exit 0
fi
exec "${PYTHON:-python3}" -B "$here/generate/generate_test.py" "$1"
