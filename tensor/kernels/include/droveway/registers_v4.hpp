// One AVX-512 register. Included by lanes.hpp inside namespace DW_ISA::reg.
inline constexpr int kRegs = 1;  // registers that make 16 float lanes

typedef float F32 __attribute__((vector_size(64)));
typedef double F64 __attribute__((vector_size(64)));
typedef uint32_t U32 __attribute__((vector_size(64)));
typedef uint64_t U64 __attribute__((vector_size(64)));
typedef int32_t I32 __attribute__((vector_size(64)));
typedef int64_t I64 __attribute__((vector_size(64)));
struct M32 { __mmask16 k; };
struct M64 { __mmask8 k; };

DW_INLINE __mmask16 prefix16(size_t n) { return __mmask16(n >= 16 ? 0xFFFFu : (1u << n) - 1u); }
DW_INLINE __mmask8 prefix8(size_t n) { return __mmask8(n >= 8 ? 0xFFu : (1u << n) - 1u); }

DW_INLINE F32 set1(float x) { return _mm512_set1_ps(x); }
DW_INLINE F64 set1(double x) { return _mm512_set1_pd(x); }
DW_INLINE U32 set1(uint32_t x) { return (U32)_mm512_set1_epi32(int(x)); }
DW_INLINE U64 set1(uint64_t x) { return (U64)_mm512_set1_epi64((long long)(x)); }

DW_INLINE F32 load(const float* p) { return _mm512_loadu_ps(p); }
DW_INLINE F64 load(const double* p) { return _mm512_loadu_pd(p); }
DW_INLINE U32 load(const uint32_t* p) { return (U32)_mm512_loadu_si512(p); }
DW_INLINE U64 load(const uint64_t* p) { return (U64)_mm512_loadu_si512(p); }
DW_INLINE void store(float* p, F32 x) { _mm512_storeu_ps(p, x); }
DW_INLINE void store(double* p, F64 x) { _mm512_storeu_pd(p, x); }
DW_INLINE void store(uint32_t* p, U32 x) { _mm512_storeu_si512(p, (__m512i)x); }
DW_INLINE void store(uint64_t* p, U64 x) { _mm512_storeu_si512(p, (__m512i)x); }
DW_INLINE U64 gather(const uint64_t* p, const uint32_t* at) {
  return (U64)_mm512_set_epi64((long long)p[at[7]], (long long)p[at[6]], (long long)p[at[5]], (long long)p[at[4]],
                               (long long)p[at[3]], (long long)p[at[2]], (long long)p[at[1]], (long long)p[at[0]]);
}
template <int d>
DW_INLINE U64 exchange(U64 x) { return __builtin_shufflevector(x, x, (0 ^ d), (1 ^ d), (2 ^ d), (3 ^ d), (4 ^ d), (5 ^ d), (6 ^ d), (7 ^ d)); }

DW_INLINE F32 load_partial(const float* p, size_t n, F32 fill) { return _mm512_mask_loadu_ps(fill, prefix16(n), p); }
DW_INLINE F64 load_partial(const double* p, size_t n, F64 fill) { return _mm512_mask_loadu_pd(fill, prefix8(n), p); }
DW_INLINE U32 load_partial(const uint32_t* p, size_t n, U32 fill) {
  return (U32)_mm512_mask_loadu_epi32((__m512i)fill, prefix16(n), p);
}
DW_INLINE U64 load_partial(const uint64_t* p, size_t n, U64 fill) {
  return (U64)_mm512_mask_loadu_epi64((__m512i)fill, prefix8(n), p);
}
DW_INLINE void store_partial(float* p, size_t n, F32 x) { _mm512_mask_storeu_ps(p, prefix16(n), x); }
DW_INLINE void store_partial(double* p, size_t n, F64 x) { _mm512_mask_storeu_pd(p, prefix8(n), x); }
DW_INLINE void store_partial(uint32_t* p, size_t n, U32 x) { _mm512_mask_storeu_epi32(p, prefix16(n), (__m512i)x); }
DW_INLINE void store_partial(uint64_t* p, size_t n, U64 x) { _mm512_mask_storeu_epi64(p, prefix8(n), (__m512i)x); }

DW_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm512_fmadd_ps(a, b, c); }
DW_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm512_fmadd_pd(a, b, c); }
DW_INLINE F32 sqrt(F32 x) { return _mm512_sqrt_ps(x); }
DW_INLINE F64 sqrt(F64 x) { return _mm512_sqrt_pd(x); }
DW_INLINE F32 round_even(F32 x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
DW_INLINE F64 round_even(F64 x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
DW_INLINE F32 floor(F32 x) { return _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
DW_INLINE F64 floor(F64 x) { return _mm512_roundscale_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

DW_INLINE M32 lt(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ)}; }
DW_INLINE M64 lt(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ)}; }
DW_INLINE M32 le(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a, b, _CMP_LE_OQ)}; }
DW_INLINE M64 le(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a, b, _CMP_LE_OQ)}; }
DW_INLINE M32 eq(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ)}; }
DW_INLINE M64 eq(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ)}; }
DW_INLINE M32 unordered(F32 a, F32 b) { return {_mm512_cmp_ps_mask(a, b, _CMP_UNORD_Q)}; }
DW_INLINE M64 unordered(F64 a, F64 b) { return {_mm512_cmp_pd_mask(a, b, _CMP_UNORD_Q)}; }
DW_INLINE M32 lt(U32 a, U32 b) { return {_mm512_cmplt_epu32_mask((__m512i)a, (__m512i)b)}; }
DW_INLINE M64 lt(U64 a, U64 b) { return {_mm512_cmplt_epu64_mask((__m512i)a, (__m512i)b)}; }
DW_INLINE M32 lt_signed(U32 a, U32 b) { return {_mm512_cmplt_epi32_mask((__m512i)a, (__m512i)b)}; }
DW_INLINE M64 lt_signed(U64 a, U64 b) { return {_mm512_cmplt_epi64_mask((__m512i)a, (__m512i)b)}; }
DW_INLINE M32 eq(U32 a, U32 b) { return {_mm512_cmpeq_epi32_mask((__m512i)a, (__m512i)b)}; }
DW_INLINE M64 eq(U64 a, U64 b) { return {_mm512_cmpeq_epi64_mask((__m512i)a, (__m512i)b)}; }

DW_INLINE F32 select(M32 m, F32 a, F32 b) { return _mm512_mask_blend_ps(m.k, b, a); }
DW_INLINE F64 select(M64 m, F64 a, F64 b) { return _mm512_mask_blend_pd(m.k, b, a); }
DW_INLINE U32 select(M32 m, U32 a, U32 b) { return (U32)_mm512_mask_blend_epi32(m.k, (__m512i)b, (__m512i)a); }
DW_INLINE U64 select(M64 m, U64 a, U64 b) { return (U64)_mm512_mask_blend_epi64(m.k, (__m512i)b, (__m512i)a); }
DW_INLINE M32 mask_and(M32 a, M32 b) { return {__mmask16(a.k & b.k)}; }
DW_INLINE M64 mask_and(M64 a, M64 b) { return {__mmask8(a.k & b.k)}; }
DW_INLINE M32 mask_or(M32 a, M32 b) { return {__mmask16(a.k | b.k)}; }
DW_INLINE M64 mask_or(M64 a, M64 b) { return {__mmask8(a.k | b.k)}; }
DW_INLINE M32 mask_not(M32 a) { return {__mmask16(~unsigned(a.k))}; }
DW_INLINE M64 mask_not(M64 a) { return {__mmask8(~unsigned(a.k))}; }
DW_INLINE uint32_t mask_bits(M32 a) { return a.k; }
DW_INLINE uint32_t mask_bits(M64 a) { return a.k; }

DW_INLINE F64 widen_low(F32 x) { return _mm512_cvtps_pd(_mm512_castps512_ps256(x)); }
DW_INLINE F64 widen_high(F32 x) { return _mm512_cvtps_pd(_mm512_extractf32x8_ps(x, 1)); }
DW_INLINE F32 narrow(F64 low, F64 high) {
  return _mm512_insertf32x8(_mm512_castps256_ps512(_mm512_cvtpd_ps(low)), _mm512_cvtpd_ps(high), 1);
}
DW_INLINE U64 widen_low(U32 x) { return (U64)_mm512_cvtepu32_epi64(_mm512_castsi512_si256((__m512i)x)); }
DW_INLINE U64 widen_high(U32 x) { return (U64)_mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64((__m512i)x, 1)); }
DW_INLINE U32 narrow(U64 low, U64 high) {
  return (U32)_mm512_inserti64x4(_mm512_castsi256_si512(_mm512_cvtepi64_epi32((__m512i)low)),
                                 _mm512_cvtepi64_epi32((__m512i)high), 1);
}
DW_INLINE F32 from_i32(U32 x) { return _mm512_cvtepi32_ps((__m512i)x); }
DW_INLINE U32 to_i32_raw(F32 x) { return (U32)_mm512_cvttps_epi32(x); }
DW_INLINE U64 mul_low32(U64 a, U64 b) { return (U64)_mm512_mul_epu32((__m512i)a, (__m512i)b); }

// 16 lanes: l + (l+8), then +4, +2, +1.
DW_INLINE float add_tree(const F32* r) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(r[0]), _mm512_extractf32x8_ps(r[0], 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
// 8 lanes: l + (l+4), then +2, +1.
DW_INLINE double add_tree(const F64* r) {
  __m256d a = _mm256_add_pd(_mm512_castpd512_pd256(r[0]), _mm512_extractf64x4_pd(r[0], 1));
  __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}
