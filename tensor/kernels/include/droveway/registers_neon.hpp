// One arm64 register. Included by lanes.hpp inside namespace DW_ISA::reg.
inline constexpr int kRegs = 4;  // registers that make 16 float lanes

typedef float F32 __attribute__((vector_size(16)));
typedef double F64 __attribute__((vector_size(16)));
typedef uint32_t U32 __attribute__((vector_size(16)));
typedef uint64_t U64 __attribute__((vector_size(16)));
typedef int32_t I32 __attribute__((vector_size(16)));
typedef int64_t I64 __attribute__((vector_size(16)));
struct M32 { U32 k; };
struct M64 { U64 k; };

DW_INLINE F32 set1(float x) { return (F32)vdupq_n_f32(x); }
DW_INLINE F64 set1(double x) { return (F64)vdupq_n_f64(x); }
DW_INLINE U32 set1(uint32_t x) { return (U32)vdupq_n_u32(x); }
DW_INLINE U64 set1(uint64_t x) { return (U64)vdupq_n_u64(x); }

DW_INLINE F32 load(const float* p) { return (F32)vld1q_f32(p); }
DW_INLINE F64 load(const double* p) { return (F64)vld1q_f64(p); }
DW_INLINE U32 load(const uint32_t* p) { return (U32)vld1q_u32(p); }
DW_INLINE U64 load(const uint64_t* p) { return (U64)vld1q_u64(p); }
DW_INLINE void store(float* p, F32 x) { vst1q_f32(p, (float32x4_t)x); }
DW_INLINE void store(double* p, F64 x) { vst1q_f64(p, (float64x2_t)x); }
DW_INLINE void store(uint32_t* p, U32 x) { vst1q_u32(p, (uint32x4_t)x); }
DW_INLINE void store(uint64_t* p, U64 x) { vst1q_u64(p, (uint64x2_t)x); }

// arm64 has no masked access: a prefix goes through a register-sized local.
template <class T, class R>
DW_INLINE R load_prefix(const T* p, size_t n, R fill) {
  T local[16 / sizeof(T)];
  store(local, fill);
  for (size_t i = 0; i < 16 / sizeof(T); ++i)
    if (i < n) local[i] = p[i];
  return load(local);
}
template <class T, class R>
DW_INLINE void store_prefix(T* p, size_t n, R x) {
  T local[16 / sizeof(T)];
  store(local, x);
  for (size_t i = 0; i < 16 / sizeof(T); ++i)
    if (i < n) p[i] = local[i];
}
DW_INLINE U64 gather(const uint64_t* p, const uint32_t* at) { return U64{p[at[0]], p[at[1]]}; }
template <int d>
DW_INLINE U64 exchange(U64 x) { return __builtin_shufflevector(x, x, (0 ^ d), (1 ^ d)); }

DW_INLINE F32 load_partial(const float* p, size_t n, F32 fill) { return load_prefix(p, n, fill); }
DW_INLINE F64 load_partial(const double* p, size_t n, F64 fill) { return load_prefix(p, n, fill); }
DW_INLINE U32 load_partial(const uint32_t* p, size_t n, U32 fill) { return load_prefix(p, n, fill); }
DW_INLINE U64 load_partial(const uint64_t* p, size_t n, U64 fill) { return load_prefix(p, n, fill); }
DW_INLINE void store_partial(float* p, size_t n, F32 x) { store_prefix(p, n, x); }
DW_INLINE void store_partial(double* p, size_t n, F64 x) { store_prefix(p, n, x); }
DW_INLINE void store_partial(uint32_t* p, size_t n, U32 x) { store_prefix(p, n, x); }
DW_INLINE void store_partial(uint64_t* p, size_t n, U64 x) { store_prefix(p, n, x); }

DW_INLINE F32 fma(F32 a, F32 b, F32 c) { return (F32)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b); }
DW_INLINE F64 fma(F64 a, F64 b, F64 c) { return (F64)vfmaq_f64((float64x2_t)c, (float64x2_t)a, (float64x2_t)b); }
DW_INLINE F32 sqrt(F32 x) { return (F32)vsqrtq_f32((float32x4_t)x); }
DW_INLINE F64 sqrt(F64 x) { return (F64)vsqrtq_f64((float64x2_t)x); }
DW_INLINE F32 round_even(F32 x) { return (F32)vrndnq_f32((float32x4_t)x); }
DW_INLINE F64 round_even(F64 x) { return (F64)vrndnq_f64((float64x2_t)x); }
DW_INLINE F32 floor(F32 x) { return (F32)vrndmq_f32((float32x4_t)x); }
DW_INLINE F64 floor(F64 x) { return (F64)vrndmq_f64((float64x2_t)x); }

DW_INLINE M32 lt(F32 a, F32 b) { return {(U32)vcltq_f32((float32x4_t)a, (float32x4_t)b)}; }
DW_INLINE M64 lt(F64 a, F64 b) { return {(U64)vcltq_f64((float64x2_t)a, (float64x2_t)b)}; }
DW_INLINE M32 le(F32 a, F32 b) { return {(U32)vcleq_f32((float32x4_t)a, (float32x4_t)b)}; }
DW_INLINE M64 le(F64 a, F64 b) { return {(U64)vcleq_f64((float64x2_t)a, (float64x2_t)b)}; }
DW_INLINE M32 eq(F32 a, F32 b) { return {(U32)vceqq_f32((float32x4_t)a, (float32x4_t)b)}; }
DW_INLINE M64 eq(F64 a, F64 b) { return {(U64)vceqq_f64((float64x2_t)a, (float64x2_t)b)}; }
DW_INLINE M32 unordered(F32 a, F32 b) { return {~(eq(a, a).k & eq(b, b).k)}; }
DW_INLINE M64 unordered(F64 a, F64 b) { return {~(eq(a, a).k & eq(b, b).k)}; }
DW_INLINE M32 lt(U32 a, U32 b) { return {(U32)(a < b)}; }
DW_INLINE M64 lt(U64 a, U64 b) { return {(U64)(a < b)}; }
DW_INLINE M32 lt_signed(U32 a, U32 b) { return {(U32)((I32)a < (I32)b)}; }
DW_INLINE M64 lt_signed(U64 a, U64 b) { return {(U64)((I64)a < (I64)b)}; }
DW_INLINE M32 eq(U32 a, U32 b) { return {(U32)(a == b)}; }
DW_INLINE M64 eq(U64 a, U64 b) { return {(U64)(a == b)}; }

DW_INLINE U32 select(M32 m, U32 a, U32 b) { return (U32)vbslq_u32((uint32x4_t)m.k, (uint32x4_t)a, (uint32x4_t)b); }
DW_INLINE U64 select(M64 m, U64 a, U64 b) { return (U64)vbslq_u64((uint64x2_t)m.k, (uint64x2_t)a, (uint64x2_t)b); }
DW_INLINE F32 select(M32 m, F32 a, F32 b) { return (F32)select(m, (U32)a, (U32)b); }
DW_INLINE F64 select(M64 m, F64 a, F64 b) { return (F64)select(m, (U64)a, (U64)b); }
DW_INLINE M32 mask_and(M32 a, M32 b) { return {a.k & b.k}; }
DW_INLINE M64 mask_and(M64 a, M64 b) { return {a.k & b.k}; }
DW_INLINE M32 mask_or(M32 a, M32 b) { return {a.k | b.k}; }
DW_INLINE M64 mask_or(M64 a, M64 b) { return {a.k | b.k}; }
DW_INLINE M32 mask_not(M32 a) { return {~a.k}; }
DW_INLINE M64 mask_not(M64 a) { return {~a.k}; }
DW_INLINE uint32_t mask_bits(M32 a) { return vaddvq_u32((uint32x4_t)(a.k & U32{1, 2, 4, 8})); }
DW_INLINE uint32_t mask_bits(M64 a) { return uint32_t(vaddvq_u64((uint64x2_t)(a.k & U64{1, 2}))); }

DW_INLINE F64 widen_low(F32 x) { return (F64)vcvt_f64_f32(vget_low_f32((float32x4_t)x)); }
DW_INLINE F64 widen_high(F32 x) { return (F64)vcvt_high_f64_f32((float32x4_t)x); }
DW_INLINE F32 narrow(F64 low, F64 high) {
  return (F32)vcvt_high_f32_f64(vcvt_f32_f64((float64x2_t)low), (float64x2_t)high);
}
DW_INLINE U64 widen_low(U32 x) { return (U64)vmovl_u32(vget_low_u32((uint32x4_t)x)); }
DW_INLINE U64 widen_high(U32 x) { return (U64)vmovl_high_u32((uint32x4_t)x); }
DW_INLINE U32 narrow(U64 low, U64 high) { return (U32)vmovn_high_u64(vmovn_u64((uint64x2_t)low), (uint64x2_t)high); }
DW_INLINE F32 from_i32(U32 x) { return (F32)vcvtq_f32_s32((int32x4_t)x); }
DW_INLINE U32 to_i32_raw(F32 x) { return (U32)vcvtq_s32_f32((float32x4_t)x); }
DW_INLINE U64 mul_low32(U64 a, U64 b) { return (U64)vmull_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b)); }

// 16 lanes: l + (l+8), then +4, +2, +1.
DW_INLINE float add_tree(const F32* r) {
  const F32 a = (r[0] + r[2]) + (r[1] + r[3]);
  return (a[0] + a[2]) + (a[1] + a[3]);
}
// 8 lanes: l + (l+4), then +2, +1.
DW_INLINE double add_tree(const F64* r) {
  const F64 a = (r[0] + r[2]) + (r[1] + r[3]);
  return a[0] + a[1];
}
