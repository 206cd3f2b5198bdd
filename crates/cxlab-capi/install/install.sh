#!/bin/sh
# Installs libcxlab: install.sh FOLDER_OF_THE_BUILT_LIBRARIES PREFIX [DESTDIR]
#
# PREFIX is where programs find the library; with DESTDIR the files go to DESTDIR/PREFIX.
set -eu

built=$1
prefix=$2
place=${3:-}$prefix
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../../..
# Version of the interface; tests/install.rs compares it with src/abi.rs.
major=1
minor=1

mkdir -p "$place/lib/pkgconfig" "$place/lib/cmake/cxlab" "$place/include"
install -m 755 "$built/libcxlab_capi.so" "$place/lib/libcxlab.so.$major.$minor"
ln -sf "libcxlab.so.$major.$minor" "$place/lib/libcxlab.so.$major"
ln -sf "libcxlab.so.$major" "$place/lib/libcxlab.so"
install -m 644 "$built/libcxlab_capi.a" "$place/lib/libcxlab.a"
install -m 644 "$root/include/cxlab.h" "$root/include/cxlab.hpp" "$place/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@VERSION@|$major.$minor|" "$here/cxlab.pc.in" > "$place/lib/pkgconfig/cxlab.pc"
install -m 644 "$here/cxlabConfig.cmake" "$here/cxlabConfigVersion.cmake" "$place/lib/cmake/cxlab/"
