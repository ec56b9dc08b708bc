#!/bin/sh
# An engine that links heed must not find a name taken by it: everything global begins with heed_, and the shared library shows what
# heed.h declares, in the version that heed.h has, nothing else.  An object built with an instruction set's flags may share no code
# with others, or the linker could pick its copy for a machine that cannot run it: such an object has no global symbols but its tables.
# Nor may a library that was built without-openmp, the third argument, ask for OpenMP.
set -eu
source=$1 build=$2 openmp=${3-}

fail() { echo "check_symbols: $*" >&2; exit 1; }
# Symbols of type A are the names of versions.
globals() { nm -g --defined-only "$@" | awk 'NF == 3 && $2 != "A" { print $3 }' | sort; }

alien=$(globals "$build/libheed.a" | grep -v '^heed_' || true)
[ -z "$alien" ] || fail "global names in libheed.a without heed_: $alien"

# Of version 0.1.2 the interface is HEED_0.1.
interface=$(sed -n 's/^#define HEED_VERSION "\(.*\)\..*"/HEED_\1/p' "$source/include/heed.h")
declared=$(grep -o 'heed_[a-z0-9_]*(' "$source/include/heed.h" | sort -u | sed "s/(/@@$interface/")
exported=$(globals -D "$build/libheed.so")
[ "$declared" = "$exported" ] || fail "heed.h declares
$declared
but libheed.so exports
$exported"

if [ "$openmp" = without-openmp ]; then
    wanted=$(nm -u "$build/libheed.a" "$build/libheed.so" | grep -E ' (omp|GOMP|__kmpc)_' || true)
    [ -z "$wanted" ] || fail "built without OpenMP, but asks for $wanted"
fi

tables=0
for object in "$build"/obj/arch/*/*.o; do
    name=$(basename "$object" .o)
    [ "$name" != cpu ] || continue
    others=$(globals "$object" | grep -vE '^heed_(kernels|dots|i8)_[a-z0-9]+$' || true)
    [ -z "$others" ] || fail "$object has other global symbols than tables: $others"
    tables=$((tables + $(globals "$object" | grep -c '^heed_kernels_' || true)))
done
echo "check_symbols: $(echo "$exported" | wc -l) functions exported as $interface, $tables kernel tables, no other global name"
