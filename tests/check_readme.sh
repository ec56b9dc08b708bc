#!/bin/sh
# The README's example must work as printed: its first C block is compiled against the shared library and run.
set -eu
source=$1 build=$2

mkdir -p "$build/tests"
program=$build/tests/readme
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" >"$program.c"
[ -s "$program.c" ] || { echo "check_readme: no C block in README.md" >&2; exit 1; }
# shellcheck disable=SC2086 # lists of words
${CC:-cc} -std=c11 -Wall -Wextra -Werror -I"$source/include" -o "$program" "$program.c" -L"$build" -lheed -lm ${LIBS-}
# shellcheck disable=SC2086
LD_LIBRARY_PATH=$build${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} ${EMULATOR-} "$program"
echo "check_readme: the example of README.md compiles and runs"
