// The self-test of decompositions, Fourier transforms and sparse products. Twin: tensor/selftest_linalg_ref.py.
#include <vector>

#include "fft.hpp"
#include "linalg.hpp"
#include "sparse.hpp"
#include "table.hpp"

namespace droveway {
namespace {

// A multiple of 1/512 in [−1, 1), exact in every type.
double fraction(SplitMix64& source) { return double(int64_t(source.next() >> 54) - 512) / 512; }

// An array of parts (two a number where it is complex) and the view of it.
template <class T>
struct Array {
  std::vector<T> parts;
  std::vector<int64_t> dims;  // shape, then strides
  Dtype dtype;

  Array(Dtype d, std::vector<int64_t> shape) : dims(shape), dtype(d) {
    int64_t size = 1;
    dims.resize(2 * shape.size());
    for (size_t k = shape.size(); k-- > 0;) {
      dims[shape.size() + k] = size;
      size *= shape[k];
    }
    parts.assign(size_t(size) * (is_complex(d) ? 2 : 1), T(-7));
  }
  View view() {
    const int ndim = int(dims.size() / 2);
    return {reinterpret_cast<char*>(parts.data()), dtype, ndim, dims.data(), dims.data() + ndim};
  }
  uint64_t hash(uint64_t seed) const { return fnv1a(parts.data(), parts.size() * sizeof(T), seed); }
};

struct Workspace {
  std::vector<char> bytes;
  char* get(size_t n) {
    if (bytes.size() < n + 64) bytes.resize(n + 64);
    return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
  }
};

constexpr int64_t kBatch = 2;
constexpr int64_t kSizes[] = {1, 2, 5};

enum class Kind { plain, symmetric, positive };

template <class T>
Array<T> matrix(SplitMix64& source, Dtype d, int64_t m, int64_t n, Kind kind) {
  Array<T> x(d, {kBatch, m, n});
  const int64_t parts = is_complex(d) ? 2 : 1;
  for (T& part : x.parts) part = T(fraction(source));
  if (kind == Kind::plain) return x;
  for (int64_t b = 0; b < kBatch; ++b) {
    T* a = x.parts.data() + b * n * n * parts;
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = 0; j < i; ++j) {
        a[(j * n + i) * parts] = a[(i * n + j) * parts];
        if (parts == 2) a[(j * n + i) * 2 + 1] = -a[(i * n + j) * 2 + 1];
      }
      if (parts == 2) a[(i * n + i) * 2 + 1] = T(0);
      if (kind == Kind::positive) a[(i * n + i) * parts] += T(2 * n);
    }
  }
  return x;
}

template <class T>
class Linalg {
 public:
  Linalg(const TensorTable& table, Dtype dtype, Dtype real) : table_(table), dtype_(dtype), real_(real) {}

  uint64_t hash() {
    SplitMix64 source{77};
    for (int64_t n : kSizes) {
      Array<T> x = matrix<T>(source, dtype_, n, n, Kind::positive);
      run(LinalgOp::cholesky, x, {{n, n}});
      x = matrix<T>(source, dtype_, n, n, Kind::symmetric);
      run(LinalgOp::cholesky, x, {{n, n}});  // refused
      run_eigh(x, n);
      x = matrix<T>(source, dtype_, n, n, Kind::plain);
      run(LinalgOp::det, x, {{}});
      run_slogdet(x);
      run(LinalgOp::inv, x, {{n, n}});
      Array<T> b = matrix<T>(source, dtype_, n, 3, Kind::plain);
      run(LinalgOp::solve, x, {{n, 3}}, &b);
      for (bool lower : {false, true})
        for (bool unit : {false, true}) run(LinalgOp::tri_solve, x, {{n, 3}}, &b, false, lower, unit);
      for (int64_t m : {n, n + 2, (n + 1) / 2}) {
        Array<T> a = matrix<T>(source, dtype_, m, n, Kind::plain);
        run_lu(a, m, n);
        const int64_t low = m < n ? m : n;
        run(LinalgOp::qr, a, {{m, low}, {low, n}});
        run(LinalgOp::qr, a, {{m, m}, {m, n}}, nullptr, true);
        run_svd(a, m, low, n, low, false);
        run_svd(a, m, m, n, n, true);
      }
    }
    return hash_;
  }

 private:
  void call(LinalgOp op, Array<T>& x, Array<T>* b, std::vector<View> outs, bool full, bool lower, bool unit) {
    int32_t status[kBatch] = {};
    LinalgCall c{op, {x.view(), {}}, {}, full, lower, unit, status};
    if (b != nullptr) c.in[1] = b->view();
    for (size_t i = 0; i < outs.size(); ++i) c.out[i] = outs[i];
    table_.linalg->run(c, space_.get(table_.linalg->workspace(c)));
    hash_ = fnv1a(status, sizeof status, hash_);
  }
  static std::vector<int64_t> batched(std::vector<int64_t> shape) {
    shape.insert(shape.begin(), kBatch);
    return shape;
  }
  void run(LinalgOp op, Array<T>& x, std::vector<std::vector<int64_t>> shapes, Array<T>* b = nullptr, bool full = false,
           bool lower = false, bool unit = false) {
    std::vector<Array<T>> outs;
    for (const std::vector<int64_t>& shape : shapes) outs.emplace_back(dtype_, batched(shape));
    std::vector<View> views;
    for (Array<T>& out : outs) views.push_back(out.view());
    call(op, x, b, views, full, lower, unit);
    for (const Array<T>& out : outs) hash_ = out.hash(hash_);
  }
  void run_lu(Array<T>& x, int64_t m, int64_t n) {
    Array<T> packed(dtype_, {kBatch, m, n});
    Array<int64_t> rows(Dtype::i64, {kBatch, m});
    call(LinalgOp::lu, x, nullptr, {packed.view(), rows.view()}, false, false, false);
    hash_ = rows.hash(packed.hash(hash_));
  }
  void run_slogdet(Array<T>& x) {
    Array<T> sign(dtype_, {kBatch}), log(real_, {kBatch});
    call(LinalgOp::slogdet, x, nullptr, {sign.view(), log.view()}, false, false, false);
    hash_ = log.hash(sign.hash(hash_));
  }
  void run_eigh(Array<T>& x, int64_t n) {
    Array<T> values(real_, {kBatch, n}), vectors(dtype_, {kBatch, n, n});
    call(LinalgOp::eigh, x, nullptr, {values.view(), vectors.view()}, true, false, false);
    hash_ = vectors.hash(values.hash(hash_));
  }
  void run_svd(Array<T>& x, int64_t m, int64_t left, int64_t n, int64_t right, bool full) {
    Array<T> u(dtype_, {kBatch, m, left}), s(real_, {kBatch, m < n ? m : n}), vh(dtype_, {kBatch, right, n});
    call(LinalgOp::svd, x, nullptr, {u.view(), s.view(), vh.view()}, full, false, false);
    hash_ = vh.hash(s.hash(u.hash(hash_)));
  }

  const TensorTable& table_;
  Dtype dtype_, real_;
  Workspace space_;
  uint64_t hash_ = fnv1a(nullptr, 0);
};

constexpr int64_t kLengths[] = {1, 2, 3, 4, 6, 7, 12, 13, 16, 17, 30, 55, 64};

template <class T>
uint64_t hash_fft(const TensorTable& table, Dtype complex, Dtype real) {
  SplitMix64 source{78};
  Workspace space;
  uint64_t hash = fnv1a(nullptr, 0);
  for (int64_t n : kLengths) {
    const int64_t rows = n == 12 || n == 17 ? 9 : 2, half = n / 2 + 1;
    Array<T> x(complex, {rows, n}), y(complex, {rows, n}), z(real, {rows, n}), h(complex, {rows, half});
    for (T& part : x.parts) part = T(fraction(source));
    for (T& part : z.parts) part = T(fraction(source));
    const auto run = [&](FftOp op, Array<T>& in, Array<T>& out, bool inverse, int divide) {
      const FftCall call{op, in.view(), out.view(), size_t(n), inverse, divide};
      table.fft->run(call, space.get(table.fft->workspace(call)));
      hash = out.hash(hash);
    };
    run(FftOp::complex_to_complex, x, y, false, 0);
    run(FftOp::complex_to_complex, x, y, true, 1);
    run(FftOp::real_to_complex, z, h, false, 2);
    run(FftOp::complex_to_real, h, z, true, 1);
  }
  return hash;
}

template <class T>
uint64_t hash_sparse(void (*multiply)(const SparseProduct<T>&), void (*sample)(const SampledProduct<T>&)) {
  SplitMix64 source{79};
  uint64_t hash = fnv1a(nullptr, 0);
  const size_t blocks_of[][2] = {{1, 1}, {2, 3}, {8, 1}};
  for (const auto& shape : blocks_of) {
    const size_t rows = 150, columns = 20, stored = 250, n = 21, r = shape[0], c = shape[1];
    std::vector<int64_t> starts(rows + 1), where(stored);
    for (size_t e = 0; e < stored; ++e) ++starts[1 + size_t(source.next() % rows)];
    for (size_t i = 0; i < rows; ++i) starts[i + 1] += starts[i];
    for (int64_t& column : where) column = int64_t(source.next() % columns);
    std::vector<T> values(stored * r * c), dense(columns * c * n), out(rows * r * n);
    for (T& value : values) value = T(fraction(source));
    for (T& value : dense) value = T(fraction(source));
    multiply({rows, r, c, n, stored, columns, values.data(), where.data(), starts.data(), dense.data(), ptrdiff_t(n), out.data(), ptrdiff_t(n)});
    hash = fnv1a(out.data(), out.size() * sizeof(T), hash);
  }
  for (size_t k : {0, 1, 256, 300}) {
    const size_t m = 7, n = 9, count = 1500;
    std::vector<T> a(m * k), b(k * n), out(count);
    std::vector<int64_t> rows(count), columns(count);
    for (T& value : a) value = T(fraction(source));
    for (T& value : b) value = T(fraction(source));
    for (int64_t& row : rows) row = int64_t(source.next() % m);
    for (int64_t& column : columns) column = int64_t(source.next() % n);
    sample({count, k, m, n, rows.data(), columns.data(), a.data(), ptrdiff_t(k), 1, b.data(), ptrdiff_t(n), 1, out.data()});
    hash = fnv1a(out.data(), out.size() * sizeof(T), hash);
  }
  return hash;
}

}  // namespace

void linalg_self_test(const TensorTable& table, SelfTestEmit emit, void* context) {
  emit(context, "tensor.linalg_f32", Linalg<float>(table, Dtype::f32, Dtype::f32).hash());
  emit(context, "tensor.linalg_f64", Linalg<double>(table, Dtype::f64, Dtype::f64).hash());
  emit(context, "tensor.linalg_c64", Linalg<float>(table, Dtype::c64, Dtype::f32).hash());
  emit(context, "tensor.linalg_c128", Linalg<double>(table, Dtype::c128, Dtype::f64).hash());
  emit(context, "tensor.fft_f32", hash_fft<float>(table, Dtype::c64, Dtype::f32));
  emit(context, "tensor.fft_f64", hash_fft<double>(table, Dtype::c128, Dtype::f64));
  emit(context, "tensor.sparse_f32", hash_sparse<float>(table.sparse->product_f32, table.sparse->sampled_f32));
  emit(context, "tensor.sparse_f64", hash_sparse<double>(table.sparse->product_f64, table.sparse->sampled_f64));
}

}  // namespace droveway
