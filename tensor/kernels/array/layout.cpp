#include "layout.hpp"

#include <string.h>

namespace droveway {

namespace {

// Copies count elements from the position on, into consecutive ones (Gather) or out of them.
template <class E, bool Gather>
void move_elements(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count) {
  const int last = walk.ndim - 1;
  const int64_t* strides = operand.strides;
  const int64_t inner = walk.shape[last], step = strides[last];
  int64_t index[kDimsMax];
  char* row = operand.data;
  for (int d = 0; d < last; ++d) {
    index[d] = position.at[d];
    row += index[d] * strides[d];
  }
  int64_t i = position.at[last];
  E* flat = reinterpret_cast<E*>(stage);
  while (count > 0) {
    int64_t m = inner - i;
    if (m > count) m = count;
    char* p = row + i * step;
    if constexpr (Gather) {
      if (step == 0) {
        walk_repeat(reinterpret_cast<char*>(flat), p, int64_t(sizeof(E)), m);
      } else if (step == int64_t(sizeof(E))) {
        memcpy(flat, p, size_t(m) * sizeof(E));
      } else {
        for (int64_t k = 0; k < m; ++k, p += step) flat[k] = *reinterpret_cast<const E*>(p);
      }
    } else {
      for (int64_t k = 0; k < m; ++k, p += step) *reinterpret_cast<E*>(p) = flat[k];
    }
    flat += m;
    count -= m;
    i = 0;
    for (int d = last - 1; d >= 0; --d) {
      row += strides[d];
      if (++index[d] < walk.shape[d]) break;
      row -= walk.shape[d] * strides[d];
      index[d] = 0;
    }
  }
}

struct Eight {  // a complex64 is aligned to 4 bytes
  uint32_t low, high;
};
struct Sixteen {
  uint64_t low, high;
};

template <bool Gather>
void move(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count) {
  switch (operand.size) {
    case 1: return move_elements<uint8_t, Gather>(walk, operand, position, stage, count);
    case 2: return move_elements<uint16_t, Gather>(walk, operand, position, stage, count);
    case 4: return move_elements<uint32_t, Gather>(walk, operand, position, stage, count);
    case 8: return move_elements<Eight, Gather>(walk, operand, position, stage, count);
    default: return move_elements<Sixteen, Gather>(walk, operand, position, stage, count);
  }
}

void exchange(int64_t& a, int64_t& b) {
  const int64_t t = a;
  a = b;
  b = t;
}

// The first operand's dimensions from the largest stride to the smallest, all of them upwards.
void sort_dimensions(Walk& walk, Walked* operands, int count) {
  for (int j = 0; j < walk.ndim; ++j) {
    if (operands[0].strides[j] >= 0) continue;
    for (int k = 0; k < count; ++k) {
      operands[k].data += (walk.shape[j] - 1) * operands[k].strides[j];
      operands[k].strides[j] = -operands[k].strides[j];
    }
  }
  for (int j = 1; j < walk.ndim; ++j) {
    for (int i = j; i > 0 && operands[0].strides[i - 1] < operands[0].strides[i]; --i) {
      exchange(walk.shape[i], walk.shape[i - 1]);
      for (int k = 0; k < count; ++k) exchange(operands[k].strides[i], operands[k].strides[i - 1]);
    }
  }
}

// Dimensions that follow each other without a gap in every operand become one.
void join_dimensions(Walk& walk, Walked* operands, int count) {
  int last = 0;
  for (int j = 1; j < walk.ndim; ++j) {
    bool joined = true;
    for (int k = 0; k < count; ++k)
      joined = joined && operands[k].strides[last] == operands[k].strides[j] * walk.shape[j];
    if (joined) {
      walk.shape[last] *= walk.shape[j];
    } else {
      walk.shape[++last] = walk.shape[j];
    }
    for (int k = 0; k < count; ++k) operands[k].strides[last] = operands[k].strides[j];
  }
  walk.ndim = last + 1;
}

void classify(Walk& walk, Walked* operands, int count) {
  walk.staged = false;
  for (int k = 0; k < count; ++k) {
    bool direct = true, constant = true;
    int64_t expected = operands[k].size;
    for (int j = walk.ndim - 1; j >= 0; --j) {
      direct = direct && operands[k].strides[j] == expected;
      constant = constant && operands[k].strides[j] == 0;
      expected *= walk.shape[j];
    }
    operands[k].access = direct ? Access::direct : constant ? Access::constant : Access::strided;
    walk.staged = walk.staged || !direct;
  }
}

}  // namespace

bool walk_begin(Walk& walk, Walked* operands, const View* views, int count, int ndim, const int64_t* shape, bool reorder) {
  int kept[kDimsMax];
  walk.ndim = 0;
  walk.total = 1;
  for (int d = 0; d < ndim; ++d) {
    if (shape[d] == 0) return false;
    if (shape[d] == 1) continue;
    walk.total *= shape[d];
    walk.shape[walk.ndim] = shape[d];
    kept[walk.ndim++] = d;
  }
  for (int k = 0; k < count; ++k) {
    const View& v = views[k];
    operands[k].data = v.data;
    operands[k].size = int64_t(dtype_size(v.dtype));
    for (int j = 0; j < walk.ndim; ++j) {
      const int d = kept[j] - (ndim - v.ndim);
      operands[k].strides[j] = d < 0 || v.shape[d] == 1 ? 0 : v.strides[d] * operands[k].size;
    }
  }
  if (walk.ndim == 0) {  // one element
    walk.ndim = 1;
    walk.shape[0] = 1;
    for (int k = 0; k < count; ++k) operands[k].strides[0] = operands[k].size;
  }
  if (reorder) sort_dimensions(walk, operands, count);
  join_dimensions(walk, operands, count);
  classify(walk, operands, count);
  return true;
}

void walk_seek(const Walk& walk, int64_t element, Position& position) {
  for (int d = walk.ndim - 1; d >= 0; --d) {
    position.at[d] = element % walk.shape[d];
    element /= walk.shape[d];
  }
}

void walk_advance(const Walk& walk, int64_t count, Position& position) {
  int d = walk.ndim - 1;
  position.at[d] += count;
  for (; d > 0 && position.at[d] >= walk.shape[d]; --d) {
    position.at[d - 1] += position.at[d] / walk.shape[d];
    position.at[d] %= walk.shape[d];
  }
}

void walk_gather(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count) {
  move<true>(walk, operand, position, stage, count);
}
void walk_scatter(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count) {
  move<false>(walk, operand, position, stage, count);
}

namespace {
template <class E>
void gather_columns(const char* p, int64_t row_stride, int64_t column_stride, int64_t rows, int64_t columns, E* stage) {
  for (int64_t c = 0; c < columns; ++c, p += column_stride) {
    const char* q = p;
    for (int64_t r = 0; r < rows; ++r, q += row_stride) stage[r * columns + c] = *reinterpret_cast<const E*>(q);
  }
}
}  // namespace

void walk_gather_tile(const char* first, int64_t size, int64_t row_stride, int64_t column_stride, int64_t rows,
                      int64_t columns, char* stage) {
  switch (size) {
    case 1: return gather_columns(first, row_stride, column_stride, rows, columns, reinterpret_cast<uint8_t*>(stage));
    case 2: return gather_columns(first, row_stride, column_stride, rows, columns, reinterpret_cast<uint16_t*>(stage));
    case 4: return gather_columns(first, row_stride, column_stride, rows, columns, reinterpret_cast<uint32_t*>(stage));
    case 8: return gather_columns(first, row_stride, column_stride, rows, columns, reinterpret_cast<Eight*>(stage));
    default: return gather_columns(first, row_stride, column_stride, rows, columns, reinterpret_cast<Sixteen*>(stage));
  }
}

bool walk_transposes(Walk& walk, Walked* operands, int count) {
  const int last = walk.ndim - 1;
  if (last < 1 || walk.shape[last] < kTileRows || walk.total < kTileRows * kTileColumns) return false;
  for (int k = 1; k < count; ++k) {
    const int64_t step = operands[k].strides[last];
    if (operands[k].access != Access::strided || step == 0 || step == operands[k].size) continue;
    for (int d = 0; d < last; ++d) {
      if (operands[k].strides[d] != operands[k].size || walk.shape[d] < kTileRows / 2) continue;
      for (int j = d; j + 1 < last; ++j) {  // that dimension next to the last one
        exchange(walk.shape[j], walk.shape[j + 1]);
        for (int i = 0; i < count; ++i) exchange(operands[i].strides[j], operands[i].strides[j + 1]);
      }
      classify(walk, operands, count);
      return true;
    }
  }
  return false;
}

void walk_repeat(char* stage, const char* element, int64_t size, int64_t count) {
  memcpy(stage, element, size_t(size));
  for (int64_t have = 1; have < count;) {
    const int64_t more = have < count - have ? have : count - have;
    memcpy(stage + have * size, stage, size_t(more * size));
    have += more;
  }
}

}  // namespace droveway
