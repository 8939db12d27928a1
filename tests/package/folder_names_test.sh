#!/usr/bin/env bash
# Source trees in folders whose names CMake or nvcc cannot take: a sentence, or a build all the same.
#   folder_names_test.sh SOURCE [NVCC]
set -euo pipefail
source=$1 nvcc=${2:-}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for name in 'a"b' 'a#b' 'a;b'; do
  mkdir "$folder/$name"
  cp "$source/CMakeLists.txt" "$folder/$name"
  if (cd "$folder/$name" && cmake -S . -B build) >"$folder/log" 2>&1; then exit 1; fi
  grep -q 'CMake cannot build in a folder with' "$folder/log" || { cat "$folder/log"; exit 1; }
done
[ -x "$nvcc" ] || { echo "no nvcc: kernels are not built"; exit 0; }
tree="$folder/it's"
mkdir "$tree"
cp -r "$source"/{CMakeLists.txt,sim,kernels,tracer,tools,scenarios,topologies,docs} "$tree"
cmake -S "$tree" -B "$tree/build" -G Ninja -DTRACECAST_TESTS=OFF >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
grep -q '^build kernels/operators.cu.o' "$tree/build/build.ninja" || { echo "operators on GPUs are left out here"; exit 0; }
# Only this command: the build would make the libraries first. Preprocessed, not compiled: headers are what nvcc may miss.
mkdir -p "$tree/build/kernels"
command=$(cd "$tree/build" && ninja -t commands -s kernels/operators.cu.o)
(cd "$tree/build" && sh -c "${command/ -c / -E }")
[ -s "$tree/build/kernels/operators.cu.o" ]
