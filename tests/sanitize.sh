#!/usr/bin/env bash
# The address and undefined-behaviour sanitizers over the kernels: first the standalone self-test, then the Python
# modules under a part of the tests. Usage: tests/sanitize.sh [BUILD_DIR]. Needs g++ with its sanitizer libraries, and a
# Python environment with the test and build requirements. Exit 0: no finding.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
build=${1:-$root/build/sanitize}
python=${PYTHON:-python}
configure=(cmake -S "$root" -G Ninja -DCMAKE_BUILD_TYPE=None -DDROVEWAY_SANITIZE=ON)

"${configure[@]}" -B "$build/selftest" -DDROVEWAY_PYTHON=OFF -DDROVEWAY_SELFTEST=ON >/dev/null
cmake --build "$build/selftest" --target droveway_selftest -j 2 >/dev/null
levels=$("$build/selftest/droveway_selftest" --isa v4 >/dev/null 2>&1 && echo "v3 v4" || echo v3)
[ "$(uname -m)" = x86_64 ] || levels=neon
for isa in $levels; do
  for threads in 1 3; do
    "$build/selftest/droveway_selftest" --isa "$isa" --threads "$threads" >"$build/selftest/$isa-$threads.txt"
    echo "self-test $isa, $threads threads: $(wc -l <"$build/selftest/$isa-$threads.txt") digests, no finding"
  done
done
cmp "$build/selftest/${levels##* }-1.txt" "$build/selftest/${levels%% *}-3.txt"

# The modules are installed into a folder of their own; the sources are linked into it, so that nothing else is loaded.
"${configure[@]}" -B "$build/modules" -DDROVEWAY_PYTHON=ON -DPython_EXECUTABLE="$(command -v "$python")" >/dev/null
cmake --build "$build/modules" -j 2 >/dev/null
rm -rf "$build/packages"
cmake --install "$build/modules" --prefix "$build/packages" >/dev/null
for package in tensor storage coord droveway; do
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
tests=()
for name in tensor/test_reduction.py tensor/test_product.py tensor/test_elementary.py storage/test_hashes.py coord/test_field.py; do
  [ -e "$root/tests/$name" ] && tests+=("$root/tests/$name")
done
LD_PRELOAD="$asan $ubsan" PYTHONPATH="$build/packages" "$python" -c '
import sys
sys.meta_path[:] = [finder for finder in sys.meta_path if "Editable" not in type(finder).__name__]
import pytest, tensor
assert tensor.__file__.startswith(sys.argv[1]), tensor.__file__
sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "-k", "not allocation and not process", *sys.argv[2:]]))
' "$build/packages" "${tests[@]}"
