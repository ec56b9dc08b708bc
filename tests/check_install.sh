#!/bin/sh
# What make install leaves must be enough to build against, outside the tree: the README's example and its twin in C++, shared and
# static, by pkg-config, by CMake and with nothing but paths, without a warning; and all must print the same.
set -eu
source=$(cd "$1" && pwd) build=$2
root=$PWD/$build/install
libdir=$root/usr/lib
rm -rf "$root" "$build/consumer"
mkdir -p "$build/consumer"
${MAKE:-make} -s install DESTDIR="$root" PREFIX=/usr
for file in include/heed.h lib/libheed.a lib/libheed.so lib/libheed.so.0 lib/pkgconfig/heed.pc bin/heed share/man/man1/heed.1; do
    [ -e "$root/usr/$file" ] || { echo "check_install: no $file" >&2; exit 1; }
done

cd "$build/consumer"
awk '/^```c$/ { inside = 1; next } /^```$/ { if (inside) exit } inside' "$source/README.md" >c.c
cp "$source/examples/attention_cxx.cc" cxx.cc
PKG_CONFIG_LIBDIR=$libdir/pkgconfig:$(${PKG_CONFIG:-pkg-config} --variable pc_path pkg-config)
PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
warnings='-Wall -Wextra -Wshadow -Wpedantic -Wconversion -Werror'

# consumer LANGUAGE COMPILER...: its four programs without CMake
consumer() {
    language=$1
    shift
    file=$(echo "$language".c*)
    # shellcheck disable=SC2046 # lists of flags
    {
        "$@" -o "package_shared_$language" "$file" $(${PKG_CONFIG:-pkg-config} --cflags --libs heed)
        "$@" -o "package_static_$language" "$file" $(${PKG_CONFIG:-pkg-config} --static --cflags --libs heed | sed 's/-lheed/-l:libheed.a/')
    }
    # shellcheck disable=SC2086 # the same
    {
        "$@" -I"$root/usr/include" -o "plain_shared_$language" "$file" -L"$libdir" -lheed
        "$@" -I"$root/usr/include" -o "plain_static_$language" "$file" "$libdir/libheed.a" ${LIBS-}
    }
}
# shellcheck disable=SC2086 # the same
{
    consumer c ${CC:-cc} -std=c11 $warnings
    consumer cxx ${CXX:-c++} -std=c++17 $warnings
}
ways='package plain'

if command -v cmake >/dev/null; then
    cat >CMakeLists.txt <<'END_OF_FILE'
cmake_minimum_required(VERSION 3.13)
project(consumer C CXX)
find_package(heed 0.1 REQUIRED CONFIG)
set(source_c c.c)
set(source_cxx cxx.cc)
set(target_shared heed)
set(target_static static)
foreach(language c cxx)
    foreach(kind shared static)
        add_executable(cmake_${kind}_${language} ${source_${language}})
        target_link_libraries(cmake_${kind}_${language} heed::${target_${kind}})
    endforeach()
endforeach()
END_OF_FILE
    cmake -S . -B . -DCMAKE_C_COMPILER="${CC:-cc}" -DCMAKE_CXX_COMPILER="${CXX:-c++}" \
        -Dheed_DIR="$libdir/cmake/heed" >log
    cmake --build . >>log
    ways="$ways cmake"
else
    echo "check_install: no cmake here, its package is not tested"
fi

count=0
for way in $ways; do
    for program in "${way}_shared_c" "${way}_shared_cxx" "${way}_static_c" "${way}_static_cxx"; do
        LD_LIBRARY_PATH=$libdir ${EMULATOR-} "./$program" >"$program.out"
        cmp "$program.out" package_shared_c.out
        count=$((count + 1))
    done
done
echo "check_install: $count programs built against the installed library, in C and C++, print the same:"
cat package_shared_c.out

cd "$OLDPWD"
${MAKE:-make} -s uninstall DESTDIR="$root" PREFIX=/usr
left=$(find "$root" ! -type d)
[ -z "$left" ] || { echo "check_install: make uninstall leaves $left" >&2; exit 1; }
