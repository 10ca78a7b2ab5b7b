// Moves of elements of a width, whatever they mean: bits are kept. And booleans, a byte each: 0 or 1.
#include "elementwise_scalar.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

struct Pair {
  uint64_t low, high;
};

template <int BYTES>
void copy_strip(const Strip& s) {
  if (s.out != s.in[0]) memcpy(s.out, s.in[0], s.n * BYTES);
}

template <class T>
void where_strip(const Strip& s) {
  const uint8_t* condition = static_cast<const uint8_t*>(s.in[0]);
  const T* x = static_cast<const T*>(s.in[1]);
  const T* y = static_cast<const T*>(s.in[2]);
  T* out = static_cast<T*>(s.out);
  DW_INDEPENDENT
  for (size_t i = 0; i < s.n; ++i) out[i] = condition[i] != 0 ? x[i] : y[i];
}

enum class Truth : uint8_t {};
#define DW_TRUTH1(NAME, EXPRESSION)                                                        \
  template <>                                                                              \
  struct LoopOf<Truth, droveway::op_##NAME> {                                              \
    static void loop(const Strip& s) {                                                     \
      each1<uint8_t, uint8_t>(s, [](uint8_t a) DW_LAMBDA -> uint8_t {                      \
        const bool x = a != 0;                                                             \
        return EXPRESSION;                                                                 \
      });                                                                                  \
    }                                                                                      \
  };
#define DW_TRUTH2(NAME, EXPRESSION)                                                        \
  template <>                                                                              \
  struct LoopOf<Truth, droveway::op_##NAME> {                                              \
    static void loop(const Strip& s) {                                                     \
      each2<uint8_t, uint8_t>(s, [](uint8_t a, uint8_t b) DW_LAMBDA -> uint8_t {           \
        const bool x = a != 0, y = b != 0;                                                 \
        return EXPRESSION;                                                                 \
      });                                                                                  \
    }                                                                                      \
  };
DW_TRUTH2(maximum, x | y)
DW_TRUTH2(minimum, x & y)
DW_TRUTH2(eq, x == y)
DW_TRUTH2(ne, x != y)
DW_TRUTH2(lt, !x & y)
DW_TRUTH2(le, !x | y)
DW_TRUTH2(gt, x & !y)
DW_TRUTH2(ge, x | !y)
DW_TRUTH2(logical_and, x & y)
DW_TRUTH2(logical_or, x | y)
DW_TRUTH2(logical_xor, x != y)
DW_TRUTH1(logical_not, !x)
DW_TRUTH2(bitwise_and, x & y)
DW_TRUTH2(bitwise_or, x | y)
DW_TRUTH2(bitwise_xor, x != y)
DW_TRUTH1(bitwise_not, !x)

}  // namespace

DW_LOOP_TABLE(elementwise_boolean, Truth)

ElementwiseLoop elementwise_copy(size_t bytes) {
  switch (bytes) {
    case 1: return copy_strip<1>;
    case 2: return copy_strip<2>;
    case 4: return copy_strip<4>;
    case 8: return copy_strip<8>;
    default: return copy_strip<16>;
  }
}
ElementwiseLoop elementwise_where(size_t bytes) {
  switch (bytes) {
    case 1: return where_strip<uint8_t>;
    case 2: return where_strip<uint16_t>;
    case 4: return where_strip<uint32_t>;
    case 8: return where_strip<uint64_t>;
    default: return where_strip<Pair>;
  }
}

}  // namespace DW_ISA
