// Bindings of reductions, normalisation, sorting, indexing and optimizer steps. Shapes and dtypes are the shape rules'
// business (tensor/primitives); what is checked here is what a kernel must be able to rely on.
#include "array/caster.hpp"
#include "array/in_use.hpp"
#include "droveway/python_call.hpp"
#include "workspace.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <string.h>

#include <cstddef>
#include <string>
#include <type_traits>
#include <vector>

namespace nb = nanobind;
using namespace nb::literals;

namespace droveway {
namespace {

const ReduceTable& kernels() {
  const TensorTable* table = tensor_kernels();
  if (table == nullptr)
    throw std::runtime_error("tensor._kernels: DROVEWAY_ISA=ref has no kernels, only the Python twins");
  return *table->reduce;
}

void require(bool good, const char* text) {
  if (!good) throw nb::value_error(text);
}

// Short work keeps Python's lock: giving it up costs more than the work.
constexpr int64_t kUnlockedBytes = 1 << 16;
template <class Work>
void run(int64_t bytes, Work work) {
  if (bytes < kUnlockedBytes) work();
  else call_kernel(work);
}
int64_t bytes_of(const View& v) { return view_size(v) * int64_t(dtype_size(v.dtype)); }

// An argument that may be None.
template <class O>
class Optional {
 public:
  Optional(nb::handle from, const char* name) {
    if (from.is_none()) return;
    if (!value_.load(from.ptr(), std::is_same_v<O, Out>)) throw nb::type_error((std::string(name) + " must be a tensor or None").c_str());
    there_ = true;
  }
  const O* operator->() const { return &value_; }
  bool operator==(std::nullptr_t) const { return !there_; }

 private:
  O value_;
  bool there_ = false;
};

bool same_shape(const View& a, const View& b) {
  if (a.ndim != b.ndim) return false;
  for (int d = 0; d < a.ndim; ++d)
    if (a.shape[d] != b.shape[d]) return false;
  return true;
}

// A view with the dimensions of x: those in axes have size 1. `v` has them, or has left them out.
struct Kept {
  int64_t dims[2 * kDimsMax];
  View view;
  Kept(const View& x, uint32_t axes, const View& v, const char* text) : view(v) {
    require(axes >> x.ndim == 0, text);
    const bool full = v.ndim == x.ndim;
    int at = 0;
    for (int d = 0; d < x.ndim; ++d) {
      const bool reduced = (axes >> d & 1u) != 0;
      if (reduced && !full) {
        dims[d] = 1;
        dims[kDimsMax + d] = 0;
        continue;
      }
      require(at < v.ndim && v.shape[at] == (reduced ? 1 : x.shape[d]), text);
      dims[d] = v.shape[at];
      dims[kDimsMax + d] = v.strides[at++];
    }
    require(at == v.ndim, text);
    view.ndim = x.ndim;
    view.shape = dims;
    view.strides = dims + kDimsMax;
  }
  Kept(const Kept&) = delete;
  Kept& operator=(const Kept&) = delete;
};

// A parameter of the last dimensions (weight, bias) as a view with x's dimensions, 1 for those before.
struct Trailing {
  int64_t dims[2 * kDimsMax];
  View view;
  Trailing(const View& x, const View& v, const char* text) : view(v) {
    require(v.ndim <= x.ndim, text);
    const int before = x.ndim - v.ndim;
    for (int d = 0; d < x.ndim; ++d) {
      dims[d] = d < before ? 1 : v.shape[d - before];
      dims[kDimsMax + d] = d < before ? 0 : v.strides[d - before];
      require(d < before || dims[d] == x.shape[d], text);
    }
    require(v.dtype == x.dtype, text);
    view.ndim = x.ndim;
    view.shape = dims;
    view.strides = dims + kDimsMax;
  }
  Trailing(const Trailing&) = delete;
  Trailing& operator=(const Trailing&) = delete;
};

// What results are computed in: 0 integers and bool, 1 float32 and below, 2 float64, 3 complex64, 4 complex128.
int family(Dtype d) { return is_complex(d) ? 3 + (d == Dtype::c128) : d == Dtype::f64 ? 2 : is_float(d) ? 1 : 0; }
Dtype wide_of(Dtype d) { return d == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

void bind_axes(nb::module_& m) {
  m.def("reduce", [](int op, const In& x, uint32_t axes, const Out& out, double parameter) {
        const View v = x.view(), to = out.view();
        require(op >= 0 && op < int(Reduce::count), "reduce: no such operation");
        const Kept kept(v, axes, to, "reduce: out must have the shape of x without the axes, or with 1 for them");
        const Reduce what = Reduce(op);
        const bool truth = what == Reduce::any || what == Reduce::all || what == Reduce::count_nonzero;
        const bool index = what == Reduce::argmax || what == Reduce::argmin;
        require(truth || index ? family(to.dtype) == 0 : family(to.dtype) == family(v.dtype), "reduce: wrong dtype of out");
        if (index || what == Reduce::max || what == Reduce::min) {
          require(!is_complex(v.dtype), "reduce: complex numbers have no order");
          int64_t n = 1;
          for (int d = 0; d < v.ndim; ++d)
            if ((axes >> d & 1u) != 0) n *= v.shape[d];
          require(n > 0 || view_size(to) == 0, "reduce: the extreme of nothing is not defined");
        }
        require(what < Reduce::logsumexp || is_float(v.dtype), "reduce: real floats only");
        require(!is_complex(v.dtype) || truth || what == Reduce::sum || what == Reduce::mean || what == Reduce::prod,
                "reduce: not for complex numbers");
        require(is_float(v.dtype) || is_complex(v.dtype) || (what != Reduce::mean && what != Reduce::norm), "reduce: floats only");
        run(bytes_of(v), [&] { kernels().reduce(what, v, axes, kept.view, parameter); });
      }, "op"_a, "x"_a, "axes"_a, "out"_a, "parameter"_a = 0.0,
      "out = x reduced over the dimensions whose bits are set in axes.");
  m.attr("REDUCE") = [] {
    const char* names[] = {"sum", "prod", "mean", "square_sum", "norm", "max", "min", "any", "all", "count_nonzero",
                           "argmax", "argmin", "logsumexp", "var", "std"};
    nb::dict codes;
    for (int i = 0; i < int(Reduce::count); ++i) codes[names[i]] = i;
    return codes;
  }();
  m.def("scan", [](int op, const In& x, int axis, const Out& out, nb::object indices_or_none) {
        const Optional<Out> indices(indices_or_none, "indices");
        const View v = x.view(), to = out.view();
        require(op >= 0 && op < int(Scan::count), "scan: no such operation");
        require(axis >= 0 && axis < v.ndim && same_shape(v, to), "scan: out must have x's shape, and axis be one of its dimensions");
        require(family(v.dtype) == family(to.dtype), "scan: wrong dtype of out");
        const bool extreme = op >= int(Scan::max);
        require(!extreme || !is_complex(v.dtype), "scan: complex numbers have no order");
        View where{};
        if (indices != nullptr) {
          where = indices->view();
          require(extreme && same_shape(v, where) && where.dtype == Dtype::i64, "scan: indices must be int64 of x's shape");
        }
        run(bytes_of(v), [&] { kernels().scan(Scan(op), v, axis, to, indices != nullptr ? &where : nullptr); });
      }, "op"_a, "x"_a, "axis"_a, "out"_a, "indices"_a = nb::none(),
      "Cumulative sum (0), product (1), maximum (2), minimum (3) along an axis.");
}

void bind_normalization(nb::module_& m) {
  m.def("softmax", [](const In& x, int axis, const Out& out, bool logarithm) {
        const View v = x.view(), to = out.view();
        require(axis >= 0 && axis < v.ndim && same_shape(v, to) && v.dtype == to.dtype && is_float(v.dtype),
                "softmax: out must have x's shape and float dtype, and axis be one of its dimensions");
        run(bytes_of(v), [&] { kernels().softmax(v, axis, to, logarithm); });
      }, "x"_a, "axis"_a, "out"_a, "logarithm"_a);
  m.def("softmax_backward", [](const In& g, const In& y, int axis, const Out& out, bool logarithm) {
        const View a = g.view(), b = y.view(), to = out.view();
        require(axis >= 0 && axis < a.ndim && same_shape(a, b) && same_shape(a, to) && a.dtype == b.dtype &&
                    a.dtype == to.dtype && is_float(a.dtype),
                "softmax_backward: g, y and out must have one shape and float dtype");
        run(bytes_of(a), [&] { kernels().softmax_backward(a, b, axis, to, logarithm); });
      }, "g"_a, "y"_a, "axis"_a, "out"_a, "logarithm"_a);
  const auto axes_mask = [](const View& v, int trailing) {
    require(trailing >= 0 && trailing <= v.ndim, "norm: more dimensions than x has");
    return ((uint32_t{1} << v.ndim) - 1u) & ~((uint32_t{1} << (v.ndim - trailing)) - 1u);
  };
  m.def("layer_norm", [axes_mask](const In& x, nb::object weight_or_none, nb::object bias_or_none, int trailing, double epsilon,
                                  const Out& out, const Out& mean, const Out& rstd) {
        const Optional<In> weight(weight_or_none, "weight"), bias(bias_or_none, "bias");
        const View v = x.view(), to = out.view();
        const uint32_t axes = axes_mask(v, trailing);
        require(same_shape(v, to) && v.dtype == to.dtype && is_float(v.dtype), "layer_norm: out must have x's shape and float dtype");
        const Kept means(v, axes, mean.view(), "layer_norm: mean must have the shape of x without the axes");
        const Kept scales(v, axes, rstd.view(), "layer_norm: rstd must have the shape of x without the axes");
        require(means.view.dtype == wide_of(v.dtype) && scales.view.dtype == wide_of(v.dtype), "layer_norm: wrong dtype of mean or rstd");
        const Trailing w(v, weight != nullptr ? weight->view() : View{nullptr, v.dtype, 0, nullptr, nullptr}, "layer_norm: weight must have the last dimensions of x");
        const Trailing b(v, bias != nullptr ? bias->view() : View{nullptr, v.dtype, 0, nullptr, nullptr}, "layer_norm: bias must have the last dimensions of x");
        run(bytes_of(v), [&] {
          kernels().layer_norm(v, weight != nullptr ? &w.view : nullptr, bias != nullptr ? &b.view : nullptr, axes, epsilon,
                               to, means.view, scales.view);
        });
      }, "x"_a, "weight"_a.none(), "bias"_a.none(), "trailing"_a, "epsilon"_a, "out"_a, "mean"_a, "rstd"_a);
  m.def("rms_norm", [axes_mask](const In& x, nb::object weight_or_none, int trailing, double epsilon, const Out& out, const Out& rstd) {
        const Optional<In> weight(weight_or_none, "weight");
        const View v = x.view(), to = out.view();
        const uint32_t axes = axes_mask(v, trailing);
        require(same_shape(v, to) && v.dtype == to.dtype && is_float(v.dtype), "rms_norm: out must have x's shape and float dtype");
        const Kept scales(v, axes, rstd.view(), "rms_norm: rstd must have the shape of x without the axes");
        require(scales.view.dtype == wide_of(v.dtype), "rms_norm: wrong dtype of rstd");
        const Trailing w(v, weight != nullptr ? weight->view() : View{nullptr, v.dtype, 0, nullptr, nullptr}, "rms_norm: weight must have the last dimensions of x");
        run(bytes_of(v), [&] {
          kernels().rms_norm(v, weight != nullptr ? &w.view : nullptr, axes, epsilon, to, scales.view);
        });
      }, "x"_a, "weight"_a.none(), "trailing"_a, "epsilon"_a, "out"_a, "rstd"_a);
  m.def("norm_backward", [axes_mask](const In& g, const In& x, nb::object mean_or_none, const In& rstd, nb::object weight_or_none,
                                     int trailing, const Out& dx, nb::object d_weight_or_none, nb::object d_bias_or_none) {
        const Optional<In> mean(mean_or_none, "mean"), weight(weight_or_none, "weight");
        const Optional<Out> d_weight(d_weight_or_none, "d_weight"), d_bias(d_bias_or_none, "d_bias");
        const View gv = g.view(), xv = x.view(), to = dx.view();
        const uint32_t axes = axes_mask(xv, trailing);
        require(same_shape(gv, xv) && same_shape(xv, to) && gv.dtype == xv.dtype && xv.dtype == to.dtype && is_float(xv.dtype),
                "norm_backward: g, x and dx must have one shape and float dtype");
        const View none{nullptr, xv.dtype, 0, nullptr, nullptr};
        const Kept scales(xv, axes, rstd.view(), "norm_backward: rstd must have the shape of x without the axes");
        const Kept means(xv, axes, mean != nullptr ? mean->view() : rstd.view(), "norm_backward: mean must have the shape of x without the axes");
        require(means.view.dtype == wide_of(xv.dtype) && scales.view.dtype == wide_of(xv.dtype), "norm_backward: wrong dtype of mean or rstd");
        const Trailing w(xv, weight != nullptr ? weight->view() : none, "norm_backward: weight must have the last dimensions of x");
        const Trailing dw(xv, d_weight != nullptr ? d_weight->view() : none, "norm_backward: d_weight must have the last dimensions of x");
        const Trailing db(xv, d_bias != nullptr ? d_bias->view() : none, "norm_backward: d_bias must have the last dimensions of x");
        run(bytes_of(xv), [&] {
          kernels().norm_backward(gv, xv, mean != nullptr ? &means.view : nullptr, scales.view, weight != nullptr ? &w.view : nullptr,
                                  axes, to, d_weight != nullptr ? &dw.view : nullptr, d_bias != nullptr ? &db.view : nullptr);
        });
      }, "g"_a, "x"_a, "mean"_a.none(), "rstd"_a, "weight"_a.none(), "trailing"_a, "dx"_a, "d_weight"_a.none(), "d_bias"_a.none());

  const auto entropy = [](const View& logits, const View& targets, int64_t ignore_index, double smoothing) {
    require(logits.ndim == 2 && is_float(logits.dtype), "cross_entropy: logits must be floats [rows, classes]");
    require(targets.ndim == 1 && targets.dtype == Dtype::i64 && targets.shape[0] == logits.shape[0],
            "cross_entropy: targets must be int64[rows]");
    const int64_t* p = reinterpret_cast<const int64_t*>(targets.data);
    for (int64_t i = 0; i < targets.shape[0]; ++i) {
      const int64_t target = p[i * targets.strides[0]];
      if (target != ignore_index && (target < 0 || target >= logits.shape[1]))
        throw nb::index_error(("cross_entropy: target " + std::to_string(target) + " of row " + std::to_string(i) +
                               " is no class from 0 to " + std::to_string(logits.shape[1] - 1)).c_str());
    }
    return CrossEntropy{logits, targets, ignore_index, smoothing};
  };
  const auto one_per_row = [](const View& v, const View& logits, Dtype dtype) {
    require(v.ndim == 1 && v.shape[0] == logits.shape[0] && v.dtype == dtype, "cross_entropy: one value a row is needed");
  };
  m.def("cross_entropy", [=](const In& logits, const In& targets, int64_t ignore_index, double smoothing, const Out& loss, const Out& lse) {
        const View x = logits.view(), l = loss.view(), s = lse.view();
        const CrossEntropy c = entropy(x, targets.view(), ignore_index, smoothing);
        one_per_row(l, x, x.dtype);
        one_per_row(s, x, wide_of(x.dtype));
        run(bytes_of(x), [&] { kernels().cross_entropy(c, l, s); });
      }, "logits"_a, "targets"_a, "ignore_index"_a, "smoothing"_a, "loss"_a, "lse"_a);
  m.def("cross_entropy_backward", [=](const In& g, const In& logits, const In& targets, const In& lse, int64_t ignore_index,
                                      double smoothing, const Out& out) {
        const View x = logits.view(), gv = g.view(), s = lse.view(), to = out.view();
        const CrossEntropy c = entropy(x, targets.view(), ignore_index, smoothing);
        one_per_row(gv, x, x.dtype);
        one_per_row(s, x, wide_of(x.dtype));
        require(same_shape(x, to) && x.dtype == to.dtype, "cross_entropy_backward: out must be like logits");
        run(bytes_of(x), [&] { kernels().cross_entropy_backward(c, gv, s, to); });
      }, "g"_a, "logits"_a, "targets"_a, "lse"_a, "ignore_index"_a, "smoothing"_a, "out"_a);
}

[[noreturn]] void raise_index(const char* what, const View& indices, int64_t place, int64_t n) {
  int64_t rest = place, offset = 0;
  for (int d = indices.ndim - 1; d >= 0; --d) {
    offset += rest % indices.shape[d] * indices.strides[d];
    rest /= indices.shape[d];
  }
  const int64_t index = reinterpret_cast<const int64_t*>(indices.data)[offset];
  throw nb::index_error((std::string(what) + ": index " + std::to_string(index) + " (number " + std::to_string(place) +
                         ") is not from " + std::to_string(-n) + " to " + std::to_string(n - 1)).c_str());
}
void check_indices(const char* what, const View& indices, int64_t n) {
  require(indices.dtype == Dtype::i64, "indices must be int64");
  const int64_t place = kernels().bad_index(indices, n);
  if (place >= 0) raise_index(what, indices, place, n);
}

void bind_sorting(nb::module_& m) {
  m.def("sort", [](const In& x, int axis, bool descending, nb::object values_or_none, nb::object indices_or_none) {
        const Optional<Out> values(values_or_none, "values"), indices(indices_or_none, "indices");
        const View v = x.view();
        require(axis >= 0 && axis < v.ndim && !is_complex(v.dtype), "sort: an axis of a real x is needed");
        View value_view{}, index_view{};
        int64_t k = v.shape[axis];
        const auto check = [&](const Optional<Out>& out, View* view, Dtype dtype) {
          if (out == nullptr) return;
          *view = out->view();
          require(view->ndim == v.ndim && view->dtype == dtype, "sort: results must be like x, indices int64");
          k = view->shape[axis];
          for (int d = 0; d < v.ndim; ++d)
            require(d == axis ? k <= v.shape[d] : view->shape[d] == v.shape[d], "sort: results must have x's shape but for the axis");
        };
        check(values, &value_view, v.dtype);
        check(indices, &index_view, Dtype::i64);
        require(values == nullptr || indices == nullptr || value_view.shape[axis] == index_view.shape[axis], "sort: results of one shape");
        require(v.shape[axis] < (int64_t{1} << 32), "sort: more than 2^32 elements along the axis");
        const SortJob job{v, axis, descending, size_t(k), values != nullptr ? &value_view : nullptr, indices != nullptr ? &index_view : nullptr};
        const Workspace workspace(view_size(v) == 0 ? 0 : kernels().sort_workspace(job), "workspace of sort");
        if (only_workspace) return;
        run(bytes_of(v) * 4, [&] { kernels().sort(job, workspace.data()); });
      }, "x"_a, "axis"_a, "descending"_a, "values"_a.none(), "indices"_a.none(),
      "Stable order along an axis, NaN last: as many of it as the results hold.");
  m.def("searchsorted", [](const In& sorted, const In& values, bool right, const Out& out) {
        const View s = sorted.view(), v = values.view(), to = out.view();
        require(s.ndim == 1 && s.dtype == v.dtype && !is_complex(s.dtype) && same_shape(v, to) && to.dtype == Dtype::i64,
                "searchsorted: a vector, values of its dtype, and int64 results of their shape are needed");
        run(bytes_of(v) * 16, [&] { kernels().searchsorted(s, v, right, to); });
      }, "sorted"_a, "values"_a, "right"_a, "out"_a);
  m.def("unique_groups", [](const In& x, const In& order, const Out& first, const Out& inverse, const Out& counts, const Out& groups) {
        const View v = x.view(), o = order.view(), f = first.view(), i = inverse.view(), c = counts.view(), n = groups.view();
        require(v.ndim == 1, "unique_groups: x must be a vector");
        for (const View* each : {&f, &i, &c})
          require(each->ndim == 1 && each->shape[0] == v.shape[0] && each->dtype == Dtype::i64 && view_contiguous(*each),
                  "unique_groups: contiguous int64 results as long as x are needed");
        require(o.ndim == 1 && o.shape[0] == v.shape[0] && o.dtype == Dtype::i64, "unique_groups: order must be int64, as long as x");
        require(n.dtype == Dtype::i64 && view_size(n) == 1, "unique_groups: groups must be one int64");
        const Workspace copied(size_t(bytes_of(o)), "order of unique_groups");
        if (only_workspace) return;
        if (copied.data() != nullptr) kernels().copy(o, copied.data());
        const int64_t* places = reinterpret_cast<const int64_t*>(copied.data());
        for (int64_t k = 0; k < v.shape[0]; ++k)
          if (places[k] < 0 || places[k] >= v.shape[0]) raise_index("unique_groups", o, k, v.shape[0]);
        if (v.shape[0] > 0) {
          memset(f.data, 0, size_t(bytes_of(f)));
          memset(c.data, 0, size_t(bytes_of(c)));
        }
        run(bytes_of(v) * 4, [&] {
          *reinterpret_cast<int64_t*>(n.data) = int64_t(kernels().unique_groups(
              v, places, reinterpret_cast<int64_t*>(f.data), reinterpret_cast<int64_t*>(i.data), reinterpret_cast<int64_t*>(c.data)));
        });
      }, "x"_a, "order"_a, "first"_a, "inverse"_a, "counts"_a, "groups"_a,
      "Groups of equal values of x, whose stable ascending order is given, and how many; the rest of first and counts is 0.");
}

// One-dimensional over all elements of a contiguous view.
View flat(const View& v, int64_t* dims) {
  dims[0] = view_size(v);
  dims[1] = 1;
  return {v.data, v.dtype, 1, dims, dims + 1};
}

void bind_indexing(nb::module_& m) {
  m.def("take", [](const In& x, int axis, const In& indices, const Out& out) {
        const View v = x.view(), i = indices.view(), to = out.view();
        require(axis >= 0 && axis < v.ndim && view_contiguous(to) && to.dtype == v.dtype, "take: an axis of x and a contiguous out are needed");
        require(to.ndim == v.ndim - 1 + i.ndim, "take: wrong shape of out");
        for (int d = 0; d < to.ndim; ++d)
          require(to.shape[d] == (d < axis ? v.shape[d] : d < axis + i.ndim ? i.shape[d - axis] : v.shape[d - i.ndim + 1]), "take: wrong shape of out");
        check_indices("take", i, v.shape[axis]);
        if (view_size(to) == 0) return;
        int64_t dims[2];
        const Workspace copied(view_contiguous(i) ? 0 : size_t(bytes_of(i)), "indices of take");
        if (only_workspace) return;
        View vector = flat(i, dims);
        if (copied.data() != nullptr) {
          kernels().copy(i, copied.data());
          vector.data = copied.data();
        }
        run(bytes_of(to), [&] { kernels().take(v, axis, vector, to); });
      }, "x"_a, "axis"_a, "indices"_a, "out"_a);
  m.def("gather", [](const In& x, int axis, const In& indices, const Out& out) {
        const View v = x.view(), i = indices.view(), to = out.view();
        require(axis >= 0 && axis < v.ndim && v.ndim == i.ndim && same_shape(i, to) && to.dtype == v.dtype,
                "gather: x, indices and out must have as many dimensions, and out the shape of indices");
        for (int d = 0; d < v.ndim; ++d)
          require(d == axis || v.shape[d] == 1 || v.shape[d] == i.shape[d], "gather: x and indices must agree beside the axis");
        check_indices("gather", i, v.shape[axis]);
        run(bytes_of(to) * 2, [&] { kernels().gather(v, axis, i, to); });
      }, "x"_a, "axis"_a, "indices"_a, "out"_a);
  m.def("copy_into", [](const In& x, const Out& out) {
        const View v = x.view(), to = out.view();
        require(same_shape(v, to) && v.dtype == to.dtype && view_contiguous(to), "copy_into: a contiguous out like x is needed");
        run(bytes_of(v), [&] { kernels().copy(v, to.data); });
      }, "x"_a, "out"_a);
  // elementwise: indices have the shape of updates, and each element goes to its place along the axis. Otherwise indices is
  // any shape, and updates has it in place of the axis.
  m.def("scatter", [](const Out& out, int axis, const In& indices, const In& updates, int combine, bool include_out, bool elementwise) {
        const View to = out.view(), i = indices.view(), u = updates.view();
        require(axis >= 0 && axis < to.ndim && view_contiguous(to) && u.dtype == to.dtype, "scatter: an axis of a contiguous out is needed");
        require(combine >= 0 && combine <= int(Combine::min), "scatter: no such way to combine");
        const Combine how = Combine(combine);
        require(how == Combine::set || how == Combine::sum || how == Combine::mean || !is_complex(to.dtype), "scatter: not for complex numbers");
        const int64_t n = to.shape[axis];
        int64_t inner = 1, outer = 1;
        for (int d = 0; d < axis; ++d) outer *= to.shape[d];
        for (int d = axis + 1; d < to.ndim; ++d) inner *= to.shape[d];
        if (elementwise) {
          require(same_shape(i, u) && i.ndim == to.ndim, "scatter: indices and updates must have one shape, of out's dimensions");
          for (int d = 0; d < to.ndim; ++d) require(d == axis || i.shape[d] <= to.shape[d], "scatter: updates reach beyond out");
        } else {
          require(u.ndim == to.ndim - 1 + i.ndim, "scatter: wrong shape of updates");
          for (int d = 0; d < u.ndim; ++d)
            require(u.shape[d] == (d < axis ? to.shape[d] : d < axis + i.ndim ? i.shape[d - axis] : to.shape[d - i.ndim + 1]), "scatter: wrong shape of updates");
        }
        check_indices("scatter", i, n);
        const int64_t count = elementwise ? view_size(u) : outer * view_size(i);
        const int64_t rows = elementwise ? view_size(to) : outer * n;
        if (count == 0 || (!elementwise && inner == 0)) return;
        require(count < (int64_t{1} << 32) && rows < (int64_t{1} << 32), "scatter: more than 2^32 rows");

        const Workspace places(size_t(count) * 8, "destinations of scatter");
        int64_t* destinations = reinterpret_cast<int64_t*>(places.data());
        const Workspace copied_indices(view_contiguous(i) ? 0 : size_t(bytes_of(i)), "indices of scatter");
        const Workspace copied_updates(view_contiguous(u) ? 0 : size_t(bytes_of(u)), "updates of scatter");
        const int64_t* index = reinterpret_cast<const int64_t*>(i.data);
        const char* update = u.data;
        if (copied_indices.data() != nullptr) {
          kernels().copy(i, copied_indices.data());
          index = reinterpret_cast<const int64_t*>(copied_indices.data());
        }
        if (copied_updates.data() != nullptr) {
          kernels().copy(u, copied_updates.data());
          update = copied_updates.data();
        }
        const auto inside = [&](int64_t k) {  // whoever shares the memory may have changed it since the check
          const int64_t place = index[k] < 0 ? index[k] + n : index[k];
          if (uint64_t(place) >= uint64_t(n)) raise_index("scatter", i, k, n);
          return place;
        };
        if (elementwise) {
          int64_t at[kDimsMax] = {};
          int64_t steps[kDimsMax], step = 1;
          for (int d = to.ndim - 1; d >= 0; --d) {
            steps[d] = step;
            step *= to.shape[d];
          }
          for (int64_t k = 0; k < count; ++k) {
            int64_t place = inside(k) * steps[axis];
            for (int d = 0; d < to.ndim; ++d)
              if (d != axis) place += at[d] * steps[d];
            destinations[k] = place;
            for (int d = to.ndim - 1; d >= 0 && ++at[d] == u.shape[d]; --d) at[d] = 0;
          }
        } else {
          const int64_t each = view_size(i);
          for (int64_t o = 0; o < outer; ++o)
            for (int64_t k = 0; k < each; ++k) destinations[o * each + k] = o * n + inside(k);
        }
        ScatterJob job{to.dtype, to.data, update, destinations, size_t(rows), elementwise ? 1 : size_t(inner), size_t(count), how, include_out};
        if (is_complex(to.dtype) && how != Combine::set) {  // sums of complex numbers are those of their parts
          job.dtype = to.dtype == Dtype::c64 ? Dtype::f32 : Dtype::f64;
          job.width *= 2;
        }
        const Workspace workspace(kernels().scatter_workspace(job), "workspace of scatter");
        if (only_workspace) return;
        run(bytes_of(u), [&] { kernels().scatter(job, workspace.data()); });
      }, "out"_a, "axis"_a, "indices"_a, "updates"_a, "combine"_a, "include_out"_a, "elementwise"_a,
      "Updates of out in place: set (0: the last wins), sum (1), prod (2), mean (3), max (4), min (5).");
  m.def("nonzero", [](const In& x, const Out& out) {
        const View v = x.view(), to = out.view();
        require(v.ndim >= 1 && to.ndim == 2 && to.shape[0] == v.ndim && to.dtype == Dtype::i64 && view_contiguous(to),
                "nonzero: a contiguous int64[ndim, count] is needed");
        if (view_size(to) > 0) memset(to.data, 0, size_t(bytes_of(to)));  // if another thread clears some meanwhile
        run(bytes_of(v), [&] { kernels().nonzero(v, reinterpret_cast<int64_t*>(to.data), size_t(to.shape[1])); });
      }, "x"_a, "out"_a);
}

struct StepArguments {
  std::vector<Out> outs;
  std::vector<In> gradients;
  std::vector<StepTensor> tensors;
  Dtype dtype = Dtype::f32;
  int64_t bytes = 0;

  StepArguments(nb::sequence parameters, nb::sequence gradient_list, nb::object first, nb::object second) {
    const size_t count = nb::len(parameters);
    require(nb::len(gradient_list) == count, "step: as many gradients as parameters are needed");
    outs.reserve(3 * count);
    gradients.reserve(count);
    const auto writable = [&](nb::handle from, size_t i) -> View {
      outs.emplace_back();
      if (!outs.back().load(nb::object(from[i]).ptr(), true)) throw nb::type_error("step: parameters and state must be tensors that can be written");
      return outs.back().view();
    };
    for (size_t i = 0; i < count; ++i) {
      const View p = writable(parameters, i);
      gradients.emplace_back();
      if (!gradients.back().load(nb::object(gradient_list[i]).ptr(), false)) throw nb::type_error("step: gradients must be tensors");
      const View g = gradients.back().view();
      if (i == 0) dtype = p.dtype;
      require(p.dtype == dtype && (dtype == Dtype::f32 || dtype == Dtype::f64), "step: parameters must be all float32 or all float64");
      const auto fits = [&](const View& v) {
        require(v.dtype == dtype && same_shape(v, p) && view_contiguous(v), "step: gradients and state must be contiguous, like their parameter");
      };
      fits(p);
      fits(g);
      StepTensor t{p.data, g.data, nullptr, nullptr, size_t(view_size(p))};
      if (!first.is_none()) {
        const View v = writable(first, i);
        fits(v);
        t.first = v.data;
      }
      if (!second.is_none()) {
        const View v = writable(second, i);
        fits(v);
        t.second = v.data;
      }
      bytes += 4 * bytes_of(p);
      tensors.push_back(t);
    }
  }
  // Gradients that were recorded must not be computed from what has changed, were it by a step that Ctrl-C stopped.
  void count_changes() const {
    for (const Out& out : outs)
      if (out.tensor() != nullptr) ++out.tensor()->storage->version;
  }
};

void bind_optimizers(nb::module_& m) {
  m.def("adamw_step", [](nb::sequence parameters, nb::sequence gradients, nb::sequence first, nb::sequence second, double decay,
                         double beta1, double beta2, double step, double root_scale, double epsilon) {
        require(nb::len(first) == nb::len(parameters) && nb::len(second) == nb::len(parameters), "step: as much state as parameters is needed");
        const StepArguments a(parameters, gradients, first, second);
        const AdamWStep s{decay, beta1, 1 - beta1, beta2, 1 - beta2, step, root_scale, epsilon};
        a.count_changes();
        run(a.bytes, [&] { kernels().adamw(a.tensors.data(), a.tensors.size(), a.dtype, s); });
      }, "parameters"_a, "gradients"_a, "first"_a, "second"_a, "decay"_a, "beta1"_a, "beta2"_a, "step"_a, "root_scale"_a, "epsilon"_a);
  m.def("sgd_step", [](nb::sequence parameters, nb::sequence gradients, nb::object momenta, double rate, double decay,
                       double momentum, double dampening, bool nesterov, bool first_step) {
        require(momenta.is_none() || nb::len(momenta) == nb::len(parameters), "step: as much state as parameters is needed");
        const StepArguments a(parameters, gradients, momenta, nb::none());
        const SgdStep s{rate, decay, momentum, 1 - dampening, nesterov, first_step};
        a.count_changes();
        run(a.bytes, [&] { kernels().sgd(a.tensors.data(), a.tensors.size(), a.dtype, s); });
      }, "parameters"_a, "gradients"_a, "momenta"_a.none(), "rate"_a, "decay"_a, "momentum"_a, "dampening"_a, "nesterov"_a, "first_step"_a);
}

}  // namespace

void bind_reduce(nb::module_& m) {
  bind_axes(m);
  bind_normalization(m);
  bind_sorting(m);
  bind_indexing(m);
  bind_optimizers(m);
}

}  // namespace droveway
