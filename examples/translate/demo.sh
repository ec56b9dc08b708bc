#!/bin/sh
# Lines of English beside what translate makes of them, for "make demo".
#
#   demo.sh path/to/translate MODEL          EMULATOR: command that runs it
set -eu
lines='seventy-one
eighty
eighty thousand
eighty-one houses
three hundred and sixty-five apples
nine hundred ninety-nine thousand nine hundred ninety-nine stars
Tuesday, the first of March nineteen eighty
August twenty-first, twenty twenty-six
it is a quarter to one
it is half past noon'
count=$(printf '%s\n' "$lines" | wc -l)
# shellcheck disable=SC2086 # a list of words
translations=$(printf '%s\n' "$lines" | ${EMULATOR-} "$1" "$2")
bold='' plain=''
[ ! -t 1 ] || [ -n "${NO_COLOR-}" ] || [ "${TERM-dumb}" = dumb ] || bold=$(printf '\033[1m') plain=$(printf '\033[0m')
printf '\n%s\n' "${bold}English to French, by a trained T5 of 250,000 weights (tests/translate/train.py)${plain}"
printf '%s\n' "$lines" "$translations" | awk -v count="$count" '
    NR <= count { line[NR] = $0; next }
    { printf "     %-66s %s\n", line[NR - count], $0 }'
