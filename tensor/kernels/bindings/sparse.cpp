// Products with sparse matrices for Python. Every index is checked here before anything is read through it.
#include "sparse.hpp"

#include <nanobind/nanobind.h>

#include <string.h>

#include <initializer_list>
#include <string>

#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

void require(bool yes, const char* text) {
  if (!yes) throw nb::value_error(text);
}

const SparseKernels& kernels() {
  const TensorTable* table = tensor_kernels();
  if (table == nullptr) throw std::runtime_error("sparse: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  return *table->sparse;
}

// A contiguous list of indices, each below the bound.
const int64_t* indices(const View& v, int64_t count, int64_t bound, const char* name) {
  require(v.dtype == Dtype::i64 && v.ndim == 1 && view_contiguous(v) && v.shape[0] == count,
          "sparse: indices must be contiguous int64, one for each element");
  const int64_t* at = reinterpret_cast<const int64_t*>(v.data);
  for (int64_t i = 0; i < count; ++i)
    if (at[i] < 0 || at[i] >= bound)
      throw nb::index_error((std::string("sparse: ") + name + "[" + std::to_string(i) + "] is " + std::to_string(at[i]) +
                             ", and there are " + std::to_string(bound)).c_str());
  return at;
}

// Where the rows start, for a list that must rise from 0 to count.
const int64_t* rising(const View& starts, int64_t count) {
  require(starts.ndim == 1 && starts.dtype == Dtype::i64 && view_contiguous(starts) && starts.shape[0] >= 1,
          "sparse: starts must be contiguous int64[rows + 1]");
  const int64_t* at = reinterpret_cast<const int64_t*>(starts.data);
  const int64_t last = starts.shape[0] - 1;
  for (int64_t i = 0; i <= last; ++i) {
    const int64_t least = i == 0 ? 0 : at[i - 1];
    if (at[i] < least || at[i] > count || (i == 0 && at[i] != 0) || (i == last && at[i] != count))
      throw nb::value_error(("sparse: starts[" + std::to_string(i) + "] is " + std::to_string(at[i]) +
                             ": starts must rise from 0 to the number of stored elements, " + std::to_string(count)).c_str());
  }
  return at;
}

template <class T>
void product_of(const View& values, const View& columns, const View& starts, const View& dense, const View& out,
                void (*kernel)(const SparseProduct<T>&)) {
  const int64_t blocks = values.shape[0], r = values.shape[1], c = values.shape[2], rows = starts.shape[0] - 1;
  require(r >= 1 && c >= 1 && dense.shape[0] % c == 0 && out.shape[0] == rows * r && out.shape[1] == dense.shape[1],
          "sparse: shapes do not fit together");
  const int64_t* at = rising(starts, blocks);
  const int64_t* where = indices(columns, blocks, dense.shape[0] / c, "columns");
  const SparseProduct<T> product{size_t(rows), size_t(r), size_t(c), size_t(out.shape[1]), size_t(blocks), size_t(dense.shape[0] / c),
                                 reinterpret_cast<const T*>(values.data), where, at,
                                 reinterpret_cast<const T*>(dense.data), dense.strides[0],
                                 reinterpret_cast<T*>(out.data), out.strides[0]};
  call_kernel([&] { kernel(product); });
}

void product(const In& values_, const In& columns_, const In& starts_, const In& dense_, const Out& out_) {
  const View values = values_.view(), columns = columns_.view(), starts = starts_.view(), dense = dense_.view(), out = out_.view();
  require(values.ndim == 3 && dense.ndim == 2 && out.ndim == 2 && starts.ndim == 1, "sparse: wrong number of dimensions");
  require(view_contiguous(values) && view_contiguous(starts) && starts.dtype == Dtype::i64 && starts.shape[0] >= 1,
          "sparse: values and starts must be contiguous, starts int64");
  require((dense.shape[1] <= 1 || dense.strides[1] == 1) && (out.shape[1] <= 1 || out.strides[1] == 1),
          "sparse: rows of dense and of the result must be contiguous");
  require(values.dtype == dense.dtype && values.dtype == out.dtype, "sparse: one element type is needed");
  require(!views_may_overlap(dense, out) && !views_may_overlap(values, out) && !views_may_overlap(columns, out) && !views_may_overlap(starts, out),
          "sparse: the result overlaps an input");
  if (values.dtype == Dtype::f32) product_of<float>(values, columns, starts, dense, out, kernels().product_f32);
  else if (values.dtype == Dtype::f64) product_of<double>(values, columns, starts, dense, out, kernels().product_f64);
  else throw nb::type_error("sparse: elements must be float32 or float64");
}

template <class T>
void sampled_of(const View& a, const View& b, const View& rows, const View& columns, const View& out,
                void (*kernel)(const SampledProduct<T>&)) {
  const int64_t count = out.shape[0];
  const SampledProduct<T> product{size_t(count), size_t(a.shape[1]), size_t(a.shape[0]), size_t(b.shape[1]), indices(rows, count, a.shape[0], "rows"),
                                  indices(columns, count, b.shape[1], "columns"),
                                  reinterpret_cast<const T*>(a.data), a.strides[0], a.strides[1],
                                  reinterpret_cast<const T*>(b.data), b.strides[0], b.strides[1],
                                  reinterpret_cast<T*>(out.data)};
  call_kernel([&] { kernel(product); });
}

void sampled(const In& a_, const In& b_, const In& rows_, const In& columns_, const Out& out_) {
  const View a = a_.view(), b = b_.view(), rows = rows_.view(), columns = columns_.view(), out = out_.view();
  require(a.ndim == 2 && b.ndim == 2 && out.ndim == 1 && a.shape[1] == b.shape[0], "sparse: shapes do not fit together");
  require(view_contiguous(out) && a.dtype == b.dtype && a.dtype == out.dtype, "sparse: one element type is needed");
  require(!views_may_overlap(a, out) && !views_may_overlap(b, out) && !views_may_overlap(rows, out) && !views_may_overlap(columns, out),
          "sparse: the result overlaps an input");
  if (a.dtype == Dtype::f32) sampled_of<float>(a, b, rows, columns, out, kernels().sampled_f32);
  else if (a.dtype == Dtype::f64) sampled_of<double>(a, b, rows, columns, out, kernels().sampled_f64);
  else throw nb::type_error("sparse: elements must be float32 or float64");
}

// out[e] = the row of stored element e.
void rows_of(const In& starts_, const Out& out_) {
  const View starts = starts_.view(), out = out_.view();
  require(out.ndim == 1 && out.dtype == Dtype::i64 && view_contiguous(out), "sparse: the result must be contiguous int64");
  require(!views_may_overlap(starts, out), "sparse: the result overlaps an input");
  const int64_t* at = rising(starts, out.shape[0]);
  int64_t* row = reinterpret_cast<int64_t*>(out.data);
  for (int64_t i = 0; i + 1 < starts.shape[0]; ++i)
    for (int64_t e = at[i]; e < at[i + 1]; ++e) row[e] = i;
}

// Elements grouped by row, in their order within a row; starts[i] says where row i begins.
void group(const In& values_, const In& rows_, const In& columns_, const Out& grouped_, const Out& where_, const Out& starts_) {
  const View values = values_.view(), rows = rows_.view(), columns = columns_.view(), grouped = grouped_.view(),
             where = where_.view(), starts = starts_.view();
  const int64_t count = values.ndim == 1 ? values.shape[0] : -1;
  require(count >= 0 && view_contiguous(values) && grouped.ndim == 1 && grouped.shape[0] == count &&
              grouped.dtype == values.dtype && view_contiguous(grouped),
          "sparse: values must be contiguous, the result like them");
  require(where.ndim == 1 && where.shape[0] == count && where.dtype == Dtype::i64 && view_contiguous(where) &&
              starts.ndim == 1 && starts.shape[0] >= 1 && starts.dtype == Dtype::i64 && view_contiguous(starts) &&
              columns.ndim == 1 && columns.shape[0] == count && columns.dtype == Dtype::i64 && view_contiguous(columns),
          "sparse: indices must be contiguous int64, one for each element");
  const int64_t bound = starts.shape[0] - 1;
  for (const View* in : {&values, &rows, &columns})
    for (const View* out : {&grouped, &where, &starts}) require(!views_may_overlap(*in, *out), "sparse: a result overlaps an input");
  require(!views_may_overlap(grouped, where) && !views_may_overlap(grouped, starts) && !views_may_overlap(where, starts),
          "sparse: two results overlap");
  const int64_t* row = indices(rows, count, bound, "rows");
  const int64_t* column = reinterpret_cast<const int64_t*>(columns.data);
  int64_t* at = reinterpret_cast<int64_t*>(starts.data);
  int64_t* to = reinterpret_cast<int64_t*>(where.data);
  const size_t size = dtype_size(values.dtype);
  for (int64_t i = 0; i <= bound; ++i) at[i] = 0;
  for (int64_t e = 0; e < count; ++e) ++at[row[e] + 1];
  for (int64_t i = 0; i < bound; ++i) at[i + 1] += at[i];
  for (int64_t e = 0; e < count; ++e) {  // at[i] moves to the end of row i, and back below
    const int64_t place = at[row[e]]++;
    to[place] = column[e];
    memcpy(grouped.data + size_t(place) * size, values.data + size_t(e) * size, size);
  }
  for (int64_t i = bound; i > 0; --i) at[i] = at[i - 1];
  at[0] = 0;
}

}  // namespace

void bind_sparse(nb::module_& m) {
  m.def("sparse_product", &product, "values"_a, "columns"_a, "starts"_a, "dense"_a, "out"_a,
        "out = a block-sparse matrix times dense.");
  m.def("sparse_rows", &rows_of, "starts"_a, "out"_a, "out[e] = the row of stored element e.");
  m.def("sparse_group", &group, "values"_a, "rows"_a, "columns"_a, "grouped"_a, "where"_a, "starts"_a,
        "Elements grouped by row, in their order within a row.");
  m.def("sampled_product", &sampled, "a"_a, "b"_a, "rows"_a, "columns"_a, "out"_a, "out = (a @ b)[rows, columns].");
}

}  // namespace droveway
