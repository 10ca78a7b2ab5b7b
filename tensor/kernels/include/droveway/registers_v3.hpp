// One AVX2 register. Included by lanes.hpp inside namespace DW_ISA::reg.
inline constexpr int kRegs = 2;  // registers that make 16 float lanes

typedef float F32 __attribute__((vector_size(32)));
typedef double F64 __attribute__((vector_size(32)));
typedef uint32_t U32 __attribute__((vector_size(32)));
typedef uint64_t U64 __attribute__((vector_size(32)));
typedef int32_t I32 __attribute__((vector_size(32)));
typedef int64_t I64 __attribute__((vector_size(32)));
struct M32 { U32 k; };
struct M64 { U64 k; };

DW_INLINE __m256i prefix32(size_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(n >= 8 ? 8 : int(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
DW_INLINE __m256i prefix64(size_t n) {
  return _mm256_cmpgt_epi64(_mm256_set1_epi64x(n >= 4 ? 4 : (long long)(n)), _mm256_setr_epi64x(0, 1, 2, 3));
}

DW_INLINE F32 set1(float x) { return _mm256_set1_ps(x); }
DW_INLINE F64 set1(double x) { return _mm256_set1_pd(x); }
DW_INLINE U32 set1(uint32_t x) { return (U32)_mm256_set1_epi32(int(x)); }
DW_INLINE U64 set1(uint64_t x) { return (U64)_mm256_set1_epi64x((long long)(x)); }

DW_INLINE F32 load(const float* p) { return _mm256_loadu_ps(p); }
DW_INLINE F64 load(const double* p) { return _mm256_loadu_pd(p); }
DW_INLINE U32 load(const uint32_t* p) { return (U32)_mm256_loadu_si256((const __m256i*)p); }
DW_INLINE U64 load(const uint64_t* p) { return (U64)_mm256_loadu_si256((const __m256i*)p); }
DW_INLINE void store(float* p, F32 x) { _mm256_storeu_ps(p, x); }
DW_INLINE void store(double* p, F64 x) { _mm256_storeu_pd(p, x); }
DW_INLINE void store(uint32_t* p, U32 x) { _mm256_storeu_si256((__m256i*)p, (__m256i)x); }
DW_INLINE void store(uint64_t* p, U64 x) { _mm256_storeu_si256((__m256i*)p, (__m256i)x); }
DW_INLINE U64 gather(const uint64_t* p, const uint32_t* at) {
  return (U64)_mm256_set_epi64x((long long)p[at[3]], (long long)p[at[2]], (long long)p[at[1]], (long long)p[at[0]]);
}
template <int d>
DW_INLINE U64 exchange(U64 x) { return __builtin_shufflevector(x, x, (0 ^ d), (1 ^ d), (2 ^ d), (3 ^ d)); }

DW_INLINE F32 load_partial(const float* p, size_t n, F32 fill) {
  const __m256i m = prefix32(n);
  return _mm256_blendv_ps(fill, _mm256_maskload_ps(p, m), _mm256_castsi256_ps(m));
}
DW_INLINE F64 load_partial(const double* p, size_t n, F64 fill) {
  const __m256i m = prefix64(n);
  return _mm256_blendv_pd(fill, _mm256_maskload_pd(p, m), _mm256_castsi256_pd(m));
}
DW_INLINE U32 load_partial(const uint32_t* p, size_t n, U32 fill) {
  const __m256i m = prefix32(n);
  return (U32)_mm256_blendv_epi8((__m256i)fill, _mm256_maskload_epi32((const int*)p, m), m);
}
DW_INLINE U64 load_partial(const uint64_t* p, size_t n, U64 fill) {
  const __m256i m = prefix64(n);
  return (U64)_mm256_blendv_epi8((__m256i)fill, _mm256_maskload_epi64((const long long*)p, m), m);
}
DW_INLINE void store_partial(float* p, size_t n, F32 x) { _mm256_maskstore_ps(p, prefix32(n), x); }
DW_INLINE void store_partial(double* p, size_t n, F64 x) { _mm256_maskstore_pd(p, prefix64(n), x); }
DW_INLINE void store_partial(uint32_t* p, size_t n, U32 x) { _mm256_maskstore_epi32((int*)p, prefix32(n), (__m256i)x); }
DW_INLINE void store_partial(uint64_t* p, size_t n, U64 x) {
  _mm256_maskstore_epi64((long long*)p, prefix64(n), (__m256i)x);
}

DW_INLINE F32 fma(F32 a, F32 b, F32 c) { return _mm256_fmadd_ps(a, b, c); }
DW_INLINE F64 fma(F64 a, F64 b, F64 c) { return _mm256_fmadd_pd(a, b, c); }
DW_INLINE F32 sqrt(F32 x) { return _mm256_sqrt_ps(x); }
DW_INLINE F64 sqrt(F64 x) { return _mm256_sqrt_pd(x); }
DW_INLINE F32 round_even(F32 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
DW_INLINE F64 round_even(F64 x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
DW_INLINE F32 floor(F32 x) { return _mm256_round_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }
DW_INLINE F64 floor(F64 x) { return _mm256_round_pd(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); }

DW_INLINE M32 lt(F32 a, F32 b) { return {(U32)_mm256_cmp_ps(a, b, _CMP_LT_OQ)}; }
DW_INLINE M64 lt(F64 a, F64 b) { return {(U64)_mm256_cmp_pd(a, b, _CMP_LT_OQ)}; }
DW_INLINE M32 le(F32 a, F32 b) { return {(U32)_mm256_cmp_ps(a, b, _CMP_LE_OQ)}; }
DW_INLINE M64 le(F64 a, F64 b) { return {(U64)_mm256_cmp_pd(a, b, _CMP_LE_OQ)}; }
DW_INLINE M32 eq(F32 a, F32 b) { return {(U32)_mm256_cmp_ps(a, b, _CMP_EQ_OQ)}; }
DW_INLINE M64 eq(F64 a, F64 b) { return {(U64)_mm256_cmp_pd(a, b, _CMP_EQ_OQ)}; }
DW_INLINE M32 unordered(F32 a, F32 b) { return {(U32)_mm256_cmp_ps(a, b, _CMP_UNORD_Q)}; }
DW_INLINE M64 unordered(F64 a, F64 b) { return {(U64)_mm256_cmp_pd(a, b, _CMP_UNORD_Q)}; }
DW_INLINE M32 lt(U32 a, U32 b) { return {(U32)(a < b)}; }
DW_INLINE M64 lt(U64 a, U64 b) { return {(U64)(a < b)}; }
DW_INLINE M32 lt_signed(U32 a, U32 b) { return {(U32)((I32)a < (I32)b)}; }
DW_INLINE M64 lt_signed(U64 a, U64 b) { return {(U64)((I64)a < (I64)b)}; }
DW_INLINE M32 eq(U32 a, U32 b) { return {(U32)(a == b)}; }
DW_INLINE M64 eq(U64 a, U64 b) { return {(U64)(a == b)}; }

DW_INLINE F32 select(M32 m, F32 a, F32 b) { return _mm256_blendv_ps(b, a, (__m256)m.k); }
DW_INLINE F64 select(M64 m, F64 a, F64 b) { return _mm256_blendv_pd(b, a, (__m256d)m.k); }
DW_INLINE U32 select(M32 m, U32 a, U32 b) { return (U32)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)m.k); }
DW_INLINE U64 select(M64 m, U64 a, U64 b) { return (U64)_mm256_blendv_epi8((__m256i)b, (__m256i)a, (__m256i)m.k); }
DW_INLINE M32 mask_and(M32 a, M32 b) { return {a.k & b.k}; }
DW_INLINE M64 mask_and(M64 a, M64 b) { return {a.k & b.k}; }
DW_INLINE M32 mask_or(M32 a, M32 b) { return {a.k | b.k}; }
DW_INLINE M64 mask_or(M64 a, M64 b) { return {a.k | b.k}; }
DW_INLINE M32 mask_not(M32 a) { return {~a.k}; }
DW_INLINE M64 mask_not(M64 a) { return {~a.k}; }
DW_INLINE uint32_t mask_bits(M32 a) { return uint32_t(_mm256_movemask_ps((__m256)a.k)); }
DW_INLINE uint32_t mask_bits(M64 a) { return uint32_t(_mm256_movemask_pd((__m256d)a.k)); }

DW_INLINE F64 widen_low(F32 x) { return _mm256_cvtps_pd(_mm256_castps256_ps128(x)); }
DW_INLINE F64 widen_high(F32 x) { return _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1)); }
DW_INLINE F32 narrow(F64 low, F64 high) { return _mm256_set_m128(_mm256_cvtpd_ps(high), _mm256_cvtpd_ps(low)); }
DW_INLINE U64 widen_low(U32 x) { return (U64)_mm256_cvtepu32_epi64(_mm256_castsi256_si128((__m256i)x)); }
DW_INLINE U64 widen_high(U32 x) { return (U64)_mm256_cvtepu32_epi64(_mm256_extracti128_si256((__m256i)x, 1)); }
DW_INLINE U32 narrow(U64 low, U64 high) {
  const __m256 even = _mm256_shuffle_ps((__m256)low, (__m256)high, 0x88);  // low words, halves interleaved
  return (U32)_mm256_permute4x64_epi64(_mm256_castps_si256(even), 0xD8);
}
DW_INLINE F32 from_i32(U32 x) { return _mm256_cvtepi32_ps((__m256i)x); }
DW_INLINE U32 to_i32_raw(F32 x) { return (U32)_mm256_cvttps_epi32(x); }
DW_INLINE U64 mul_low32(U64 a, U64 b) { return (U64)_mm256_mul_epu32((__m256i)a, (__m256i)b); }

// 16 lanes: l + (l+8), then +4, +2, +1.
DW_INLINE float add_tree(const F32* r) {
  const F32 a = r[0] + r[1];
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
// 8 lanes: l + (l+4), then +2, +1.
DW_INLINE double add_tree(const F64* r) {
  const F64 a = r[0] + r[1];
  __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}
