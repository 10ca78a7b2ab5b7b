#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <new>

#include "array/in_use.hpp"
#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::Isa;
using droveway::TensorTable;

namespace {

droveway::Area<TensorTable> area("tensor", DW_TABLES(tensor_table), droveway::tensor_self_test);

const TensorTable& kernels() { return area.kernels(); }

template <class T> using Vector = nb::ndarray<const T, nb::ndim<1>, nb::device::cpu>;
template <class T> using Matrix = nb::ndarray<const T, nb::ndim<2>, nb::device::cpu>;
template <class T> using MatrixOut = nb::ndarray<T, nb::ndim<2>, nb::device::cpu>;
template <class T> using VectorOut = nb::ndarray<T, nb::ndim<1>, nb::device::cpu>;

// A scalar result goes into out[0], not through a Python float: that conversion would happen in the host's
// floating-point mode, which may flush subnormals.
template <class T>
void require_one(const VectorOut<T>& out) {
  require_aligned(out, "out");
  if (out.shape(0) != 1) throw nb::value_error("out must have one element");
}

template <class T>
void sum(Vector<T> x, VectorOut<T> out, T (*TensorTable::*kernel)(const T*, ptrdiff_t, size_t)) {
  require_aligned(x, "x");
  require_one(out);
  call_kernel([&] { out.data()[0] = (kernels().*kernel)(x.data(), x.stride(0), x.shape(0)); });
}

template <class T>
void dot(Vector<T> x, Vector<T> y, VectorOut<T> out,
         T (*TensorTable::*kernel)(const T*, ptrdiff_t, const T*, ptrdiff_t, size_t)) {
  require_aligned(x, "x");
  require_aligned(y, "y");
  require_one(out);
  if (x.shape(0) != y.shape(0)) throw nb::value_error("dot: x and y must have the same length");
  call_kernel([&] { out.data()[0] = (kernels().*kernel)(x.data(), x.stride(0), y.data(), y.stride(0), x.shape(0)); });
}

template <class T>
void sum_rows(Matrix<T> x, VectorOut<T> out,
              void (*TensorTable::*kernel)(const T*, ptrdiff_t, ptrdiff_t, size_t, size_t, T*)) {
  require_aligned(x, "x");
  require_aligned(out, "out");
  if (out.shape(0) != x.shape(0)) throw nb::value_error("sum_rows: out must have one value for each row of x");
  if (out.size() == 0) return;
  if (out.shape(0) > 1 && out.stride(0) != 1) throw nb::value_error("sum_rows: out must be contiguous");
  call_kernel([&] {
    (kernels().*kernel)(x.data(), x.stride(0), x.stride(1), x.shape(0), x.shape(1), out.data());
  });
}

template <class T>
void sum_columns(Matrix<T> x, VectorOut<T> out, void (*TensorTable::*kernel)(const T*, ptrdiff_t, size_t, size_t, T*)) {
  require_aligned(x, "x");
  require_aligned(out, "out");
  if (out.shape(0) != x.shape(1)) throw nb::value_error("sum_columns: out must have one value for each column of x");
  if (out.size() == 0) return;
  if ((x.shape(1) > 1 && x.stride(1) != 1) || (out.shape(0) > 1 && out.stride(0) != 1))
    throw nb::value_error("sum_columns: a row of x, and out, must be contiguous");
  call_kernel([&] { (kernels().*kernel)(x.data(), x.stride(0), x.shape(0), x.shape(1), out.data()); });
}

template <class T>
void matmul(Matrix<T> a, Matrix<T> b, MatrixOut<T> out) {
  require_aligned(a, "a");
  require_aligned(b, "b");
  require_aligned(out, "out");
  if (a.shape(1) != b.shape(0) || out.shape(0) != a.shape(0) || out.shape(1) != b.shape(1))
    throw nb::value_error("matmul: shapes of a [m, k], b [k, n] and out [m, n] must agree");
  if (out.size() == 0) return;
  if (out.shape(1) > 1 && out.stride(1) != 1) throw nb::value_error("matmul: a row of out must be contiguous");
  constexpr droveway::Dtype dtype = sizeof(T) == 4 ? droveway::Dtype::f32 : droveway::Dtype::f64;
  const droveway::Product product{a.shape(0), b.shape(1), a.shape(1),   a.data(),   a.stride(0),   a.stride(1), b.data(),
                                  b.stride(0), b.stride(1), out.data(), out.stride(0), dtype, dtype, dtype};
  const TensorTable& t = kernels();
  const size_t bytes = t.product_workspace(product);
  void* workspace = nullptr;
  if (bytes != 0) {
    workspace = ::operator new(bytes, std::align_val_t{64}, std::nothrow);
    if (workspace == nullptr) throw std::bad_alloc();
  }
  struct Free {
    void* p;
    ~Free() { ::operator delete(p, std::align_val_t{64}, std::nothrow); }
  } free_at_end{workspace};
  call_kernel([&] { t.product(product, workspace); });
}

template <class T>
size_t workspace_bytes(const Matrix<T>& a, const Matrix<T>& b, droveway::Dtype dtype) {
  if (!area.has_kernels()) return 0;
  return kernels().product_workspace({a.shape(0), b.shape(1), a.shape(1), a.data(), a.stride(0), a.stride(1), b.data(),
                                      b.stride(0), b.stride(1), nullptr, ptrdiff_t(b.shape(1)), dtype, dtype, dtype});
}

void bind_reductions(nb::module_& m) {
  m.def("sum_f32", [](Vector<float> x, VectorOut<float> out) { sum(x, out, &TensorTable::sum_f32); },
        "x"_a.noconvert(), "out"_a.noconvert(), "out[0] = the sum of x.");
  m.def("sum_f64", [](Vector<double> x, VectorOut<double> out) { sum(x, out, &TensorTable::sum_f64); },
        "x"_a.noconvert(), "out"_a.noconvert(), "out[0] = the sum of x.");
  m.def("dot_f32", [](Vector<float> x, Vector<float> y, VectorOut<float> out) { dot(x, y, out, &TensorTable::dot_f32); },
        "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert(), "out[0] = the dot product of x and y.");
  m.def("dot_f64",
        [](Vector<double> x, Vector<double> y, VectorOut<double> out) { dot(x, y, out, &TensorTable::dot_f64); },
        "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert(), "out[0] = the dot product of x and y.");
  m.def("sum_rows_f32", [](Matrix<float> x, VectorOut<float> out) { sum_rows(x, out, &TensorTable::sum_rows_f32); },
        "x"_a.noconvert(), "out"_a.noconvert(), "out[i] = the sum of row i of x.");
  m.def("sum_rows_f64", [](Matrix<double> x, VectorOut<double> out) { sum_rows(x, out, &TensorTable::sum_rows_f64); },
        "x"_a.noconvert(), "out"_a.noconvert(), "out[i] = the sum of row i of x.");
  m.def("sum_columns_f32", [](Matrix<float> x, VectorOut<float> out) { sum_columns(x, out, &TensorTable::sum_columns_f32); },
        "x"_a.noconvert(), "out"_a.noconvert());
  m.def("sum_columns_f64", [](Matrix<double> x, VectorOut<double> out) { sum_columns(x, out, &TensorTable::sum_columns_f64); },
        "x"_a.noconvert(), "out"_a.noconvert());
}

void bind_product(nb::module_& m) {
  m.def("matmul_f32", &matmul<float>, "a"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert());
  m.def("matmul_f64", &matmul<double>, "a"_a.noconvert(), "b"_a.noconvert(), "out"_a.noconvert());
  m.def("matmul_workspace_bytes", [](Matrix<float> a, Matrix<float> b) {
        return workspace_bytes(a, b, droveway::Dtype::f32);
      }, "a"_a.noconvert(), "b"_a.noconvert(), "Bytes a product packs its factors into.");
  m.def("matmul_workspace_bytes", [](Matrix<double> a, Matrix<double> b) {
        return workspace_bytes(a, b, droveway::Dtype::f64);
      }, "a"_a.noconvert(), "b"_a.noconvert(), "Bytes a product packs its factors into.");
}

template <class T> using Flat = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using FlatOut = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

template <class T>
void bind_unary(nb::module_& m, const char* name, void (*TensorTable::*kernel)(const T*, T*, size_t)) {
  m.def(name, [kernel](Flat<T> x, FlatOut<T> out) {
        require_aligned(x, "x");
        require_aligned(out, "out");
        if (x.shape(0) != out.shape(0)) throw nb::value_error("x and out must have the same length");
        call_kernel([&] { (kernels().*kernel)(x.data(), out.data(), x.shape(0)); });
      }, "x"_a.noconvert(), "out"_a.noconvert());
}

void bind_elementary(nb::module_& m) {
  bind_unary(m, "exp_f32", &TensorTable::exp_f32);
  bind_unary(m, "log_f32", &TensorTable::log_f32);
  bind_unary(m, "sin_f32", &TensorTable::sin_f32);
  bind_unary(m, "cos_f32", &TensorTable::cos_f32);
  bind_unary(m, "tanh_f32", &TensorTable::tanh_f32);
  bind_unary(m, "erf_f32", &TensorTable::erf_f32);
  bind_unary(m, "sqrt_f32", &TensorTable::sqrt_f32);
  bind_unary(m, "exp_f64", &TensorTable::exp_f64);
  bind_unary(m, "log_f64", &TensorTable::log_f64);
  bind_unary(m, "sqrt_f64", &TensorTable::sqrt_f64);
  m.def("pow_f32", [](Flat<float> x, Flat<float> y, FlatOut<float> out) {
        require_aligned(x, "x");
        require_aligned(y, "y");
        require_aligned(out, "out");
        const size_t n = x.shape(0);
        if (out.shape(0) != n || (y.shape(0) != n && y.shape(0) != 1))
          throw nb::value_error("pow: out must be as long as x, and y as long as x or 1");
        call_kernel([&] { kernels().pow_f32(x.data(), y.data(), y.shape(0) == n ? 1 : 0, out.data(), n); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert());
}

void bind_random(nb::module_& m) {
  m.def("philox_words", [](uint64_t key, uint64_t counter, uint32_t c2, uint32_t c3, size_t skip, FlatOut<uint32_t> out) {
        require_aligned(out, "out");
        if (skip > 3) throw nb::value_error("philox_words: skip must be below 4");
        call_kernel([&] { kernels().philox_words(key, counter, c2, c3, skip, out.data(), out.shape(0)); });
      }, "key"_a, "counter"_a, "c2"_a, "c3"_a, "skip"_a, "out"_a.noconvert());
  const auto draw = [&m](const char* name, void (*TensorTable::*kernel)(uint64_t, uint64_t, size_t, float*, size_t)) {
    m.def(name, [kernel](uint64_t key, uint64_t counter, size_t skip, FlatOut<float> out) {
          require_aligned(out, "out");
          if (skip > 3) throw nb::value_error("philox: skip must be below 4");
          call_kernel([&] { (kernels().*kernel)(key, counter, skip, out.data(), out.shape(0)); });
        }, "key"_a, "counter"_a, "skip"_a, "out"_a.noconvert());
  };
  draw("philox_uniform_f32", &TensorTable::philox_uniform_f32);
  draw("philox_normal_f32", &TensorTable::philox_normal_f32);
}

// For the twins, which run in numpy: the mode that FpGuard (droveway/fpenv.hpp) gives the kernels.
uint64_t float_mode_swap(uint64_t mode) {
#if defined(__x86_64__)
  const uint64_t old = __builtin_ia32_stmxcsr();
  __builtin_ia32_ldmxcsr(unsigned(mode) & 0xFFFF);  // the rest is reserved: setting it ends the process
#else
  uint64_t old;
  asm volatile("mrs %0, fpcr" : "=r"(old));
  asm volatile("msr fpcr, %0" ::"r"(mode));
#endif
  return old;
}
#if defined(__x86_64__)
constexpr uint64_t kPlainMode = 0x1F80;
#else
constexpr uint64_t kPlainMode = 0;
#endif

void bind_runtime(nb::module_& m) {
  m.def("float_mode_enter", [] { return float_mode_swap(kPlainMode); },
        "Sets this thread to round to nearest even and to keep subnormals; returns the mode it had.");
  m.def("float_mode_leave", [](uint64_t mode) { float_mode_swap(mode); }, "mode"_a, "Sets this thread's mode.");
  m.def("isa_best", [] { return droveway::isa_name(droveway::isa_best()); }, "The best build this CPU has, or 'ref'.");
  m.def("select_isa", [](const std::string& best, const std::string& want) {
        Isa level = Isa::ref, isa;
        for (Isa each : {Isa::v3, Isa::v4, Isa::neon})
          if (best == droveway::isa_name(each)) level = each;
        const char* error = droveway::isa_select(level, want.c_str(), &isa);
        if (error != nullptr) throw nb::import_error(error);
        return droveway::isa_name(isa);
      }, "best"_a, "want"_a, "The build that DROVEWAY_ISA=want selects on a CPU whose best level is `best`.");
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("threads", &dw_threads, "Threads that kernels use, the calling one included.");
  m.def("set_threads", [](int n) {
        if (n < 1 || n > 1024)
          throw nb::value_error(("set_threads: n must be from 1 to 1024, got " + std::to_string(n)).c_str());
        dw_set_threads(n);
      }, "n"_a, "Sets the number of threads; results do not depend on it.");
  m.def("workers_started", &dw_workers_started, "Worker threads started so far in this process.");
}

}  // namespace

const TensorTable* droveway::tensor_kernels() { return area.has_kernels() ? &area.kernels() : nullptr; }
const TensorTable* droveway::tensor_kernels(const char* isa) { return area.kernels_of(isa); }

namespace droveway {
int init_array(PyObject* module);           // array/: Tensor and what belongs to it
void bind_contraction(nb::module_& m);  // bindings/contraction.cpp
void bind_convolution(nb::module_& m);  // bindings/convolution.cpp
void bind_pooling(nb::module_& m);      // bindings/pooling.cpp
void bind_elementwise(nb::module_& m);  // bindings/elementwise.cpp
void bind_elementwise_call(nb::module_& m);
void bind_fused(nb::module_& m);
void bind_reduce(nb::module_& m);       // bindings/reduce.cpp
void bind_linalg(nb::module_& m);       // bindings/linalg.cpp
void bind_fft(nb::module_& m);          // bindings/fft.cpp
void bind_sparse(nb::module_& m);       // bindings/sparse.cpp
void bind_draws(nb::module_& m);        // bindings/random.cpp
void bind_bytes(nb::module_& m);        // bindings/bytes.cpp
}

static void require_main_interpreter() {  // types and rows are the process's, not the interpreter's
  if (PyInterpreterState_Get() == PyInterpreterState_Main()) return;
  PyErr_SetString(PyExc_ImportError, "tensor works in the main interpreter only, not in a subinterpreter");
  nb::raise_python_error();
}

NB_MODULE(_kernels, m) {
  require_main_interpreter();
  area.bind(m);
  bind_runtime(m);
  if (droveway::init_array(m.ptr()) < 0) nb::raise_python_error();
  bind_reductions(m);
  bind_product(m);
  bind_elementary(m);
  droveway::bind_contraction(m);
  droveway::bind_convolution(m);
  droveway::bind_pooling(m);
  droveway::bind_elementwise(m);
  droveway::bind_elementwise_call(m);
  droveway::bind_fused(m);
  droveway::bind_reduce(m);
  droveway::bind_linalg(m);
  droveway::bind_fft(m);
  droveway::bind_sparse(m);
  droveway::bind_draws(m);
  droveway::bind_bytes(m);
  bind_random(m);
}
