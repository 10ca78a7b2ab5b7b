#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <new>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::VectorTable;

namespace {

droveway::Area<VectorTable> area("vector", DW_TABLES(vector_table), droveway::vector_self_test);

const VectorTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

std::unique_ptr<uint64_t[]> workspace(size_t bytes) { return std::make_unique_for_overwrite<uint64_t[]>(bytes / 8 + 1); }

bool depth_order(In<float> z, Out<uint32_t> order) {
  const VectorTable& t = kernels();
  require_aligned(z, "z");
  require_aligned(order, "order");
  require(z.size() == order.size(), "depth_order: z and order must have the same length");
  require(z.size() < (size_t(1) << 32), "depth_order: z must be shorter than 2**32");
  const auto memory = workspace(t.depth_workspace(z.size()));
  bool ordered = false;
  call_kernel([&] { ordered = t.depth_order(z.data(), z.size(), order.data(), memory.get()); });
  return ordered;
}

template <class T> using Strided = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

void pair_sums(Strided<float> x, Strided<float> y, bool squares, Out<double> out) {
  const VectorTable& t = kernels();
  require_aligned(x, "x");
  require_aligned(y, "y");
  require_aligned(out, "out");
  require(x.shape(1) == y.shape(1), "pair_sums: x and y must have the same number of columns");
  require(y.shape(0) == x.shape(0) || y.shape(0) == 1, "pair_sums: y must have one row, or as many as x");
  require(out.size() == x.shape(0), "pair_sums: out must have one value for each row of x");
  call_kernel([&] {
    t.pair_sums(x.data(), x.stride(0), x.stride(1), y.data(), y.shape(0) == 1 ? 0 : y.stride(0), y.stride(1), x.shape(0),
                x.shape(1), squares, out.data());
  });
}

void exact_search(Strided<float> x, In2<float> q, uint32_t metric, In<double> x_norm, In<double> q_norm,
                  Out2<float> scores, Out2<uint64_t> ids) {
  const VectorTable& t = kernels();
  require_aligned(x, "x");
  require_aligned(q, "q");
  require_aligned(x_norm, "x_norm");
  require_aligned(q_norm, "q_norm");
  require_aligned(scores, "scores");
  require_aligned(ids, "ids");
  const size_t n = x.shape(0), nq = q.shape(0), d = x.shape(1), k = scores.shape(1);
  require(metric <= 2, "exact_search: metric must be 0, 1 or 2");
  require(d >= 1 && d <= 16384 && q.shape(1) == d, "exact_search: x and q must have the same 1 to 16384 columns");
  require(k <= n, "exact_search: k must be at most the number of rows");
  require(n < (size_t(1) << 40) && nq <= 65536, "exact_search: at most 2**40 rows and 65536 queries");
  require(scores.shape(0) == nq && ids.shape(0) == nq && ids.shape(1) == k,
          "exact_search: scores and ids must be [queries, k]");
  require(metric != 1 || (x_norm.size() == n && q_norm.size() == nq),
          "exact_search: cosine needs the norm of each row and query");
  if (nq == 0 || k == 0) return;
  const auto memory = workspace(t.exact_workspace(n, nq, d, k));
  const droveway::ExactSearch search{x.data(), x.stride(0), x.stride(1), n, q.data(), nq, d, k, metric, x_norm.data(),
                                     q_norm.data(), scores.data(), ids.data()};
  call_kernel([&] { t.exact_search(search, memory.get()); });
}

size_t exact_workspace(size_t n, size_t nq, size_t d, size_t k) { return kernels().exact_workspace(n, nq, d, k); }

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("depth_order", depth_order, "z"_a.noconvert(), "order"_a.noconvert(),
        "Stable ascending order of z into `order`; False, with `order` undefined, where z holds a NaN.");
  m.def("pair_sums", pair_sums, "x"_a.noconvert(), "y"_a.noconvert(), "squares"_a, "out"_a.noconvert(),
        "out[i] = the sum over row i of x·y, or of (x − y)², in float64; y may have one row for all.");
  m.def("exact_search", exact_search, "x"_a.noconvert(), "q"_a.noconvert(), "metric"_a, "x_norm"_a.noconvert(),
        "q_norm"_a.noconvert(), "scores"_a.noconvert(), "ids"_a.noconvert(), "The best rows of each query, best first.");
  m.def("exact_workspace", exact_workspace, "n"_a, "nq"_a, "d"_a, "k"_a, "Bytes that a search works in.");
}
