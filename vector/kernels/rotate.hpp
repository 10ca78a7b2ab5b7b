// The rotation of sixteen rows at once, each lane a row; twin: vector/rotation_ref.py. Butterflies and products of a row
// never meet another row's, so any width of register gives the same bits.
#pragma once
#include "droveway/lanes.hpp"
#include "table.hpp"

namespace DW_ISA {

constexpr size_t kRotateRows = 16;
constexpr size_t kRotateRounds = 2;

// Sixteen rows as [coordinate][row].
DW_INLINE F32x16 column(const float* rows, size_t i) { return F32x16::load(rows + i * kRotateRows); }
DW_INLINE void set_column(float* rows, size_t i, F32x16 value) { store(rows + i * kRotateRows, value); }

// Stages h and 2h of a block in one pass: the sums and differences of `hadamard` in the twin, in its order.
DW_INLINE void two_stages(float* block, size_t size, size_t h) {
  for (size_t start = 0; start < size; start += 4 * h)
    for (size_t i = start; i < start + h; ++i) {
      const F32x16 a = column(block, i), b = column(block, i + h);
      const F32x16 c = column(block, i + 2 * h), d = column(block, i + 3 * h);
      const F32x16 a1 = a + b, b1 = a - b, c1 = c + d, d1 = c - d;
      set_column(block, i, a1 + c1);
      set_column(block, i + h, b1 + d1);
      set_column(block, i + 2 * h, a1 - c1);
      set_column(block, i + 3 * h, b1 - d1);
    }
}
DW_INLINE void one_stage(float* block, size_t size, size_t h) {
  for (size_t start = 0; start < size; start += 2 * h)
    for (size_t i = start; i < start + h; ++i) {
      const F32x16 a = column(block, i), b = column(block, i + h);
      set_column(block, i, a + b);
      set_column(block, i + h, a - b);
    }
}
inline void hadamard16(float* rows, size_t padded) {
  const size_t size = padded & (~padded + 1);
  const float gain = __builtin_sqrtf(1.0f / float(size));
  for (size_t start = 0; start < padded; start += size) {
    float* block = rows + start * kRotateRows;
    size_t h = 1;
    for (; 4 * h <= size; h *= 4) two_stages(block, size, h);
    if (h < size) one_stage(block, size, h);
  }
  for (size_t i = 0; i < padded; ++i) set_column(rows, i, column(rows, i) * F32x16::set1(gain));
}

DW_INLINE F32x16 with_sign(F32x16 value, uint32_t sign) { return f32(bits(value) ^ U32x16::set1(sign)); }

// In place, with `spare` as large as `rows`: float[padded][16].
inline void rotate16(const droveway::Turn& turn, float* rows, float* spare) {
  for (size_t r = 0; r < kRotateRounds; ++r) {
    const uint32_t* order = turn.order + r * turn.padded;
    const uint32_t* signs = turn.signs + r * turn.padded;
    for (size_t i = 0; i < turn.padded; ++i) set_column(spare, i, with_sign(column(rows, order[i]), signs[i]));
    hadamard16(spare, turn.padded);
    float* other = rows;
    rows = spare;
    spare = other;
  }
}
inline void unrotate16(const droveway::Turn& turn, float* rows, float* spare) {
  for (size_t r = kRotateRounds; r-- > 0;) {
    const uint32_t* order = turn.order + r * turn.padded;
    const uint32_t* signs = turn.signs + r * turn.padded;
    hadamard16(rows, turn.padded);
    for (size_t i = 0; i < turn.padded; ++i) set_column(spare, order[i], with_sign(column(rows, i), signs[i]));
    float* other = rows;
    rows = spare;
    spare = other;
  }
}

// Work on sixteens of rows is cut into runs of them; each run has one working buffer.
struct Runs {
  size_t units, count, bytes_each;
  // At most 32 runs, and only 4 where the buffers of more would take over half a MiB together.
  Runs(size_t unit_count, size_t unit_bytes) : units(unit_count), bytes_each((unit_bytes + 63) & ~size_t(63)) {
    const size_t most = (size_t(1) << 19) / bytes_each;
    count = most < 4 ? 4 : most < 32 ? most : 32;
    if (count > units) count = units;
  }
  size_t first(size_t run) const { return units * run / count; }
  size_t bytes() const { return count * bytes_each; }
};

}  // namespace DW_ISA
