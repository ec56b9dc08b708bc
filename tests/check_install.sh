#!/bin/sh
# What make install leaves must be enough to build against: programs in C and C++, shared and static, by pkg-config and by CMake.
set -eu
build=$1
root=$PWD/$build/install
rm -rf "$root" "$build/consumer"
mkdir -p "$build/consumer/cmake"
${MAKE:-make} -s install DESTDIR="$root" PREFIX=/usr
for file in include/heed.h lib/libheed.a lib/libheed.so lib/libheed.so.0 lib/pkgconfig/heed.pc bin/heed share/man/man1/heed.1; do
    [ -e "$root/usr/$file" ] || { echo "check_install: no $file" >&2; exit 1; }
done

cat >"$build/consumer/consumer.c" <<'END'
#include <heed.h>
#include <stdio.h>
#include <string.h>

int main(void) {
    struct heed_info info;
    memset(&info, 0, sizeof info);
    enum heed_status status = heed_info(&info);
    printf("heed %s: %s, %s\n", HEED_VERSION, info.isa, heed_status_string(status));
    return status != HEED_OK;
}
END
cp "$build/consumer/consumer.c" "$build/consumer/consumer.cc"

PKG_CONFIG_LIBDIR=$root/usr/lib/pkgconfig:$(${PKG_CONFIG:-pkg-config} --variable pc_path pkg-config)
PKG_CONFIG_SYSROOT_DIR=$root
export PKG_CONFIG_LIBDIR PKG_CONFIG_SYSROOT_DIR
flags=$(${PKG_CONFIG:-pkg-config} --cflags --libs heed)
private=$(${PKG_CONFIG:-pkg-config} --static --libs heed | sed 's/-lheed//')
cd "$build/consumer"
# shellcheck disable=SC2086 # lists of flags
{
    ${CC:-cc} -o shared consumer.c $flags
    ${CXX:-c++} -o shared_cxx consumer.cc $flags
    ${CC:-cc} -I"$root/usr/include" -o static consumer.c "$root/usr/lib/libheed.a" $private
}
for program in shared shared_cxx static; do LD_LIBRARY_PATH=$root/usr/lib ${EMULATOR-} ./$program; done

if command -v cmake >/dev/null; then
    cat >CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(heed 0.1 REQUIRED CONFIG)
add_executable(shared consumer.c)
target_link_libraries(shared heed::heed)
add_executable(static consumer.c)
target_link_libraries(static heed::static)
END
    cmake -S . -B cmake -DCMAKE_C_COMPILER="${CC:-cc}" -Dheed_DIR="$root/usr/lib/cmake/heed" >cmake/log
    cmake --build cmake >>cmake/log
    cmake/shared && cmake/static
else
    echo "check_install: no cmake here, its package is not tested"
fi
echo "check_install: programs build against the installed library"
