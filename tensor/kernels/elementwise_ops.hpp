// The elementwise operations, in the order of their codes: the one list that kernels, bindings and rows are made from.
//
//   DW_OP(name, arity, classes, result)
//
// `classes` are the dtypes it takes, as an OR of kBoolean kSigned kUnsigned kFloating kComplex; a class here says that
// the operation has a meaning there, and the tests check that a kernel and a twin exist.
// `result` is the dtype of the output: kSame as the inputs; kTruth boolean; kReal the part of a complex, else the
// same; kPair the complex made of two floats; kGiven what the caller asks for (cast).
// All inputs have one dtype, but where: its first input is boolean, the other two say the dtype.
// Names are those of the rows in tensor/primitives.
// A code has no meaning outside one build: Python asks _kernels.ELEMENTWISE for it.
#pragma once

namespace droveway {

enum ElementwiseClass : unsigned { kBoolean = 1, kSigned = 2, kUnsigned = 4, kFloating = 8, kComplex = 16 };
enum ElementwiseResult : unsigned { kSame, kTruth, kReal, kPair, kGiven };

constexpr unsigned kInteger = kSigned | kUnsigned;
constexpr unsigned kRealNumber = kInteger | kFloating;
constexpr unsigned kNumber = kRealNumber | kComplex;
constexpr unsigned kInexact = kFloating | kComplex;
constexpr unsigned kAnyDtype = kNumber | kBoolean;

// clang-format off
#define DW_ELEMENTWISE_OPS(DW_OP)                              \
  /* moves */                                                   \
  DW_OP(copy, 1, kAnyDtype, kSame)                              \
  DW_OP(cast, 1, kAnyDtype, kGiven)                             \
  DW_OP(where, 3, kAnyDtype, kSame)                             \
  /* arithmetic */                                              \
  DW_OP(add, 2, kNumber, kSame)                                 \
  DW_OP(sub, 2, kNumber, kSame)                                 \
  DW_OP(mul, 2, kNumber, kSame)                                 \
  DW_OP(div, 2, kInexact, kSame)                                \
  DW_OP(floor_div, 2, kRealNumber, kSame)                       \
  DW_OP(mod, 2, kRealNumber, kSame)                             \
  DW_OP(maximum, 2, kRealNumber | kBoolean, kSame)              \
  DW_OP(minimum, 2, kRealNumber | kBoolean, kSame)              \
  DW_OP(neg, 1, kNumber, kSame)                                 \
  DW_OP(abs, 1, kNumber, kReal)                                 \
  DW_OP(sign, 1, kNumber, kSame)                                \
  DW_OP(square, 1, kNumber, kSame)                              \
  DW_OP(reciprocal, 1, kInexact, kSame)                         \
  DW_OP(clip, 3, kRealNumber, kSame)                            \
  DW_OP(relu, 1, kRealNumber, kSame)                            \
  DW_OP(relu_gradient, 2, kFloating, kSame)                     \
  DW_OP(sqrt, 1, kInexact, kSame)                               \
  /* rounding */                                                \
  DW_OP(floor, 1, kRealNumber, kSame)                           \
  DW_OP(ceil, 1, kRealNumber, kSame)                            \
  DW_OP(trunc, 1, kRealNumber, kSame)                           \
  DW_OP(round, 1, kNumber, kSame)                               \
  /* comparisons and predicates */                              \
  DW_OP(eq, 2, kAnyDtype, kTruth)                               \
  DW_OP(ne, 2, kAnyDtype, kTruth)                               \
  DW_OP(lt, 2, kRealNumber | kBoolean, kTruth)                  \
  DW_OP(le, 2, kRealNumber | kBoolean, kTruth)                  \
  DW_OP(gt, 2, kRealNumber | kBoolean, kTruth)                  \
  DW_OP(ge, 2, kRealNumber | kBoolean, kTruth)                  \
  DW_OP(isnan, 1, kNumber, kTruth)                              \
  DW_OP(isinf, 1, kNumber, kTruth)                              \
  DW_OP(isfinite, 1, kNumber, kTruth)                           \
  DW_OP(signbit, 1, kFloating, kTruth)                          \
  /* logic and bits */                                          \
  DW_OP(logical_and, 2, kBoolean, kSame)                        \
  DW_OP(logical_or, 2, kBoolean, kSame)                         \
  DW_OP(logical_xor, 2, kBoolean, kSame)                        \
  DW_OP(logical_not, 1, kBoolean, kSame)                        \
  DW_OP(bitwise_and, 2, kInteger | kBoolean, kSame)             \
  DW_OP(bitwise_or, 2, kInteger | kBoolean, kSame)              \
  DW_OP(bitwise_xor, 2, kInteger | kBoolean, kSame)             \
  DW_OP(bitwise_not, 1, kInteger | kBoolean, kSame)             \
  DW_OP(bitwise_left_shift, 2, kInteger, kSame)                 \
  DW_OP(bitwise_right_shift, 2, kInteger, kSame)                \
  DW_OP(popcount, 1, kInteger, kSame)                           \
  /* parts of complex numbers */                                \
  DW_OP(conj, 1, kNumber, kSame)                                \
  DW_OP(real, 1, kComplex, kReal)                               \
  DW_OP(imag, 1, kComplex, kReal)                               \
  DW_OP(angle, 1, kComplex, kReal)                              \
  DW_OP(make_complex, 2, kFloating, kPair)                      \
  /* elementary and special functions: special_f32.cpp, special_f64.cpp */\
  DW_OP(exp, 1, kInexact, kSame)                                \
  DW_OP(exp2, 1, kFloating, kSame)                              \
  DW_OP(expm1, 1, kInexact, kSame)                              \
  DW_OP(log, 1, kInexact, kSame)                                \
  DW_OP(log1p, 1, kInexact, kSame)                              \
  DW_OP(log2, 1, kInexact, kSame)                               \
  DW_OP(log10, 1, kInexact, kSame)                              \
  DW_OP(pow, 2, kNumber, kSame)                                 \
  DW_OP(rsqrt, 1, kFloating, kSame)                             \
  DW_OP(hypot, 2, kFloating, kSame)                             \
  DW_OP(sin, 1, kInexact, kSame)                                \
  DW_OP(cos, 1, kInexact, kSame)                                \
  DW_OP(tan, 1, kInexact, kSame)                                \
  DW_OP(asin, 1, kInexact, kSame)                               \
  DW_OP(acos, 1, kInexact, kSame)                               \
  DW_OP(atan, 1, kInexact, kSame)                               \
  DW_OP(atan2, 2, kFloating, kSame)                             \
  DW_OP(sinh, 1, kInexact, kSame)                               \
  DW_OP(cosh, 1, kInexact, kSame)                               \
  DW_OP(tanh, 1, kInexact, kSame)                               \
  DW_OP(asinh, 1, kInexact, kSame)                              \
  DW_OP(acosh, 1, kInexact, kSame)                              \
  DW_OP(atanh, 1, kInexact, kSame)                              \
  DW_OP(erf, 1, kFloating, kSame)                               \
  DW_OP(erfc, 1, kFloating, kSame)                              \
  DW_OP(lgamma, 1, kFloating, kSame)                            \
  DW_OP(digamma, 1, kFloating, kSame)                           \
  DW_OP(trigamma, 1, kFloating, kSame)                          \
  DW_OP(sigmoid, 1, kFloating, kSame)                           \
  DW_OP(silu, 1, kFloating, kSame)                              \
  DW_OP(gelu, 1, kFloating, kSame)                              \
  DW_OP(gelu_tanh, 1, kFloating, kSame)                         \
  DW_OP(softplus, 1, kFloating, kSame)                          \
  DW_OP(logaddexp, 2, kFloating, kSame)                         \
  DW_OP(nextafter, 2, kFloating, kSame)                         \
  DW_OP(copysign, 2, kFloating, kSame)
// clang-format on

#define DW_ELEMENTWISE_CODE(name, arity, classes, result) op_##name,
enum ElementwiseOp : int { DW_ELEMENTWISE_OPS(DW_ELEMENTWISE_CODE) kElementwiseOps };
#undef DW_ELEMENTWISE_CODE

#define DW_ELEMENTWISE_ARITY(name, arity, classes, result) arity,
#define DW_ELEMENTWISE_RESULT(name, arity, classes, result) result,
constexpr unsigned char elementwise_arity_of[] = {DW_ELEMENTWISE_OPS(DW_ELEMENTWISE_ARITY)};
constexpr ElementwiseResult elementwise_result_of[] = {DW_ELEMENTWISE_OPS(DW_ELEMENTWISE_RESULT)};
#undef DW_ELEMENTWISE_RESULT
#undef DW_ELEMENTWISE_ARITY

}  // namespace droveway
