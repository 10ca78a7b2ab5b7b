// An index of ints, slices, None and …, as a view; rows picked by a tensor.
#pragma once
#include "tensor.hpp"

namespace droveway {

struct Item {  // one entry of an index, as the row `index` has it in its params
  enum Kind : uint8_t { whole, slice, one, fresh } kind;
  int64_t start, count, step;
};

struct Index {
  int items = 0;  // over all of the tensor's dimensions; `fresh` ones in between
  Item item[2 * kDimsMax];
  char* data;
  int ndim = 0;
  int64_t shape[kDimsMax], strides[kDimsMax];
};

// 1: done; 0: advanced, not for here; −1: error.
int index_parse(const Tensor* t, PyObject* key, Index* x);
PyObject* index_params(const Index& x);  // for the row `index`: per entry an int, (start, count, step), or None for a new dimension
PyObject* index_view(Tensor* t, const Index& x);  // without history

// x[tensor] where nothing follows x: rows of its first dimensions, picked by integers or by a boolean tensor. nullptr
// without error: not from here.
PyObject* pick_rows(Tensor* t, Tensor* key);

}  // namespace droveway
