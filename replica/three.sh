#!/usr/bin/env bash
# Starts three nodes on this machine, at ports 8081 to 8083, in a directory (default: a new one below the current).
# An interrupt stops them; the same command with the same directory starts them again.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:-$PWD/three}
mkdir -p "$dir"
go -C "$here" build -o "$dir/bloomkvd" ./cmd/bloomkvd

trap 'trap - INT TERM; kill $(jobs -p) 2>/dev/null; wait' INT TERM EXIT
"$dir/bloomkvd" --id a --address 127.0.0.1:8081 --dir "$dir/a" --bootstrap &
echo $! >"$dir/a.pid"
"$dir/bloomkvd" --id b --address 127.0.0.1:8082 --dir "$dir/b" --join 127.0.0.1:8081 &
echo $! >"$dir/b.pid"
"$dir/bloomkvd" --id c --address 127.0.0.1:8083 --dir "$dir/c" --join 127.0.0.1:8081 &
echo $! >"$dir/c.pid"
wait
