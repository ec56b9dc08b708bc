#!/bin/sh
# Reads the machine code: only the object of an instruction set may hold its instructions, which is what makes an illegal
# instruction impossible on older machines, and the inner loops of the tiles keep their accumulators in registers.
set -eu
build=$1

fail() { echo "check_isa: $*" >&2; exit 1; }
if ! objdump -f "$build"/obj/arch/scalar/scalar.o | grep -q 'x86-64'; then
    echo "check_isa: not x86-64, nothing to look for"
    exit 0
fi

# forbid PATTERN OBJECT...: no instruction may match
forbid() {
    pattern=$1
    shift
    for object in "$@"; do
        [ -e "$object" ] || continue
        found=$(objdump -d --no-show-raw-insn "$object" | awk -F '\t' -v pattern="$pattern" '$2 ~ pattern' | head -n 3)
        [ -z "$found" ] || fail "$object holds instructions that it may not hold:
$found"
    done
}
# Every AVX instruction begins with v, and no other instruction that a compiler emits does.
baseline=$(find "$build/obj/src" "$build/obj/arch" -name '*.o' ! -name scalarfma.o ! -name 'avx*.o' ! -name 'amx*.o' ! -path '*/reference/*')
# shellcheck disable=SC2086
forbid '^v' $baseline
forbid '%tmm|^ldtilecfg|^vcvtne|^vdpbf16|vpdpbusd' "$build/obj/arch/x86/avx512.o"
forbid '%tmm|^ldtilecfg|^vcvtne|^vdpbf16' "$build/obj/arch/x86/avx512vnni.o"
forbid '%tmm|^ldtilecfg' "$build/obj/arch/x86/avx512bf16.o"
forbid '%zmm|%k[0-7]|%[xy]mm(1[6-9]|2[0-9]|3[01])' "$build/obj/arch/x86/scalarfma.o" "$build/obj/arch/x86/avx2.o" "$build/obj/arch/x86/avxvnni.o"
forbid 'vpdpbusd' "$build/obj/arch/x86/scalarfma.o" "$build/obj/arch/x86/avx2.o"

# inner_loops OBJECT: each innermost loop with a fused multiply-add in a function of the three tiles, as "name: from-to fma stack",
# the last two being how many of its instructions multiply and how many touch the stack.  A loop is what a conditional jump back
# spans, where elements of a row are broadcast and no vector is stored outside the stack, which tells it from jumps between the
# blocks that write the result; innermost: none inside.  Where rows end at different keys (branches inside) vectors alone count, and
# in tiles of small products, 16 rows of which want more pointers than there are registers.
inner_loops() {
    objdump -d --no-show-raw-insn "$1" | awk '
        function report(    i, j, k, inner, stored, broadcast, fma, stack, spilled, branches, remainder) {
            remainder = match(name, /_1x[1-4]/) ? substr(name, RSTART + 3, 1) : 0
            for (i = 0; i < loops; i++) {
                inner = 1; stored = broadcast = 0
                for (j = 0; j < loops; j++)
                    if (first[j] >= first[i] && last[j] <= last[i] && last[j] - first[j] < last[i] - first[i]) inner = 0
                fma = stack = spilled = branches = 0
                for (k = first[i]; k <= last[i]; k++) {
                    if (text[k] ~ /^v(fn?m(add|sub)|dpbf16)/) fma++
                    if (text[k] ~ /^vbroadcastss .*\(|\{1to/) broadcast++
                    if (text[k] ~ /^vm.*,[^,(]*\([^()]*\)(\{%k[0-7]\})?$/ && text[k] !~ /%rsp/) stored++
                    if (text[k] ~ /^j/ && k < last[i]) branches++
                    if (text[k] ~ /\(%rsp/ || (framed && text[k] ~ /\(%rbp/)) { stack++; spilled += text[k] ~ /^v/ }
                }
                if (inner && fma > remainder + 0 && broadcast && !stored)
                    print name, address[first[i]] "-" address[last[i]], fma, branches || name ~ /small_/ ? spilled : stack
            }
        }
        /^[0-9a-f]+ <.*>:$/ {
            if (wanted) report()
            name = $2; wanted = name ~ /(gemm_tile|pair_tile|small_whole|small_cut|score_tile|score_whole|value_prefix|value_pieces|value_whole)/; n = loops = framed = 0
            next
        }
        wanted && /^ *[0-9a-f]+:\t/ {
            split($0, part, "\t")
            here = part[1]; gsub(/[ :]/, "", here)
            address[n] = here; line[name, here] = n; text[n] = part[2]
            if (part[2] ~ /^mov +%rsp,%rbp/) framed = 1
            if (part[2] ~ /^j[^m]/ && split(part[2], jump, / +/) > 1 && (name, jump[2]) in line) {
                first[loops] = line[name, jump[2]]; last[loops++] = n
            }
            n++
        }
        END { if (wanted) report() }'
}

count=0
for isa in avx2 avx512 avx512bf16; do
    object=$build/obj/arch/x86/$isa.o
    [ -e "$object" ] || continue
    loops=$(inner_loops "$object")
    case $isa in
    avx512bf16) tiles=pair_tile ;;
    *) tiles='gemm_tile small_whole small_cut score_tile score_whole value_prefix value_pieces value_whole' ;;
    esac
    for tile in $tiles; do
        echo "$loops" | grep -q "$tile" || fail "no inner loop of $tile found in $object"
    done
    # A tile of one row waits for the latency of its sums; clang 14 stores them meanwhile.
    spilled=$(echo "$loops" | awk '$4 > 0 && $1 !~ /_1x[1-4]>/')
    [ -z "$spilled" ] || fail "inner loops of $object touch the stack (function, addresses, multiply-adds, stack accesses):
$spilled"
    count=$((count + $(echo "$loops" | wc -l)))
done
echo "check_isa: no instruction outside its object, no stack access in $count inner loops of the tiles"
