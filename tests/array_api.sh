#!/usr/bin/env bash
# The public suite of the Python array API standard on `tensor` (docs/array-api.md). It is not part of this repository
# and nothing is fetched: SUITE is a checked-out data-apis/array-api-tests with its submodule array-api.
# Usage: tests/array_api.sh SUITE [PYTEST_OPTION …], for example --max-examples=20 -k "cumulative". Needs a Python
# environment ($PYTHON, else python) with tensor, pytest, hypothesis, ndindex and pytest-json-report. The exit code is
# pytest's: 0 when all passes that tests/array_api_skips.txt does not list.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
suite=${1:?usage: tests/array_api.sh SUITE [PYTEST_OPTION …]}
shift
[ -e "$suite/array_api_tests" ] && [ -e "$suite/array-api/src" ] ||
  { echo "$suite: expected a checked-out array-api-tests with its submodule array-api" >&2 && exit 2; }
cd "$suite"
export ARRAY_API_TESTS_MODULE=tensor ARRAY_API_TESTS_VERSION=2024.12
exec "${PYTHON:-python}" -m pytest array_api_tests -q -p no:cacheprovider --disable-deadline \
  --skips-file="$root/tests/array_api_skips.txt" "$@"
