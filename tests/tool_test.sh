#!/bin/sh
# The command line tool from outside: exit status, messages, results on small .npy files made here by printf, files that are cut
# short or damaged byte by byte, and, where python3 has NumPy, random tensors against NumPy.
#
#   tool_test.sh path/to/heed          EMULATOR: command that runs it      PYTHON: [python3]
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

# run STATUS ARGUMENT...: runs the tool, whose output goes to the files stdout and stderr.
run() {
    wanted=$1
    shift
    status=0
    # shellcheck disable=SC2086 # a list of words
    ${EMULATOR-} "$heed" "$@" >stdout 2>stderr || status=$?
    [ "$status" = "$wanted" ] || die "heed $* exits with $status, not $wanted"
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
        0) printf '\000\000\000\000' ;;
        0.5) printf '\000\000\000\077' ;;
        ln2) printf '\030\162\061\077' ;;
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

same_file() { cmp "$1" "$2" >&2 || die "$1 is not as expected: $(od -An -c "$1" | tail -n +8)"; }

test_commands() {
    run 0 --help
    says stdout 'Usage: heed'
    run 0 run --help
    says stdout 'Usage: heed'
    run 0 --version
    says stdout 'heed '
    run 2
    says stderr 'Usage: heed'
    fails 2 'unknown command frobnicate' frobnicate
    fails 2 'info takes no arguments' info now
    fails 2 'demo takes no arguments' demo now
    run 0 info
    says stdout 'chosen'
    says stdout 'scalar'
    HEED_ISA=scalar
    export HEED_ISA
    run 0 info
    says stdout 'chosen         scalar, by HEED_ISA'
    HEED_ISA=mmx
    run 1 info
    says stderr 'mmx'
    says stderr 'scalar'
    fails 1 'mmx' demo
    unset HEED_ISA
}

# Queries of 0 weigh all keys that they see alike, so every result is known exactly.
test_results() {
    npy '1, 2' 0 0 >q.npy
    npy '2, 2' 1 2 3 4 >kv.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy -o out.npy --weights w.npy --lse=l.npy
    says stdout 'out.npy: float32 [1, 2]'
    npy '1, 2' 2 3 >want.npy && same_file out.npy want.npy
    npy '1, 2' 0.5 0.5 >want.npy && same_file w.npy want.npy
    npy '1,' ln2 >want.npy && same_file l.npy want.npy
    npy '1, 2' 1 2 >want.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy --output out.npy --causal
    same_file out.npy want.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy -o out.npy --causal=top-left --scale -0.25
    same_file out.npy want.npy
    npy '1, 2' 2 3 >want.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy -o out.npy --causal=bottom-right
    same_file out.npy want.npy

    { header "$(fields '<f8' False '2, 2')" && f8 1 2 3 4; } >kv8.npy
    run 0 run --query q.npy --key kv8.npy --value kv8.npy -o out.npy
    same_file out.npy want.npy
    {
        printf '\223NUMPY\002\000\077\000\000\000'
        printf '%-62s\n' '{"shape":(1,2),"descr":"<f4","fortran_order":False}'
        f4 0 0
    } >q2.npy
    run 0 run --query q2.npy --key kv.npy --value kv.npy -o out.npy --isa scalar --threads 3
    same_file out.npy want.npy
    run 0 run --query kv.npy --key kv.npy --value kv.npy -o kv8.npy # a result may replace an input
}

# Two tokens, two heads of width 2, causal: the first token gets its own value, the second the mean of both.
test_layouts() {
    npy '2, 4' 0 0 0 0 0 0 0 0 >q.npy
    npy '2, 4' 1 2 3 4 3 4 1 2 >v.npy
    run 0 run --query q.npy --key q.npy --value v.npy --heads 2 --causal -o out.npy --weights w.npy --lse l.npy
    npy '2, 4' 1 2 3 4 2 3 2 3 >want.npy && same_file out.npy want.npy
    npy '2, 2, 2' 1 0 0.5 0.5 1 0 0.5 0.5 >want.npy && same_file w.npy want.npy
    npy '2, 2' 0 ln2 0 ln2 >want.npy && same_file l.npy want.npy

    npy '1, 2, 4' 0 0 0 0 0 0 0 0 >q3.npy
    npy '1, 2, 4' 1 2 3 4 3 4 1 2 >v3.npy
    run 0 run --query q3.npy --key q3.npy --value v3.npy --heads 2 --causal -o out.npy --weights w.npy --lse l.npy
    npy '1, 2, 4' 1 2 3 4 2 3 2 3 >want.npy && same_file out.npy want.npy
    npy '1, 2, 2, 2' 1 0 0.5 0.5 1 0 0.5 0.5 >want.npy && same_file w.npy want.npy
    npy '1, 2, 2' 0 ln2 0 ln2 >want.npy && same_file l.npy want.npy

    npy '2, 2, 2' 0 0 0 0 0 0 0 0 >q3.npy
    npy '2, 2, 2' 1 2 3 4 3 4 1 2 >v3.npy
    run 0 run --query q3.npy --key q3.npy --value v3.npy --causal -o out.npy --weights w.npy
    npy '2, 2, 2' 1 2 2 3 3 4 2 3 >want.npy && same_file out.npy want.npy
    npy '1, 2, 2, 2' 0 0 0 0 0 0 0 0 >q4.npy
    npy '1, 2, 2, 2' 1 2 3 4 3 4 1 2 >v4.npy
    run 0 run --query q4.npy --key q4.npy --value v4.npy --causal -o out.npy --weights w.npy
    npy '1, 2, 2, 2' 1 2 2 3 3 4 2 3 >want.npy && same_file out.npy want.npy
    npy '1, 2, 2, 2' 1 0 0.5 0.5 1 0 0.5 0.5 >want.npy && same_file w.npy want.npy

    npy '2, 2' 0 0 0 0 >k.npy
    npy '2, 2' 1 2 3 4 >v.npy
    run 0 run --query q.npy --key k.npy --value v.npy --heads 2 --kv-heads 1 --causal -o out.npy
    npy '2, 4' 1 2 1 2 2 3 2 3 >want.npy && same_file out.npy want.npy
    npy '0, 2' >k.npy # no keys: a result of zeros
    run 0 run --query q.npy --key k.npy --value k.npy --heads 2 --kv-heads 1 -o out.npy --weights w.npy
    npy '2, 4' 0 0 0 0 0 0 0 0 >want.npy && same_file out.npy want.npy
    npy '2, 2, 0' >want.npy && same_file w.npy want.npy
}

test_command_line() {
    npy '1, 2' 0 0 >q.npy
    set -- run --query q.npy --key q.npy --value q.npy
    fails 2 'needs -o FILE' "$@"
    fails 2 'needs --query FILE' run --key q.npy --value q.npy -o out.npy
    fails 2 'needs --key FILE' run --query q.npy --value q.npy -o out.npy
    fails 2 'needs --value FILE' run --query q.npy --key q.npy -o out.npy
    fails 2 'needs a value' "$@" -o
    fails 2 '--frobnicate' "$@" -o out.npy --frobnicate
    fails 2 '-x' "$@" -o out.npy -x
    fails 2 'stray' "$@" -o out.npy stray
    for count in 0 -1 two 2x '' 99999999999999999999; do
        fails 2 "--heads is $count, must be" "$@" -o out.npy --heads "$count"
        fails 2 "--threads is $count, must be" "$@" -o out.npy --threads "$count"
    done
    fails 2 '--threads is 1025' "$@" -o out.npy --threads 1025
    for scale in 0 inf nan 1x '' 1e99; do
        fails 2 "--scale is $scale, must be" "$@" -o out.npy --scale "$scale"
    done
    fails 2 '--causal is sideways' "$@" -o out.npy --causal=sideways
    fails 2 '--kv-heads needs --heads' "$@" -o out.npy --kv-heads 1
    fails 2 'different files' "$@" -o out.npy --weights out.npy
    fails 1 'mmx' "$@" -o out.npy --isa mmx
    fails 1 'q.npy: the last dimension is 2, must be a multiple' "$@" -o out.npy --heads 3
    fails 1 'nowhere/out.npy: cannot create' "$@" -o nowhere/out.npy
}

# one of the three inputs at a time does not fit the others
test_shapes() {
    npy '2, 4' 0 0 0 0 0 0 0 0 >q.npy
    npy '2, 3' 0 0 0 0 0 0 >narrow.npy
    npy '1, 4' 0 0 0 0 >short.npy
    npy '1, 2, 4' 0 0 0 0 0 0 0 0 >deep.npy
    npy '2, 0' >empty.npy
    npy '1, 1, 1, 4' 0 0 0 0 >deepest.npy
    npy '3, 1, 1' 0 0 0 >three.npy
    npy '2, 1, 1' 0 0 >two.npy
    refuse() {
        query=$1 key=$2 value=$3 text=$4
        shift 4
        fails 1 "$text" run --query "$query.npy" --key "$key.npy" --value "$value.npy" -o out.npy "$@"
    }
    refuse q narrow q 'narrow.npy: the width of a head is 3, must be 4 as in q.npy'
    refuse q q short 'short.npy: the number of tokens is 1, must be 2 as in q.npy'
    refuse q deep q 'deep.npy: the number of dimensions is 3, must be 2 as in q.npy'
    refuse empty empty q 'empty.npy: the last dimension is 0, must be at least 1'
    refuse three two two 'num_kv_heads'
    refuse three three two 'two.npy: the number of heads is 2, must be 3 as in three.npy'
    refuse deepest deepest deepest 'deepest.npy: the number of dimensions is 4' --heads 2
}

# rejected TEXT: the file bad.npy is refused with a message that names it.
rejected() { fails 1 "bad.npy: $1" run --query bad.npy --key kv.npy --value kv.npy -o out.npy; }
rejected_header() {
    { header "$2" && f4 0 0; } >bad.npy
    rejected "$1"
}

test_files() {
    npy '2, 2' 1 2 3 4 >kv.npy
    rm -f bad.npy
    rejected 'cannot open'
    mkdir bad.npy && rejected 'not a regular file' && rmdir bad.npy
    mkfifo bad.npy && rejected 'not a regular file' && rm bad.npy
    : >bad.npy && rejected 'not an .npy file'
    echo 'a text file, not an array' >bad.npy && rejected 'not an .npy file'
    { npy '1, 2' 0 0 && printf x; } >bad.npy && rejected '9 bytes of data after the header, but shape and dtype need 8'
    { printf '\223NUMPY\003\000\166\000' && npy '1, 2' 0 0 | tail -c +11; } >bad.npy && rejected 'format version is 3.0'
    { printf '\223NUMPY\001\001\166\000' && npy '1, 2' 0 0 | tail -c +11; } >bad.npy && rejected 'format version is 1.1'
    printf '\223NUMPY\002\000\377\377\377\377' >bad.npy && rejected "the header's size is 4294967295 bytes"
    printf '\223NUMPY\001\000\377\377{' >bad.npy && rejected 'the file ends within its header of 65535 bytes'
    # a result that no memory can hold
    npy '1, 1' 0 >q.npy && npy '0, 1' >k.npy && npy '0, 1152921504606846975' >bad.npy
    fails 1 'out.npy: out of memory' run --query q.npy --key k.npy --value bad.npy -o out.npy
}

test_headers() {
    npy '2, 2' 1 2 3 4 >kv.npy
    for dtype in '>f4' '<f2' '<i4' '<f16' '|b1' '<c8' '|O' ''; do
        rejected_header "descr (the dtype) is $dtype, must be" "$(fields "$dtype" False '1, 2')"
    done
    rejected_header "descr (the dtype) is [('a', '<f4')]" "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2), }"
    rejected_header 'fortran_order is True' "$(fields '<f4' True '1, 2')"
    rejected_header 'fortran_order is 0' "$(fields '<f4' 0 '1, 2')"
    for shape in '1 2' '-1, 2' ',' '1.5, 2' '1, 99999999999999999999' 'None' '1,, 2'; do
        rejected_header 'shape is' "$(fields '<f4' False "$shape")"
    done
    rejected_header 'shape has 0 dimensions' "$(fields '<f4' False '')"
    rejected_header 'shape has 1 dimension,' "$(fields '<f4' False '2,')"
    rejected_header 'shape has more than 4' "$(fields '<f4' False '1, 1, 1, 1, 2')"
    rejected_header 'the sizes in shape multiply' "$(fields '<f4' False '4294967296, 4294967296')"
    rejected_header 'the sizes in shape multiply' "$(fields '<f4' False '0, 4294967296, 4294967296')"
    rejected_header '8 bytes of data after the header, but shape and dtype need 4000000000000: the file is truncated' \
        "$(fields '<f4' False '1000000, 1000000')"
    rejected_header 'the header is nothing' 'nothing'
    rejected_header 'the header has no field shape' "{'descr': '<f4', 'fortran_order': False, }"
    rejected_header 'the header has no field descr' "{'fortran_order': False, 'shape': (1, 2), }"
    rejected_header 'the header has field descr twice' "{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (1, 2), }"
    rejected_header 'the header has an unknown field colour' "{'colour': 'red', 'descr': '<f4', 'shape': (1, 2), }"
    rejected_header 'the header goes on with' "$(fields '<f4' False '1, 2') more"
    rejected_header 'the header goes on with' "{'descr': '<f4' 'fortran_order': False, 'shape': (1, 2), }"
    rejected_header 'the header has' "{'descr: <f4"
    printf '{"a":\033[31m' | { header "$(cat)" && f4 0 0; } >bad.npy && rejected 'the header has'
    if grep -q "$(printf '\033')" stderr; then die 'an escape sequence of the file reaches the terminal'; fi
}

# Every shorter file is refused; a file with any byte of its header changed is refused or read, but nothing crashes.
test_damage() {
    npy '2, 2' 1 2 3 4 >kv.npy
    step=1
    [ -z "${EMULATOR-}" ] || step=13
    length=0
    while [ "$length" -lt 144 ]; do
        dd if=kv.npy of=bad.npy bs=1 count="$length" 2>dd.log
        rejected ''
        length=$((length + step))
    done
    position=0
    while [ "$position" -lt 128 ]; do
        for byte in '\377' '\000' '9' '('; do
            cp kv.npy bad.npy
            # shellcheck disable=SC2059 # the format is the byte
            printf "$byte" | dd of=bad.npy bs=1 seek="$position" conv=notrunc 2>dd.log
            status=0
            # shellcheck disable=SC2086 # a list of words
            ${EMULATOR-} "$heed" run --query bad.npy --key kv.npy --value kv.npy -o out.npy >stdout 2>stderr || status=$?
            [ "$status" = 0 ] || { [ "$status" = 1 ] && grep -q '^heed: ' stderr; } ||
                die "byte $position set to $byte: exit status $status"
            checks=$((checks + 1))
        done
        position=$((position + step))
    done
}

test_numpy() {
    python=${PYTHON-python3}
    if ! "$python" -c 'import numpy' 2>python.log; then
        echo 'tool_test: no python3 with NumPy here: results are not compared with NumPy'
        return
    fi
    "$python" - "$heed" <<'END' || die 'heed run differs from NumPy'
import itertools, os, shlex, subprocess, sys
import numpy as np

command = shlex.split(os.environ.get("EMULATOR", "")) + [sys.argv[1], "run"]
u = 2.0**-24
rng = np.random.default_rng(7)

def reference(q, k, v, scale, causal):
    """Output and weights of [batch, heads, tokens, dim] in float64, and the bound of heed's error (derived in seed_bounds.h)."""
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], axis=1).astype(np.float64) for x in (k, v))
    q = q.astype(np.float64)
    scores = scale * q @ k.swapaxes(-1, -2)
    error = abs(scale) * (q.shape[-1] + 3) * u * (abs(q) @ abs(k).swapaxes(-1, -2))
    shift = {"none": k.shape[2], "top-left": 0, "bottom-right": k.shape[2] - q.shape[2]}[causal]
    seen = np.tri(q.shape[2], k.shape[2], shift, dtype=bool)
    top = np.where(seen, scores, -np.inf).max(-1, keepdims=True)
    weights = np.where(seen, np.exp(scores - top), 0)
    weights /= weights.sum(-1, keepdims=True)
    t = np.where(seen, error + u * abs(top - scores) + 2 * u, 0).max(-1, keepdims=True)
    relative = np.expm1(2 * t) + (k.shape[2] + 2) * u
    return weights @ v, weights, (relative + (k.shape[2] + 2) * u) * (weights @ abs(v)), relative * weights + 2.0**-126

def layouts(x, split):
    """The same tensor as files of 4 and 3 (and, without a batch, 2) dimensions."""
    b, h, t, d = x.shape
    if not split:
        return x if b > 1 else x[0]
    rows = x.swapaxes(1, 2).reshape(b, t, h * d)
    return rows if b > 1 else rows[0]

def check(batch, heads, kv_heads, queries, keys, dim, value_dim, causal, split, dtype):
    q, k, v = (rng.standard_normal(s).astype(dtype) for s in
               ((batch, heads, queries, dim), (batch, kv_heads, keys, dim), (batch, kv_heads, keys, value_dim)))
    for name, x in (("q", q), ("k", k), ("v", v)):
        np.save(name + ".npy", np.ascontiguousarray(layouts(x, split)))
    arguments = "--query q.npy --key k.npy --value v.npy -o out.npy --weights w.npy".split()
    arguments += ["--heads", str(heads), "--kv-heads", str(kv_heads)] if split else []
    arguments += ["--causal=" + causal] if causal != "none" else []
    subprocess.run(command + arguments, check=True, stdout=subprocess.DEVNULL)
    q, k, v = (x.astype(np.float32) for x in (q, k, v))
    output, weights, bound, weight_bound = reference(q, k, v, 1 / np.sqrt(dim), causal)
    got, got_weights = np.load("out.npy"), np.load("w.npy")
    want = layouts(output, split)
    assert got.dtype == np.float32 and got.shape == want.shape, (got.shape, want.shape)
    assert got_weights.size == weights.size, (got_weights.shape, weights.shape)
    assert (abs(got - want) <= layouts(bound, split)).all(), ("output", batch, heads, queries, keys, causal, split)
    assert (abs(got_weights.reshape(weights.shape) - weights) <= weight_bound).all(), ("weights", heads, queries, keys, causal)

count = 0
cases = itertools.product(("none", "top-left", "bottom-right"), (False, True), (1, 2), (np.float32, np.float64))
for causal, split, batch, dtype in cases:
    check(batch, 4, 2, 37, 300, 20, 33, causal, split, dtype)
    check(batch, 3, 1, 1, 70, 64, 64, causal, split, dtype)
    count += 2
print(f"tool_test: {count} random calls agree with NumPy {np.__version__}")
END
    checks=$((checks + 1))
}

test_commands
test_results
test_layouts
test_command_line
test_shapes
test_files
test_headers
test_damage
test_numpy
echo "tool_test: all $checks checks of $(basename "$heed") passed"
