// The self-test of reductions, normalisation, sorting, indexing and optimizer steps. Twin: tensor/selftest_reduce_ref.py.
#include <vector>

#include "droveway/selftest_memory.hpp"
#include "selftest_values.hpp"
#include "table.hpp"

namespace droveway {
namespace {

using Shape = std::vector<int64_t>;

int64_t count_of(const Shape& shape) {
  int64_t n = 1;
  for (int64_t size : shape) n *= size;
  return n;
}

// Elements of a dtype in C order, or with every second element of the last dimension left out and the first backwards.
struct Array {
  Bytes bytes;
  Shape shape, strides;
  Dtype dtype;
  int64_t offset = 0;

  Array(Dtype dtype, const Shape& shape) : Array(dtype, shape, Bytes(size_t(count_of(shape)) * dtype_size(dtype))) {}
  Array(uint64_t seed, Dtype dtype, const Shape& shape) : Array(dtype, shape, made(seed, dtype, count_of(shape))) {}
  Array(uint64_t seed, Dtype dtype, const Shape& shape, bool gaps)
      : Array(dtype, shape, made(seed, dtype, count_of(shape) * (gaps ? 2 : 1))) {
    if (!gaps) return;
    for (int64_t& stride : strides) stride *= 2;
    offset = (shape[0] - 1) * strides[0];
    strides[0] = -strides[0];
  }
  Array(Dtype dtype, const Shape& shape, Bytes bytes) : bytes(std::move(bytes)), shape(shape), strides(shape.size()), dtype(dtype) {
    int64_t step = 1;
    for (size_t d = shape.size(); d-- > 0; step *= shape[d]) strides[d] = step;
  }
  static Bytes made(uint64_t seed, Dtype dtype, int64_t n) {
    Bytes bytes = values(seed, size_t(n), dtype);
    if (dtype == Dtype::boolean)
      for (unsigned char& b : bytes) b &= 1;
    return bytes;
  }
  View view() {
    return {reinterpret_cast<char*>(bytes.data()) + offset * int64_t(dtype_size(dtype)), dtype, int(shape.size()), shape.data(), strides.data()};
  }
};

struct Hash {
  uint64_t value = fnv1a(nullptr, 0);
  void add(const Array& a) { value = fnv1a(a.bytes.data(), a.bytes.size(), value); }
};

Dtype widened(Dtype d) { return d <= Dtype::i64 ? Dtype::i64 : d <= Dtype::u64 ? Dtype::u64 : d; }
Dtype wide(Dtype d) { return d == Dtype::f64 ? Dtype::f64 : Dtype::f32; }

struct Case {
  Shape shape;
  uint32_t axes;
};
const std::vector<Case>& cases() {
  static const std::vector<Case> all = {{{5}, 1},          {{300}, 1},        {{3, 17, 5}, 2}, {{3, 17, 5}, 5},
                                        {{130, 70}, 1},    {{70, 130}, 2},    {{9000}, 1},     {{4200, 5}, 1}};
  return all;
}

uint64_t hash_reduce(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  for (const Case& c : cases()) {
    for (bool gaps : {false, true}) {
      Array x(c.axes, dtype, c.shape, gaps);
      Shape kept = c.shape;
      for (size_t d = 0; d < kept.size(); ++d)
        if ((c.axes >> d & 1u) != 0) kept[d] = 1;
      for (int op = 0; op < int(Reduce::count); ++op) {
        const Reduce what = Reduce(op);
        const bool extreme = what == Reduce::max || what == Reduce::min;
        const bool index = what == Reduce::argmax || what == Reduce::argmin || what == Reduce::count_nonzero;
        const bool truth = what == Reduce::any || what == Reduce::all;
        if (is_complex(dtype) && (extreme || what == Reduce::argmax || what == Reduce::argmin)) continue;
        if (!is_float(dtype) && (what >= Reduce::logsumexp || what == Reduce::norm || what == Reduce::square_sum)) continue;
        if (!is_float(dtype) && !is_complex(dtype) && what == Reduce::mean) continue;
        Array out(truth ? Dtype::boolean : index ? Dtype::i64 : extreme ? dtype : widened(dtype), kept);
        table.reduce(what, x.view(), c.axes, out.view(), 1.0);
        hash.add(out);
      }
    }
  }
  return hash.value;
}

uint64_t hash_scan(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  const std::vector<Case> scans = {{{300}, 0}, {{4700}, 0}, {{3, 17, 5}, 1}, {{600, 7}, 0}};
  for (const Case& c : scans) {
    for (bool gaps : {false, true}) {
      Array x(c.axes + 3, dtype, c.shape, gaps);
      for (int op = 0; op < int(Scan::count); ++op) {
        const bool extreme = op >= int(Scan::max);
        if (extreme && (is_complex(dtype) || c.shape[0] >= 1000)) continue;
        Array out(extreme ? dtype : widened(dtype), c.shape), indices(Dtype::i64, c.shape);
        View where = indices.view();
        table.scan(Scan(op), x.view(), int(c.axes), out.view(), extreme ? &where : nullptr);
        hash.add(out);
        if (extreme) hash.add(indices);
      }
    }
  }
  return hash.value;
}

uint64_t hash_softmax(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  const std::vector<Case> lines = {{{5}, 0}, {{3, 300}, 1}, {{3, 17, 5}, 1}, {{1, 4200}, 1}, {{40, 33}, 0}};
  for (const Case& c : lines) {
    for (bool gaps : {false, true}) {
      Array x(c.axes + 9, dtype, c.shape, gaps), g(c.axes + 11, dtype, c.shape, gaps);
      for (bool logarithm : {false, true}) {
        Array y(dtype, c.shape), d(dtype, c.shape);
        table.softmax(x.view(), int(c.axes), y.view(), logarithm);
        table.softmax_backward(g.view(), y.view(), int(c.axes), d.view(), logarithm);
        hash.add(y);
        hash.add(d);
      }
    }
  }
  const std::vector<Shape> tables = {{4, 10}, {3, 4200}, {1, 1}};
  for (const Shape& shape : tables) {
    for (double smoothing : {0.0, 0.125}) {
      Array x(21, dtype, shape, true), targets(Dtype::i64, {shape[0]}), loss(dtype, {shape[0]}), lse(wide(dtype), {shape[0]});
      int64_t* t = reinterpret_cast<int64_t*>(targets.bytes.data());
      for (int64_t i = 0; i < shape[0]; ++i) t[i] = i == 1 ? -100 : (7 * i + 3) % shape[1];
      const CrossEntropy entropy{x.view(), targets.view(), -100, smoothing};
      table.cross_entropy(entropy, loss.view(), lse.view());
      Array g(22, dtype, {shape[0]}), d(dtype, shape);
      table.cross_entropy_backward(entropy, g.view(), lse.view(), d.view());
      hash.add(loss);
      hash.add(lse);
      hash.add(d);
    }
  }
  return hash.value;
}

uint64_t hash_norm(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  const std::vector<Shape> shapes = {{3, 300}, {1, 4200}, {100, 33}, {4200, 3}};
  for (const Shape& shape : shapes) {
    for (bool gaps : {false, true}) {
      Array x(31, dtype, shape, gaps), g(32, dtype, shape, gaps), weight(33, dtype, {1, shape[1]}), bias(34, dtype, {1, shape[1]});
      Array y(dtype, shape), dx(dtype, shape), mean(wide(dtype), {shape[0], 1}), rstd(wide(dtype), {shape[0], 1});
      Array d_weight(dtype, {1, shape[1]}), d_bias(dtype, {1, shape[1]});
      const View w = weight.view(), b = bias.view(), m = mean.view(), dw = d_weight.view(), db = d_bias.view();
      table.layer_norm(x.view(), &w, &b, 2, 1e-5, y.view(), m, rstd.view());
      table.norm_backward(g.view(), x.view(), &m, rstd.view(), &w, 2, dx.view(), &dw, &db);
      for (const Array* a : {&y, &mean, &rstd, &dx, &d_weight, &d_bias}) hash.add(*a);
      table.rms_norm(x.view(), &w, 2, 1e-5, y.view(), rstd.view());
      table.norm_backward(g.view(), x.view(), nullptr, rstd.view(), nullptr, 2, dx.view(), &dw, nullptr);
      for (const Array* a : {&y, &rstd, &dx, &d_weight}) hash.add(*a);
    }
  }
  return hash.value;
}

uint64_t hash_sort(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  const std::vector<Case> lines = {{{5}, 0}, {{3000}, 0}, {{3, 60, 5}, 1}, {{60, 7}, 0}};
  for (const Case& c : lines) {
    for (bool gaps : {false, true}) {
      Array x(c.axes + 41, dtype, c.shape, gaps);
      for (bool descending : {false, true}) {
        for (bool all : {true, false}) {
          Shape shape = c.shape;
          if (!all) shape[c.axes] /= 3;
          Array out(dtype, shape), indices(Dtype::i64, shape);
          const View v = out.view(), i = indices.view();
          const SortJob job{x.view(), int(c.axes), descending, size_t(shape[c.axes]), &v, &i};
          const AlignedMemory workspace(table.sort_workspace(job));
          table.sort(job, workspace.p);
          hash.add(out);
          hash.add(indices);
          if (!all || descending || c.shape.size() != 1) continue;
          Array places(Dtype::i64, shape), first(Dtype::i64, shape), inverse(Dtype::i64, shape), counts(Dtype::i64, shape);
          for (bool right : {false, true}) {
            table.searchsorted(v, x.view(), right, places.view());
            hash.add(places);
          }
          const auto ints = [](Array& a) { return reinterpret_cast<int64_t*>(a.bytes.data()); };
          const size_t groups = table.unique_groups(x.view(), ints(indices), ints(first), ints(inverse), ints(counts));
          for (Array* a : {&first, &counts}) a->bytes.resize(groups * 8);
          for (Array* a : {&first, &inverse, &counts}) hash.add(*a);
        }
      }
    }
  }
  return hash.value;
}

Array places_of(uint64_t seed, const Shape& shape, int64_t n) {
  Array a(Dtype::i64, shape);
  SplitMix64 generator{seed};
  int64_t* p = reinterpret_cast<int64_t*>(a.bytes.data());
  for (int64_t i = 0; i < count_of(shape); ++i) p[i] = int64_t(generator.next() % uint64_t(n));
  return a;
}

uint64_t hash_indexing(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  const Shape shape = {3, 40, 5};
  for (bool gaps : {false, true}) {
    Array x(51, dtype, shape, gaps);
    Array where = places_of(52, {60}, 40), taken(dtype, {3, 60, 5});
    table.take(x.view(), 1, where.view(), taken.view());
    hash.add(taken);
    Array index = places_of(53, {3, 9, 5}, 40), gathered(dtype, {3, 9, 5});
    table.gather(x.view(), 1, index.view(), gathered.view());
    hash.add(gathered);
    Array count(Dtype::i64, {1, 1, 1});
    table.reduce(Reduce::count_nonzero, x.view(), 7, count.view(), 0.0);
    const int64_t found = *reinterpret_cast<int64_t*>(count.bytes.data());
    Array indices(Dtype::i64, {3, found});
    table.nonzero(x.view(), reinterpret_cast<int64_t*>(indices.bytes.data()), size_t(found));
    hash.add(indices);
  }
  if (is_complex(dtype) || dtype == Dtype::boolean) return hash.value;
  for (int64_t width : {1, 5, 70}) {
    for (int combine = 0; combine <= int(Combine::min); ++combine) {
      Array out(61, dtype, {7, width}), updates(62, dtype, {300, width}), rows = places_of(63, {300}, 6);
      const ScatterJob job{dtype, reinterpret_cast<char*>(out.bytes.data()), reinterpret_cast<const char*>(updates.bytes.data()),
                           reinterpret_cast<const int64_t*>(rows.bytes.data()), 7, size_t(width), 300, Combine(combine), combine % 2 == 1};
      const AlignedMemory workspace(table.scatter_workspace(job));
      table.scatter(job, workspace.p);
      hash.add(out);
    }
  }
  return hash.value;
}

uint64_t hash_steps(const ReduceTable& table, Dtype dtype) {
  Hash hash;
  std::vector<Array> p, g, m, v;
  std::vector<StepTensor> tensors;
  for (int64_t n : {1, 17, 0, 17000, 33}) {
    p.emplace_back(71, dtype, Shape{n});
    g.emplace_back(72, dtype, Shape{n});
    m.emplace_back(73, dtype, Shape{n});
    v.emplace_back(74, dtype, Shape{n});
  }
  const auto data = [](Array& a) { return reinterpret_cast<char*>(a.bytes.data()); };
  for (size_t i = 0; i < p.size(); ++i) tensors.push_back({data(p[i]), data(g[i]), data(m[i]), data(v[i]), size_t(p[i].shape[0])});
  table.adamw(tensors.data(), tensors.size(), dtype, {0.99, 0.9, 1 - 0.9, 0.999, 1 - 0.999, 0.01, 3.5, 1e-8});
  for (const auto* group : {&p, &m, &v})
    for (const Array& a : *group) hash.add(a);
  for (StepTensor& t : tensors) t.second = nullptr;
  table.sgd(tensors.data(), tensors.size(), dtype, {0.1, 0.01, 0.9, 1 - 0.25, true, false});
  for (const auto* group : {&p, &m})
    for (const Array& a : *group) hash.add(a);
  return hash.value;
}

}  // namespace

void reduce_self_test(const TensorTable& tensor, SelfTestEmit emit, void* context) {
  const ReduceTable& table = *tensor.reduce;
  const auto each = [&](const char* name, uint64_t (*hash)(const ReduceTable&, Dtype), std::initializer_list<Dtype> dtypes) {
    for (Dtype d : dtypes) {
      char full[64] = "tensor.";
      strcat(strcat(strcat(full, name), "_"), dtype_name(d));
      emit(context, full, hash(table, d));
    }
  };
  using enum Dtype;
  each("reduce", hash_reduce, {boolean, i8, i32, u16, u64, f16, bf16, f32, f64, c64, c128});
  each("scan", hash_scan, {i8, u64, f16, bf16, f32, f64, c64, c128});
  each("softmax", hash_softmax, {f16, bf16, f32, f64});
  each("norm", hash_norm, {f16, bf16, f32, f64});
  each("sort", hash_sort, {boolean, i8, i64, u32, u64, f16, bf16, f32, f64});
  each("indexing", hash_indexing, {boolean, i8, u32, i64, f16, bf16, f32, f64, c64, c128});
  each("steps", hash_steps, {f32, f64});
}

}  // namespace droveway
