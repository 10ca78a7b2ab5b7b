// Elementwise operations on views of any strides: broadcast, cut into fixed blocks, handed to the loops of the table.
// No Python here: the caller has checked types, and holds Python's lock or not as it likes.
#pragma once
#include "view.hpp"

namespace droveway {

struct TensorTable;

struct ElementwiseRow {
  const char* name;
  int arity;
  unsigned classes;  // ElementwiseClass bits
  unsigned result;   // ElementwiseResult
};
extern const ElementwiseRow elementwise_rows[];  // by code, elementwise_ops.hpp

// The dtype of the output for inputs of a dtype (where: of its second input); false if the operation does not take it.
// cast takes every dtype and says nothing about the output.
bool elementwise_result(int op, Dtype in, Dtype* out);

// The shape that the views broadcast to, into shape[kDimsMax]; its number of dimensions, or −1 if they do not.
int broadcast_views(const View* in, int count, int64_t* shape);

// out = op(in…); inputs broadcast to out's shape (numpy's rule, caller-checked). out has the dtype that
// elementwise_result names and no stride 0; it may be one of the inputs (views_equal), and overlaps no other.
// False, with nothing written, where the table has no loop for the dtype.
bool run_elementwise(const TensorTable& table, int op, const View& out, const View* in, int count);

// The same with the table in use; false also under DROVEWAY_ISA=ref.
bool run_elementwise(int op, const View& out, const View* in, int count);

// Whether the table in use has a loop.
bool has_elementwise(int op, Dtype in);

// Whether op may end a product: it has a code, one operand, a result of its own type, and a loop.
bool is_activation(int op, Dtype d);

}  // namespace droveway
