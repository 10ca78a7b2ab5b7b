#!/usr/bin/env bash
# The sanitizers over the kernels: the thread sanitizer on the pool; then address and undefined behaviour on the
# standalone self-test, and on the Python modules under a part of the tests. Usage: tests/sanitize.sh [BUILD_DIR]. Needs
# g++ with its sanitizer libraries, and a Python environment with the test and build requirements. Exit 0: no finding.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/sanitize}
python=${PYTHON:-python}
mkdir -p "$build"

g++ -std=c++20 -O1 -g1 -fsanitize=thread -I"$root/tensor/kernels/include" "$root/tests/tensor/pool_race.cpp" \
  "$root/tensor/kernels/runtime/pool.cpp" -lpthread -o "$build/pool_race"
"$build/pool_race"

cmake -S "$root" -B "$build/all" -G Ninja -DCMAKE_BUILD_TYPE=None -DDROVEWAY_SANITIZE=ON -DDROVEWAY_SELFTEST=ON \
  -DPython_EXECUTABLE="$(command -v "$python")" >/dev/null
cmake --build "$build/all" -j 2 >"$build/build.log" 2>&1 ||
  { tail -n 40 "$build/build.log" && exit 1; }
program=$build/all/droveway_selftest
sed -n '/^\[selftest\]/,/^$/s/^"\(.*\)" = "\(.*\)"$/\1 \2/p' "$root/tests/golden.toml" | sort >"$build/golden"
levels=$("$program" --isa v4 >/dev/null 2>&1 && echo "v3 v4" || echo v3)
[ "$(uname -m)" = x86_64 ] || levels=neon
for isa in $levels; do
  "$program" --isa "$isa" --threads 3 >"$build/digests"
  sort "$build/digests" | diff "$build/golden" -
  echo "self-test $isa, 3 threads: $(wc -l <"$build/digests") digests as recorded, no finding"
done

# The modules are installed into a folder of their own; the sources are linked into it, so that nothing else is loaded.
rm -rf "$build/packages"
cmake --install "$build/all" --prefix "$build/packages" >/dev/null
for package in tensor vector splat storage coord droveway; do
  mkdir -p "$build/packages/$package"
  for file in "$root/$package"/*; do
    case $(basename "$file") in kernels | __pycache__ | _kernels*) ;; *) ln -sf "$file" "$build/packages/$package/" ;; esac
  done
done

asan=$(g++ -print-file-name=libasan.so)
ubsan=$(g++ -print-file-name=libubsan.so)
# Leaks are the interpreter's; a failed allocation must come back as a null pointer, as it does without the sanitizer.
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:handle_segv=0 UBSAN_OPTIONS=print_stacktrace=1
export PYTHONMALLOC=malloc PYTHONDONTWRITEBYTECODE=1
cd "$build"
tests=(tensor/test_reduction.py tensor/test_product.py tensor/test_elementary.py storage/test_storage_kernels.py coord/test_field.py
  tensor/test_tensor_indexing.py tensor/test_tensor_exchange.py tensor/test_tensor_shapes.py tensor/test_fused.py
  splat/test_splat_kernels.py splat/test_projection.py splat/test_blend.py vector/test_encoding.py vector/test_topk.py)
LD_PRELOAD="$asan $ubsan" PYTHONPATH="$build/packages" "$python" -c '
import sys
sys.meta_path[:] = [f for f in sys.meta_path if f.__module__.startswith("_frozen_importlib")]  # no editable install
import pytest, tensor
assert tensor.__file__.startswith(sys.argv[1]), tensor.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "not allocation", *sys.argv[2:]]))
' "$build/packages" "${tests[@]/#/$root/tests/}"
