#!/usr/bin/env bash
# Builds RocksDB's library from the source package of Debian, or of a system like it, for the column "rocksdb" of this
# comparison: rocksdb.sh DIR creates DIR/lib/librocksdb.a and DIR/include. Debian's own library has assertions on.
#
# The sources come from the package servers of the system, through package lists below DIR: the system's own lists are
# not changed. JOBS compilers run at once, by default one for each processor. An interrupted build can be continued.
set -euo pipefail

readonly dir=${1:?usage: rocksdb.sh DIR}
if [[ -e $dir/lib/librocksdb.a ]]; then
	echo "$dir/lib/librocksdb.a exists"
	exit
fi

missing=()
for need in c++:g++ cmake:cmake make:make dpkg-source:dpkg-dev; do
	command -v "${need%:*}" >/dev/null || missing+=("${need#*:}")
done
if ! command -v apt-get >/dev/null; then
	echo "no apt-get: this builds RocksDB from Debian's source package" >&2
	exit 1
fi
if ((${#missing[@]} > 0)); then
	if ((EUID != 0)); then
		echo "building RocksDB needs more packages; first, as root: apt-get install ${missing[*]}" >&2
		exit 1
	fi
	echo "installing ${missing[*]}"
	apt-get -qq update
	apt-get -qq install --no-install-recommends "${missing[@]}"
fi

mkdir -p "$dir/making/sources" "$dir/making/lists/partial" "$dir/making/cache/archives/partial" "$dir/making/build"
making=$(cd "$dir/making" && pwd)
readonly making

# apt runs apt-get with the lists below DIR. Sources are verified like packages, with the keys of the system.
apt() {
	apt-get -o "Dir::Etc::sourcelist=/dev/null" -o "Dir::Etc::sourceparts=$making/sources" \
		-o "Dir::State::lists=$making/lists" -o "Dir::Cache=$making/cache" -o "APT::Sandbox::User=root" "$@"
}

if [[ ! -e $making/source/CMakeLists.txt ]]; then
	for list in /etc/apt/sources.list /etc/apt/sources.list.d/*; do
		case $list in
		*.sources) sed 's/^Types:.*/Types: deb-src/' "$list" >"$making/sources/${list##*/}" ;;
		*.list) [[ ! -e $list ]] || sed -n 's/^deb[[:space:]]/deb-src /p' "$list" >"$making/sources/${list##*/}" ;;
		esac
	done
	apt -q update || echo "(some of the lists have no sources)"
	(cd "$making" && apt -q source --download-only rocksdb)
	rm -rf "$making/unpacked"
	dpkg-source --no-check -x "$making"/rocksdb_*.dsc "$making/unpacked" # apt-get has checked the sums
	mv "$making/unpacked" "$making/source"
fi

# Filters with vector instructions, if this machine's processor has them. The library's Makefile selects them by itself,
# its CMake file does not.
flags=
if [[ $(c++ -march=native -dM -E -x c++ /dev/null) == *__AVX2__* ]]; then
	flags=-DHAVE_AVX2
fi
readonly begin=$SECONDS
cmake -S "$making/source" -B "$making/build" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_CXX_FLAGS=$flags" -DPORTABLE=OFF \
	-DROCKSDB_BUILD_SHARED=OFF -DWITH_TESTS=OFF -DWITH_BENCHMARK_TOOLS=OFF -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF \
	-DWITH_TRACE_TOOLS=OFF -DWITH_GFLAGS=OFF -DWITH_LIBURING=OFF -DFAIL_ON_WARNINGS=OFF
cmake --build "$making/build" --target rocksdb --parallel "${JOBS:-$(nproc)}"

# The library comes last: it marks a complete build.
mkdir -p "$dir/include/rocksdb" "$dir/lib"
cp "$making/source/include/rocksdb/c.h" "$dir/include/rocksdb/"
version=$(sed -n 's/^Version: //p' "$making"/rocksdb_*.dsc)
printf '#define ROCKSDB_BUILT "%s, release build, through cgo"\n' "$version" >"$dir/include/built.h"
mv "$making/build/librocksdb.a" "$dir/lib/"
rm -rf "$making"
echo "$dir/lib/librocksdb.a: RocksDB $version, in $((SECONDS - begin)) s"
