#!/bin/sh
# examples/translate against recorded results of the reference implementation, and with damaged files: see translate/translate_test.py.
#
#   translate_test.sh path/to/translate        EMULATOR: command that runs it      PYTHON: [python3]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v "${PYTHON:-python3}" >/dev/null; then
    echo 'translate_test: skipped, there is no python3'
    exit 0
fi
exec "${PYTHON:-python3}" -B "$here/translate/translate_test.py" "$1"
