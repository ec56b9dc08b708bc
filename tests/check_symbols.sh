#!/bin/sh
# An engine that links heed must not find a name taken by it: everything global begins with heed_, and the shared library shows what
# heed.h declares, nothing else.  An object built with an instruction set's flags may share no code with others, or the linker could
# pick its copy for a machine that cannot run it: such an object has one global symbol, its table.
set -eu
source=$1 build=$2

fail() { echo "check_symbols: $*" >&2; exit 1; }
globals() { nm -g --defined-only "$@" | awk 'NF == 3 { print $3 }' | sort; }

alien=$(globals "$build/libheed.a" | grep -v '^heed_' || true)
[ -z "$alien" ] || fail "global names in libheed.a without heed_: $alien"

declared=$(grep -o 'heed_[a-z0-9_]*(' "$source/include/heed.h" | tr -d '(' | sort -u)
exported=$(globals -D "$build/libheed.so")
[ "$declared" = "$exported" ] || fail "heed.h declares
$declared
but libheed.so exports
$exported"

tables=0
for object in "$build"/obj/arch/*/*.o; do
    name=$(basename "$object" .o)
    [ "$name" != cpu ] || continue
    found=$(globals "$object")
    [ "$found" = "heed_kernels_$name" ] || fail "$object has other global symbols than its table: $found"
    tables=$((tables + 1))
done
echo "check_symbols: $(echo "$exported" | wc -l) functions exported, $tables kernel tables, no other global name"
