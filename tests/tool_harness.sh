#!/bin/sh
# What tool_test.sh, which reads this with its own arguments, is made of: runs of the tool in a folder of their own, what they must
# say, and .npy files made by printf.
set -eu
unset HEED_ISA
# Under the address sanitizer too, memory that cannot be had is for the tool to report.
export ASAN_OPTIONS="allocator_may_return_null=1${ASAN_OPTIONS:+:$ASAN_OPTIONS}"
heed=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
directory=$(mktemp -d)
trap 'rm -rf "$directory"' EXIT
trap 'exit 1' HUP INT TERM
cd "$directory"
checks=0

die() {
    echo "tool_test: $*" >&2
    [ ! -s stderr ] || sed 's/^/    stderr: /' stderr >&2
    exit 1
}

# attempt ARGUMENT...: runs the tool, whose output goes to the files stdout and stderr, and sets status.
attempt() {
    status=0
    # shellcheck disable=SC2086 # a list of words
    ${EMULATOR-} "$heed" "$@" >stdout 2>stderr || status=$?
}

# run STATUS ARGUMENT...: the same, with this exit status.
run() {
    wanted=$1
    shift
    attempt "$@"
    [ "$status" = "$wanted" ] || die "heed $* exits with $status, not $wanted"
    checks=$((checks + 1))
}

# survives WHAT ARGUMENT...: succeeds, or fails with a message.
survives() {
    what=$1
    shift
    attempt "$@"
    [ "$status" = 0 ] || { [ "$status" = 1 ] && grep -q '^heed: ' stderr; } || die "$what: exit status $status"
    checks=$((checks + 1))
}

# says FILE TEXT: the text is in the file.
says() { grep -qF -e "$2" "$1" || die "no '$2' in $1: $(cat "$1")"; }

# fails STATUS TEXT ARGUMENT...: fails with that text in a single message of heed, prints nothing, writes no result.
fails() {
    text=$2
    wanted=$1
    shift 2
    rm -f out.npy
    run "$wanted" "$@"
    says stderr "$text"
    [ "$(grep -c '^heed: ' stderr)" = 1 ] || die "heed $* must complain once"
    [ ! -s stdout ] || die "heed $* fails, yet prints: $(cat stdout)"
    [ ! -e out.npy ] || die "heed $* fails, yet writes out.npy"
}

# f4 NUMBER..., f8 NUMBER...: the bytes of little-endian floats, for the numbers that the tests need.
f4() {
    for number; do
        case $number in
        -inf) printf '\000\000\200\377' ;;
        -1) printf '\000\000\200\277' ;;
        0) printf '\000\000\000\000' ;;
        0.5) printf '\000\000\000\077' ;;
        ln2) printf '\030\162\061\077' ;;
        ln2-of-bf16) printf '\000\000\061\077' ;;
        1) printf '\000\000\200\077' ;;
        2) printf '\000\000\000\100' ;;
        3) printf '\000\000\100\100' ;;
        4) printf '\000\000\200\100' ;;
        *) die "f4 does not know $number" ;;
        esac
    done
}
f8() {
    for number; do
        printf '\000\000\000\000\000\000'
        case $number in
        0) printf '\000\000' ;;
        1) printf '\360\077' ;;
        2) printf '\000\100' ;;
        3) printf '\010\100' ;;
        4) printf '\020\100' ;;
        *) die "f8 does not know $number" ;;
        esac
    done
}

# f2 NUMBER..., bf NUMBER...: the same of float16 and bfloat16.
f2() {
    for number; do
        case $number in
        0) printf '\000\000' ;;
        1) printf '\000\074' ;;
        2) printf '\000\100' ;;
        3) printf '\000\102' ;;
        4) printf '\000\104' ;;
        *) die "f2 does not know $number" ;;
        esac
    done
}
bf() { for number; do f4 "$number" | tail -c 2; done; }

# header TEXT: format 1.0, padded to 128 bytes.
header() {
    printf '\223NUMPY\001\000\166\000'
    printf '%-117s\n' "$1"
}
fields() { printf "{'descr': '%s', 'fortran_order': %s, 'shape': (%s), }" "$1" "$2" "$3"; }

# npy SHAPE NUMBER...: a whole file.
npy() {
    header "$(fields '<f4' False "$1")"
    shift
    f4 "$@"
}

# flags SHAPE BIT...: a file of bool; lengths NUMBER: one of int64.
flags() {
    header "$(fields '|b1' False "$1")"
    shift
    # shellcheck disable=SC2059 # the format is the byte
    for bit; do printf "\\00$bit"; done
}
lengths() {
    header "$(fields '<i8' False '1,')"
    # shellcheck disable=SC2059
    printf "\\00$1\\000\\000\\000\\000\\000\\000\\000"
}

same_file() { cmp "$1" "$2" >&2 || die "$1 is not as expected: $(od -An -c "$1" | tail -n +8)"; }
