// Rotation of rows (vector/rotation_ref.py).
#include "rotate.hpp"

#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

struct Job {
  droveway::Turn turn;
  const float* x;
  size_t n, d;
  bool inverse;
  float* out;
  char* workspace;
  Runs runs;
};

void run(void* context, size_t number) {
  FpGuard guard;
  const Job& j = *static_cast<const Job*>(context);
  const size_t padded = j.turn.padded;
  float* rows = reinterpret_cast<float*>(j.workspace + number * j.runs.bytes_each);
  float* spare = rows + padded * kRotateRows;
  for (size_t u = j.runs.first(number); u < j.runs.first(number + 1); ++u) {
    const size_t first = u * kRotateRows;
    const size_t count = j.n - first < kRotateRows ? j.n - first : kRotateRows;
    memset(rows, 0, padded * kRotateRows * sizeof(float));
    for (size_t r = 0; r < count; ++r)
      for (size_t i = 0; i < j.d; ++i) rows[i * kRotateRows + r] = j.x[(first + r) * j.d + i];
    if (j.inverse) unrotate16(j.turn, rows, spare);
    else rotate16(j.turn, rows, spare);
    for (size_t r = 0; r < count; ++r)
      for (size_t i = 0; i < padded; ++i) j.out[(first + r) * padded + i] = rows[i * kRotateRows + r];
  }
}

Runs runs_of(size_t n, size_t padded) {
  return Runs((n + kRotateRows - 1) / kRotateRows, 2 * padded * kRotateRows * sizeof(float));
}

}  // namespace

size_t rotate_workspace(size_t n, size_t padded) { return runs_of(n, padded).bytes(); }

void rotate(const droveway::Turn& turn, const float* x, size_t n, size_t d, bool inverse, float* out, void* workspace) {
  Job job{turn, x, n, d, inverse, out, static_cast<char*>(workspace), runs_of(n, turn.padded)};
  if (n != 0) dw_parallel(job.runs.count, run, &job);
}

}  // namespace DW_ISA
