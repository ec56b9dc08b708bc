#!/bin/sh
# The command line tool from outside: exit status, messages, results on small .npy files made here by printf, files that are cut
# short or damaged byte by byte, and, where python3 has NumPy, random tensors and options against NumPy (tool_numpy.py).
#
#   tool_test.sh path/to/heed          EMULATOR: command that runs it      PYTHON: [python3]
set -eu
tests=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=/dev/null
. "$tests/tool_harness.sh"

test_commands() {
    run 0 --help
    says stdout 'Usage: heed'
    run 0 run --help
    says stdout 'Usage: heed'
    options=$(grep -o -e '--[a-z-]*' stdout | sort -u)
    for option in $options; do
        sed 's/\\-/-/g' "$tests/../examples/heed/heed.1" | grep -qF -e "$option" || die "the manual page has no $option"
    done
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

# Tensors of 16 bits, each type beside the others; bfloat16 as ml_dtypes saves it, and as NumPy does once it has read that.
test_types() {
    { header "$(fields '<f2' False '1, 2')" && f2 0 0; } >q.npy
    { header "$(fields '|V2' False '2, 2')" && bf 1 2 3 4; } >k.npy
    { header "$(fields '<f2' False '2, 2')" && f2 1 2 3 4; } >v.npy
    npy '1, 2' 2 3 >want.npy
    run 0 run --query q.npy --key k.npy --value v.npy -o out.npy && same_file out.npy want.npy
    run 0 run --query q.npy --key v.npy --value k.npy -o out.npy --output-type f32 && same_file out.npy want.npy
    { header "$(fields '<V2' False '1, 2')" && bf 2 3; } >want.npy
    run 0 run --query q.npy --key k.npy --value v.npy -o out.npy --output-type bf16 --weights w.npy && same_file out.npy want.npy
    says stdout 'out.npy: bfloat16 [1, 2]'
    says stdout 'w.npy: float32 [1, 2]'
    { header "$(fields '<f2' False '1, 2')" && f2 2 3; } >want.npy
    run 0 run --query q.npy --key k.npy --value k.npy -o out.npy --output-type=f16 && same_file out.npy want.npy
    says stdout 'out.npy: float16 [1, 2]'
    run 0 run --query v.npy --key v.npy --value v.npy -o v.npy --output-type=f16
}

# A query of 0 at position 0 of two keys, with one option or a few: its output and, if asked for, its scores.
test_options() {
    npy '1, 2' 0 0 >q.npy
    npy '2, 2' 1 2 3 4 >kv.npy
    npy '1, 2' 1 2 >first.npy && npy '1, 2' 3 4 >second.npy && npy '1, 2' 2 3 >both.npy
    flags '2,' 0 1 >m.npy
    flags '1, 1, 1, 1' 1 >all.npy
    { header "$(fields '|u1' False '1, 2')" && printf '\000\377'; } >u.npy
    npy '2,' -inf 0 >b.npy
    lengths 1 >n.npy
    npy '1,' 0 >s.npy
    npy '1,' 1 >a.npy
    gives() {
        wanted_file=$1
        shift
        run 0 run --query q.npy --key kv.npy --value kv.npy -o out.npy "$@"
        same_file out.npy "$wanted_file.npy"
    }
    gives second --mask m.npy
    gives second --mask=u.npy
    gives both --mask all.npy
    gives second --bias b.npy
    gives first --key-lengths n.npy
    gives first --window 0,0
    gives both --window=-1,1
    gives second --window 0,0 --align bottom-right
    gives second --window=0,-1 --align=1
    gives both --causal=1
    gives both --softcap 2
    npy '1, 2' 0.5 1 >half.npy
    gives half --key-lengths n.npy --sinks s.npy

    npy '1, 2' ln2 1 >kv.npy && npy '1, 2' ln2-of-bf16 1 >rounded.npy
    gives kv --compute f32
    gives rounded --compute=bf16
    gives rounded --compute bf16-amx
    npy '2, 2' 1 2 3 4 >kv.npy

    npy '1, 2' 0 -1 >biased.npy && npy '1, 2' 0 0 >raw.npy && npy '1, 2' 0 -inf >seen.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy -o out.npy --alibi=a.npy --scores x.npy --score-stage biased
    says stdout 'x.npy: float32 [1, 2]'
    same_file x.npy biased.npy
    for stage in '' --score-stage=raw --score-stage=capped; do
        # shellcheck disable=SC2086 # none or one
        gives both --bias raw.npy --scores x.npy --mask all.npy $stage
        same_file x.npy raw.npy
    done
    gives first --causal --scores x.npy
    same_file x.npy seen.npy
    rm out.npy
    run 0 run --query q.npy --key kv.npy --value kv.npy --explain --alibi --isa scalar
    says stdout '"isa": "scalar"'
    [ "$(sed -n '1p;$p' stdout | tr -d '\n')" = '{}' ] || die "--explain prints no JSON object: $(cat stdout)"
    run 0 run --query q.npy --key kv.npy --value kv.npy --explain -o out.npy
    [ ! -e out.npy ] || die '--explain writes out.npy'
}

# Files of the options that do not fit.
test_option_files() {
    npy '2, 2' 0 0 0 0 >q.npy
    npy '3,' 0 1 2 >wrong.npy && npy '2, 1' 0 0 >matrix.npy && flags '3, 2' 0 0 0 0 0 0 >m.npy
    lengths 3 >n.npy
    unfit() {
        text=$1
        shift
        fails 1 "$text" run --query q.npy --key q.npy --value q.npy -o out.npy "$@"
    }
    scores='must broadcast to [1, 1, 2, 2]: batch, heads, query tokens, key tokens'
    unfit "--mask m.npy: the shape is [3, 2], $scores" --mask m.npy
    unfit "--bias wrong.npy: the shape is [3], $scores" --bias wrong.npy
    unfit '--sinks wrong.npy: the shape is [3], must be [1]: heads' --sinks wrong.npy
    unfit '--alibi wrong.npy: the shape is [3], must be [2]: heads' --alibi=wrong.npy --heads 2
    unfit 'key_lengths[0] is 3, must be from 0 to 2' --key-lengths n.npy
    unfit 'wrong.npy: descr (the dtype) is <f4, must be |b1 or |u1: bool or uint8' --mask wrong.npy
    unfit 'm.npy: descr (the dtype) is |b1, must be <f4 or <f8' --bias m.npy
    { header "$(fields '<f2' False '2,')" && f2 0 0; } >half.npy
    unfit 'half.npy: descr (the dtype) is <f2, must be <f4 or <f8' --bias half.npy
    unfit 'wrong.npy: descr (the dtype) is <f4, must be <i8: little-endian int64' --key-lengths wrong.npy
    unfit 'matrix.npy: shape has 2 dimensions, must have 1' --sinks matrix.npy
    unfit 'nowhere.npy: cannot open' --mask nowhere.npy
    unfit 'nowhere.npy: cannot open' --explain --bias nowhere.npy
    npy '2, 2, 1' 0 0 0 0 >q3.npy && { header "$(fields '<i8' False '3,')" && f8 0 0 0; } >n.npy
    fails 1 '--key-lengths n.npy: the shape is [3], must be [2]: batch' \
        run --query q3.npy --key q3.npy --value q3.npy -o out.npy --key-lengths n.npy --heads 1
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
    fails 2 '--causal is sideways, must be' "$@" -o out.npy --causal=sideways
    fails 2 '--align is 1x, must be' "$@" -o out.npy --align 1x
    for softcap in 0 -1 inf x; do
        fails 2 "--softcap is $softcap, must be" "$@" -o out.npy --softcap "$softcap"
    done
    for window in 1 '1,' ',1' -2,0 0,-2 1,2,3 a,b; do
        fails 2 "--window is $window, must be LEFT,RIGHT" "$@" -o out.npy --window "$window"
    done
    fails 2 '--output-type is int8, must be f32, bf16 or f16' "$@" -o out.npy --output-type int8
    fails 2 '--compute is f16, must be f32, bf16 or bf16-amx' "$@" -o out.npy --compute f16
    fails 2 '--score-stage is cooked, must be raw, capped or biased' "$@" -o out.npy --scores x.npy --score-stage cooked
    fails 2 '--score-stage needs --scores' "$@" -o out.npy --score-stage raw
    fails 2 '--explain' "$@" --explain=yes
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
    for dtype in '>f4' '>f2' '<V4' '<V' '<i4' '<f16' '|b1' '<c8' '|O' ''; do
        rejected_header "descr (the dtype) is $dtype, must be" "$(fields "$dtype" False '1, 2')"
    done
    rejected_header "descr (the dtype) is [('a', '<f4')]" "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1, 2), }"
    { header "$(fields '<f2' False '1, 2')" && f4 0 0; } >bad.npy && rejected '8 bytes of data after the header, but shape and dtype need 4'
    { header "$(fields '<V2' False '1, 3')" && f4 0; } >bad.npy && rejected '4 bytes of data after the header, but shape and dtype need 6'
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
            survives "byte $position set to $byte" run --query bad.npy --key kv.npy --value kv.npy -o out.npy
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
    "$python" "$tests/tool_numpy.py" "${heed:?}" || die 'heed run differs from NumPy'
    checks=$((checks + 1))
}

test_commands
test_results
test_layouts
test_types
test_options
test_option_files
test_command_line
test_shapes
test_files
test_headers
test_damage
test_numpy
echo "tool_test: all $checks checks of $(basename "${heed:?}") passed"
