// Steps of AdamW and SGD, on many tensors in one call, in place. Twin: tensor/twins/optimizer_steps_ref.py.
//
// Each element on its own; which block of work it falls into never reaches it.
#include "kernels.hpp"

#include "fold.hpp"

namespace DW_ISA {
namespace {

using namespace lines;
using droveway::AdamWStep;
using droveway::Dtype;
using droveway::SgdStep;
using droveway::StepTensor;

constexpr size_t kStepValues = 16384;  // make a block of work

template <class T, class Step>
struct Steps {
  const StepTensor* tensors;
  size_t count;
  const Step& step;
};

template <class T>
void step_values(const StepTensor& t, size_t first, size_t n, const AdamWStep& s) {
  T* p = reinterpret_cast<T*>(t.parameter) + first;
  const T* g = reinterpret_cast<const T*>(t.gradient) + first;
  T* m = reinterpret_cast<T*>(t.first) + first;
  T* v = reinterpret_cast<T*>(t.second) + first;
  const auto set = [](double x) { return Sixteen<T>::set1(T(x)); };
  const V16<T> decay = set(s.decay), beta1 = set(s.beta1), rest1 = set(s.one_minus_beta1), beta2 = set(s.beta2),
               rest2 = set(s.one_minus_beta2), rate = set(s.step), root_scale = set(s.root_scale), epsilon = set(s.epsilon);
  each_sixteen<T>(n, [&](size_t i, size_t k) DW_LAMBDA {
    const V16<T> gradient = load_some(g + i, k);
    const V16<T> mean = fma(beta1, load_some(m + i, k), rest1 * gradient);
    const V16<T> square = fma(beta2, load_some(v + i, k), (rest2 * gradient) * gradient);
    const V16<T> divisor = fma(sqrt(square), root_scale, epsilon);
    const V16<T> moved = fnma(rate, mean / divisor, load_some(p + i, k) * decay);
    store_some(m + i, k, canonical(mean));
    store_some(v + i, k, canonical(square));
    store_some(p + i, k, canonical(moved));
  });
}

template <class T>
void step_values(const StepTensor& t, size_t first, size_t n, const SgdStep& s) {
  T* p = reinterpret_cast<T*>(t.parameter) + first;
  const T* g = reinterpret_cast<const T*>(t.gradient) + first;
  T* momentum = t.first != nullptr ? reinterpret_cast<T*>(t.first) + first : nullptr;
  const auto set = [](double x) { return Sixteen<T>::set1(T(x)); };
  const V16<T> rate = set(s.rate), decay = set(s.decay), mu = set(s.momentum), rest = set(s.one_minus_dampening);
  each_sixteen<T>(n, [&](size_t i, size_t k) DW_LAMBDA {
    const V16<T> parameter = load_some(p + i, k);
    V16<T> d = load_some(g + i, k);
    if (s.decay != 0) d = fma(decay, parameter, d);
    if (momentum != nullptr) {
      const V16<T> moving = s.first_step ? d : fma(mu, load_some(momentum + i, k), rest * d);
      store_some(momentum + i, k, canonical(moving));
      d = s.nesterov ? fma(mu, moving, d) : moving;
    }
    store_some(p + i, k, canonical(fnma(rate, d, parameter)));
  });
}

template <class T, class Step>
void run_steps(const StepTensor* tensors, size_t count, const Step& step) {
  Steps<T, Step> all{tensors, count, step};
  size_t blocks = 0, values = 0;
  for (size_t i = 0; i < count; ++i) {
    blocks += (tensors[i].n + kStepValues - 1) / kStepValues;
    values += tensors[i].n;
  }
  dw_parallel_n(blocks, [](void* raw, size_t b) {
        const Steps<T, Step>& all = *static_cast<const Steps<T, Step>*>(raw);
        for (size_t i = 0; i < all.count; ++i) {
          const StepTensor& t = all.tensors[i];
          const size_t here = (t.n + kStepValues - 1) / kStepValues;
          if (b < here) {
            const size_t first = b * kStepValues;
            return step_values<T>(t, first, t.n - first < kStepValues ? t.n - first : kStepValues, all.step);
          }
          b -= here;
        }
      }, &all, threads_for(values * sizeof(T) * 4));
}

}  // namespace

void adamw(const StepTensor* tensors, size_t count, Dtype dtype, const AdamWStep& step) {
  FpGuard guard;
  if (dtype == Dtype::f64) run_steps<double>(tensors, count, step);
  else run_steps<float>(tensors, count, step);
}
void sgd(const StepTensor* tensors, size_t count, Dtype dtype, const SgdStep& step) {
  FpGuard guard;
  if (dtype == Dtype::f64) run_steps<double>(tensors, count, step);
  else run_steps<float>(tensors, count, step);
}

}  // namespace DW_ISA
