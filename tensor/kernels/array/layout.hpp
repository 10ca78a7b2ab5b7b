// How loops over contiguous strips walk views of any strides: dimensions joined where they follow each other without a
// gap, operands read where they lie if they can be, else gathered or repeated in a stage of 4 KB.
#pragma once
#include "view.hpp"

namespace droveway {

constexpr int64_t kWalkBlock = 16384;        // elements a thread takes at a time
constexpr int64_t kParallelBytes = 1 << 18;  // below this many bytes the calling thread does all the work

enum class Access : uint8_t {
  direct,    // consecutive elements lie one after the other over all dimensions
  constant,  // one element
  strided,   // whatever else
};

struct Walked {
  char* data;
  int64_t size;  // of an element
  Access access;
  int64_t strides[kDimsMax];  // in bytes
};

struct Walk {
  int ndim;  // at least 1
  int64_t total;
  bool staged;  // some operand is not direct
  int64_t shape[kDimsMax];
};

// Where a range of elements is: a multi-index that moves on.
struct Position {
  int64_t at[kDimsMax];
};

// Operands over the dimensions of a shape that all of them broadcast to. False if there is no element. With `reorder`
// the dimensions are sorted by the strides of the first operand, which must not be broadcast: for work whose order does
// not matter.
bool walk_begin(Walk& walk, Walked* operands, const View* views, int count, int ndim, const int64_t* shape, bool reorder);

void walk_seek(const Walk& walk, int64_t element, Position& position);
void walk_advance(const Walk& walk, int64_t count, Position& position);

// How many elements from `position` on one step may take, at most `most`: rows of 64 and more are not joined.
inline int64_t walk_step(const Walk& walk, const Position& position, int64_t most) {
  const int64_t inner = walk.shape[walk.ndim - 1];
  const int64_t rest = inner - position.at[walk.ndim - 1];
  return inner >= 64 && most > rest ? rest : most;
}

// The address of `count` elements of a strided operand if they lie one after the other, else nullptr.
inline char* walk_in_place(const Walk& walk, const Walked& operand, const Position& position, int64_t count) {
  const int last = walk.ndim - 1;
  if (operand.strides[last] != operand.size || position.at[last] + count > walk.shape[last]) return nullptr;
  char* p = operand.data;
  for (int d = 0; d <= last; ++d) p += position.at[d] * operand.strides[d];
  return p;
}

void walk_gather(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count);
void walk_scatter(const Walk& walk, const Walked& operand, const Position& position, char* stage, int64_t count);

// Transposed operands are read in tiles, rows along the dimension in which their elements follow each other, so that
// every line of the cache is read once. walk_transposes finds out whether an operand after the first needs that, and
// puts its dimension next to the last one (for work whose order does not matter).
constexpr int64_t kTileRows = 16, kTileColumns = 64;
bool walk_transposes(Walk& walk, Walked* operands, int count);
void walk_gather_tile(const char* first, int64_t size, int64_t row_stride, int64_t column_stride, int64_t rows,
                      int64_t columns, char* stage);

// One element `count` times.
void walk_repeat(char* stage, const char* element, int64_t size, int64_t count);

}  // namespace droveway
