#!/bin/sh
# examples/embed against recorded results of the reference implementation, and with damaged files: see embed/embed_test.py.
#
#   embed_test.sh path/to/embed        EMULATOR: command that runs it      PYTHON: [python3]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v "${PYTHON:-python3}" >/dev/null; then
    echo 'embed_test: skipped, there is no python3'
    exit 0
fi
exec "${PYTHON:-python3}" -B "$here/embed/embed_test.py" "$1"
