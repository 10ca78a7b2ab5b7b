// Activation functions on sixteen float lanes, at most 1 ulp (docs/accuracy.md): sigmoid silu gelu : F32x16 -> F32x16.
// The definition of every bit is the twin, tensor/twins/activation_ref.py: same operations, same order, same names.
#pragma once
#include "droveway/lookup.hpp"
#include "droveway/math_f32.hpp"

namespace DW_ISA {
namespace math {

// x · 2^n for −252 ≤ n ≤ 127 (two's complement): the first factor is exact on normal numbers, the last product rounds.
DW_INLINE F32x16 scale_by_power(F32x16 x, U32x16 n) {
  const U32x16 half = ((n + U32x16::set1(1024)) >> 1) - U32x16::set1(512);
  return x * power_of_2(half) * power_of_2(n - half);
}

// e^(x + x_rest) = (high + low) · 2^n for −112 ≤ x ≤ 0, |x_rest| ≤ ulp(x) / 2.
struct Power {
  F32x16 high, low;
  U32x16 n;
};
DW_INLINE Power exp_parts(F32x16 x, F32x16 x_rest) {
  const F32x16 one = F32x16::set1(1.0f), magic = F32x16::set1(kMagic);
  const F32x16 turns = fma(x, F32x16::set1(kLog2e), magic);
  const F32x16 k = turns - magic;
  const F32x16 first = fma(k, F32x16::set1(-kLn2High), x);  // exact
  const F32x16 second = k * F32x16::set1(kLn2Low);
  const F32x16 r = first - second, r_rest = ((first - r) - second) + x_rest;
  const F32x16 square = (r * r) * horner(r, 0.5f, 0x1.555556p-3f, 0x1.5554e4p-5f, 0x1.110feep-7f, 0x1.6d514cp-10f,
                                         0x1.a2740ap-13f);
  const F32x16 start = one + r, high = start + square;
  const F32x16 low = fma(r_rest, high, ((start - high) + square) + ((one - start) + r));
  return {high, low, bits(turns) - U32x16::set1(kMagicBits)};
}

// 1 / (1 + e^−x) = (t + rest) · 2^n for |x| ≤ 112.
struct Logistic {
  F32x16 t, rest;
  U32x16 n;
};
DW_INLINE Logistic logistic(F32x16 x) {
  const F32x16 one = F32x16::set1(1.0f), zero = F32x16::zero();
  const Power e = exp_parts(-abs(x), zero);
  // 1 + e^−|x|, with what the addition lost
  const U32x16 least = U32x16::set1(uint32_t(-126));
  const F32x16 scale = power_of_2(select(lt_signed(e.n, least), least, e.n));
  const F32x16 s = scale * e.high, d = one + s;
  const F32x16 d_rest = fma(scale, e.low, (one - d) + s);
  const M32x16 negative = lt(x, zero);
  const F32x16 u = one / d, top = select(negative, e.high, one);
  const F32x16 t = top * u;
  const F32x16 left = fma(-t, d_rest, fma(-t, d, top)) + select(negative, e.low, zero);
  return {t, left * u, select(negative, e.n, U32x16::zero())};
}
DW_INLINE F32x16 clamp_112(F32x16 x) {
  const F32x16 limit = F32x16::set1(112.0f);
  const F32x16 y = select(gt(x, limit), limit, x);
  return select(lt(y, -limit), -limit, y);
}

// Φ(c + h) − ½ for c = k / 8, |h| ≤ 1/16: distance + (rest + h·Q(h)); a column of the table for each k < 32. The
// distances are multiples of 2^-24, so that ½ ± distance is exact.
alignas(64) inline constexpr float kPhi[7][32] = {
    {0x0p+0f, 0x1.9774ap-5f, 0x1.944d1p-4f, 0x1.2b5b1p-3f, 0x1.881d78p-3f, 0x1.df42f8p-3f, 0x1.17efp-2f, 0x1.3ca258p-2f,
     0x1.5d897cp-2f, 0x1.7a9414p-2f, 0x1.93d08cp-2f, 0x1.a9679cp-2f, 0x1.bb96e4p-2f, 0x1.caab34p-2f, 0x1.d6fabcp-2f,
     0x1.e0dfc8p-2f, 0x1.e8b43p-2f, 0x1.eecdbcp-2f, 0x1.f37b6cp-2f, 0x1.f703d4p-2f, 0x1.f9a42cp-2f, 0x1.fb9048p-2f,
     0x1.fcf2ep-2f, 0x1.fdee7p-2f, 0x1.fe9e2p-2f, 0x1.ff16f4p-2f, 0x1.ff68bcp-2f, 0x1.ff9f4p-2f, 0x1.ffc304p-2f,
     0x1.ffda2p-2f, 0x1.ffe8d4p-2f, 0x1.fff208p-2f},
    {0x0p+0f, -0x1.dfcb54p-29f, 0x1.62ddaep-26f, -0x1.01e824p-26f, 0x1.19563cp-28f, 0x1.4e1b36p-26f, -0x1.5ace94p-29f,
     0x1.4feb68p-28f, -0x1.dbe59p-26f, -0x1.07cd86p-26f, -0x1.2ba9c2p-28f, -0x1.8f7248p-26f, 0x1.3b4dcp-27f,
     0x1.016c2p-27f, -0x1.05155cp-27f, -0x1.4ecbf6p-26f, 0x1.f4d89ep-28f, 0x1.2032p-28f, 0x1.86f164p-26f,
     -0x1.0e4d94p-26f, 0x1.a81b64p-28f, -0x1.b01f7cp-26f, -0x1.0d27b2p-27f, -0x1.21cf9cp-26f, 0x1.e067a4p-26f,
     -0x1.7a5706p-26f, 0x1.0282fcp-27f, -0x1.be4098p-28f, 0x1.0db522p-27f, 0x1.0079dcp-30f, -0x1.9564b2p-26f,
     -0x1.bb31d2p-26f},
    {0x1.988454p-2f, 0x1.95567ap-2f, 0x1.8bf2bap-2f, 0x1.7cc794p-2f, 0x1.6883dp-2f, 0x1.50096ep-2f, 0x1.345d5ep-2f,
     0x1.169596p-2f, 0x1.ef8e58p-3f, 0x1.b1ec62p-3f, 0x1.7610bap-3f, 0x1.3d7712p-3f, 0x1.094086p-3f, 0x1.b46178p-4f,
     0x1.616454p-4f, 0x1.19bfa4p-4f, 0x1.ba4b44p-5f, 0x1.55c74p-5f, 0x1.0402ep-5f, 0x1.857a94p-6f, 0x1.1f2f06p-6f,
     0x1.a0f22cp-7f, 0x1.29fa54p-7f, 0x1.a34ea6p-8f, 0x1.227214p-8f, 0x1.8c2226p-9f, 0x1.09f38ep-9f, 0x1.5f90f6p-10f,
     0x1.c9897cp-11f, 0x1.251bf8p-11f, 0x1.71b92ep-12f, 0x1.cb2206p-13f},
    {-0x1.90227cp-38f, -0x1.955672p-6f, -0x1.8bf2b4p-5f, -0x1.1d95aap-4f, -0x1.6883cap-4f, -0x1.a40bc4p-4f,
     -0x1.ce8c0ap-4f, -0x1.e785c2p-4f, -0x1.ef8e56p-4f, -0x1.e829ecp-4f, -0x1.d394e6p-4f, -0x1.b483bap-4f,
     -0x1.8de0cap-4f, -0x1.628f34p-4f, -0x1.3537ccp-4f, -0x1.0823acp-4f, -0x1.ba4b48p-5f, -0x1.6b23b8p-5f,
     -0x1.24834p-5f, -0x1.ce8196p-6f, -0x1.66facap-6f, -0x1.119eeep-6f, -0x1.99b836p-7f, -0x1.2d6086p-7f,
     -0x1.b3ab1ap-8f, -0x1.357aaap-8f, -0x1.b02bbcp-9f, -0x1.28a246p-9f, -0x1.905838p-10f, -0x1.09a146p-10f,
     -0x1.5a9d7ep-11f, -0x1.bcc8c6p-12f},
    {-0x1.1061fp-4f, -0x1.0a0724p-4f, -0x1.eeedcp-5f, -0x1.b437cp-5f, -0x1.688066p-5f, -0x1.110c86p-5f, -0x1.679014p-6f,
     -0x1.5c467ep-7f, 0x1.6bb684p-18f, 0x1.335d66p-7f, 0x1.1879a4p-6f, 0x1.78ff84p-6f, 0x1.ba078ep-6f, 0x1.dd5214p-6f,
     0x1.e5e292p-6f, 0x1.d87b58p-6f, 0x1.ba4798p-6f, 0x1.9081aep-6f, 0x1.601822p-6f, 0x1.2d3d4ep-6f, 0x1.f68e12p-7f,
     0x1.99581ap-7f, 0x1.45ec44p-7f, 0x1.fbbf9ap-8f, 0x1.8342cp-8f, 0x1.215e54p-8f, 0x1.a7dc8ap-9f, 0x1.306be4p-9f,
     0x1.acf2b2p-10f, 0x1.288accp-10f, 0x1.9277p-11f, 0x1.0c216cp-11f},
    {0x1.e01a8ep-30f, 0x1.92db9ap-8f, 0x1.835e6p-7f, 0x1.0ff1cap-6f, 0x1.4a2f86p-6f, 0x1.6d12fcp-6f, 0x1.77908ep-6f,
     0x1.6adffep-6f, 0x1.4a33f8p-6f, 0x1.1a1aa2p-6f, 0x1.bff9f4p-7f, 0x1.42e40ap-7f, 0x1.8e2992p-8f, 0x1.5490dep-9f,
     -0x1.940746p-12f, -0x1.6a22acp-9f, -0x1.26637ep-8f, -0x1.6e7acep-8f, -0x1.91d3ap-8f, -0x1.96d1fap-8f,
     -0x1.84b78ap-8f, -0x1.62c32p-8f, -0x1.37846cp-8f, -0x1.088088p-8f, -0x1.b3c148p-9f, -0x1.5d15ecp-9f,
     -0x1.107eaap-9f, -0x1.9f181cp-10f, -0x1.34dc7ep-10f, -0x1.c1662ap-11f, -0x1.3fe9eap-11f, -0x1.bdf992p-12f},
    {0x1.7e2b44p-7f, 0x1.5e7f32p-7f, 0x1.10adf6p-7f, 0x1.32e56p-8f, 0x1.18cda2p-8f, 0x1.593cc4p-9f, -0x1.31fb7ep-9f,
     -0x1.0a663p-9f, -0x1.49171p-8f, -0x1.5ae87cp-8f, -0x1.52291cp-8f, -0x1.99aedcp-8f, -0x1.56b476p-8f,
     -0x1.6ac43ap-8f, -0x1.057348p-8f, -0x1.7d0dfp-9f, -0x1.11d622p-9f, -0x1.2617e6p-10f, -0x1.b39366p-12f,
     0x1.64e35p-13f, 0x1.8d3616p-11f, 0x1.ff853ap-11f, 0x1.181d3ap-10f, 0x1.343a9cp-10f, 0x1.2268bep-10f,
     0x1.028cacp-10f, 0x1.c49c4ep-11f, 0x1.7555bep-11f, 0x1.2cc366p-11f, 0x1.da6bf8p-12f, 0x1.64840ep-12f,
     0x1.073b4cp-12f},
};

// 1 / (1 + e^−(c + h)) − ½ for c = k / 4, |h| ≤ ⅛, in the same form.
alignas(64) inline constexpr float kSigma[7][32] = {
    {0x0p+0f, 0x1.fd59ap-5f, 0x1.f597fp-4f, 0x1.6ef54p-3f, 0x1.d9354p-3f, 0x1.1bf48p-2f, 0x1.45324p-2f, 0x1.68665p-2f,
     0x1.85efacp-2f, 0x1.9e5cb4p-2f, 0x1.b2523cp-2f, 0x1.c278a4p-2f, 0x1.cf6f98p-2f, 0x1.d9c6fcp-2f, 0x1.e1fbf8p-2f,
     0x1.e878ap-2f, 0x1.ed9504p-2f, 0x1.f1994cp-2f, 0x1.f4bfd8p-2f, 0x1.f73778p-2f, 0x1.f92584p-2f, 0x1.faa794p-2f,
     0x1.fbd508p-2f, 0x1.fcc04cp-2f, 0x1.fd77dp-2f, 0x1.fe06ecp-2f, 0x1.fe7678p-2f, 0x1.fecd6cp-2f, 0x1.ff112cp-2f,
     0x1.ff45f8p-2f, 0x1.ff6f18p-2f, 0x1.ff8f2p-2f},
    {0x0p+0f, -0x1.a8769p-26f, -0x1.65978ep-26f, -0x1.0b9b82p-26f, -0x1.454ba8p-26f, -0x1.544706p-26f, -0x1.aad0dep-26f,
     0x1.718402p-27f, -0x1.5d618ep-27f, 0x1.ba44d6p-26f, -0x1.253484p-28f, 0x1.2a4e48p-26f, -0x1.e482a2p-28f,
     -0x1.019e38p-26f, 0x1.7e3352p-26f, -0x1.313f22p-26f, 0x1.e1bc3ep-26f, 0x1.f724fcp-26f, -0x1.3d202ep-26f,
     -0x1.4d55d2p-26f, -0x1.9f58e4p-26f, -0x1.691428p-27f, 0x1.ae7ae4p-26f, 0x1.b79b8ap-27f, 0x1.11a0bp-26f,
     -0x1.f2efbep-27f, 0x1.5d353ap-26f, -0x1.02b9dap-27f, 0x1.8ea41ep-28f, -0x1.2c9eccp-26f, -0x1.62ae24p-28f,
     0x1.cdaaa6p-26f},
    {0x1p-2f, 0x1.f81526p-3f, 0x1.e149ap-3f, 0x1.be3fbap-3f, 0x1.92a946p-3f, 0x1.6284c4p-3f, 0x1.3173b2p-3f,
     0x1.02500ap-3f, 0x1.ae0dc2p-4f, 0x1.615002p-4f, 0x1.1f2514p-4f, 0x1.cea746p-5f, 0x1.721652p-5f, 0x1.265e34p-5f,
     0x1.d22ca2p-6f, 0x1.6fcfa6p-6f, 0x1.2162c2p-6f, 0x1.c65b1cp-7f, 0x1.64108ap-7f, 0x1.16a7fcp-7f, 0x1.b3afe2p-8f,
     0x1.5452p-8f, 0x1.09a7a6p-8f, 0x1.9e87dp-9f, 0x1.434a52p-9f, 0x1.f81bd8p-10f, 0x1.88ef68p-10f, 0x1.3238b8p-10f,
     0x1.dd37d2p-11f, 0x1.73cecp-11f, 0x1.21a7aep-11f, 0x1.c34706p-12f},
    {-0x1.60f6e8p-44f, -0x1.f578e8p-7f, -0x1.d7811ap-6f, -0x1.3fd53p-5f, -0x1.74272ap-5f, -0x1.893b5p-5f,
     -0x1.8403d4p-5f, -0x1.6ba7d2p-5f, -0x1.4786cap-5f, -0x1.1defb4p-5f, -0x1.e72924p-6f, -0x1.970e12p-6f,
     -0x1.4efbep-6f, -0x1.106472p-6f, -0x1.b6d85ep-7f, -0x1.5ee892p-7f, -0x1.16f9d2p-7f, -0x1.b9937ap-8f,
     -0x1.5c3d8ep-8f, -0x1.11e036p-8f, -0x1.addaep-9f, -0x1.50c468p-9f, -0x1.077e08p-9f, -0x1.9be66cp-10f,
     -0x1.41b104p-10f, -0x1.f62a84p-11f, -0x1.87c15ep-11f, -0x1.318156p-11f, -0x1.dc592ep-12f, -0x1.7347ap-12f,
     -0x1.2155aep-12f, -0x1.c2e382p-13f},
    {-0x1.555538p-6f, -0x1.407afep-6f, -0x1.071c1ap-6f, -0x1.6db804p-7f, -0x1.81c08cp-8f, -0x1.247758p-10f,
     0x1.567ccap-9f, 0x1.4f160ap-8f, 0x1.a84fep-8f, 0x1.c6952ap-8f, 0x1.bb98b8p-8f, 0x1.97d062p-8f, 0x1.67b53ep-8f,
     0x1.33dc72p-8f, 0x1.01b942p-8f, 0x1.a861p-9f, 0x1.58f776p-9f, 0x1.15b368p-9f, 0x1.bbd0f8p-10f, 0x1.60978ap-10f,
     0x1.16df38p-10f, 0x1.b7a2a2p-11f, 0x1.59969ap-11f, 0x1.0f1dcep-11f, 0x1.a8a964p-12f, 0x1.4c3398p-12f,
     0x1.03971p-12f, 0x1.956c08p-13f, 0x1.3c672ap-13f, 0x1.eda6p-14f, 0x1.80eeaep-14f, 0x1.2c13a8p-14f},
    {0x1.a56bbcp-38f, 0x1.4595b6p-9f, 0x1.1d4612p-8f, 0x1.57873ep-8f, 0x1.50b054p-8f, 0x1.1a2604p-8f, 0x1.989232p-9f,
     0x1.f2a12p-10f, 0x1.c7aa12p-11f, 0x1.b9549ep-14f, -0x1.99d13cp-12f, -0x1.5cd912p-11f, -0x1.985c3ap-11f,
     -0x1.9cc3eap-11f, -0x1.812866p-11f, -0x1.55cb6ep-11f, -0x1.25268cp-11f, -0x1.eae6c2p-12f, -0x1.93e9a8p-12f,
     -0x1.48071cp-12f, -0x1.07d742p-12f, -0x1.a5480cp-13f, -0x1.4e6e56p-13f, -0x1.08566ap-13f, -0x1.a0808p-14f,
     -0x1.474426p-14f, -0x1.00a356p-14f, -0x1.91e4d8p-15f, -0x1.3a526ap-15f, -0x1.eb304ep-16f, -0x1.7f7f5ap-16f,
     -0x1.2b417ep-16f},
    {0x1.106ab6p-9f, 0x1.e6a9cap-10f, 0x1.21c1cep-10f, 0x1.d043b2p-13f, -0x1.01bbb4p-11f, -0x1.a60ef8p-11f,
     -0x1.04a69p-10f, -0x1.e2ea9ep-11f, -0x1.68372p-11f, -0x1.119d3cp-11f, -0x1.1a4c4cp-12f, -0x1.0e4ep-13f,
     -0x1.a9858ap-15f, 0x1.dbd6f4p-16f, 0x1.f49e76p-15f, 0x1.107388p-14f, 0x1.2b21f8p-14f, 0x1.2a8152p-14f,
     0x1.f323bep-15f, 0x1.b4980ap-15f, 0x1.76cebcp-15f, 0x1.2a5488p-15f, 0x1.f7f41ap-16f, 0x1.86e92ep-16f,
     0x1.490d66p-16f, 0x1.f1413ap-17f, 0x1.a0265ap-17f, 0x1.43d3bap-17f, 0x1.f66faap-18f, 0x1.79d6a6p-18f,
     0x1.2ba01cp-18f, 0x1.d84e94p-19f},
};

// A function that goes from 0 to 1 with f(−x) = 1 − f(x), near x = 0 (the tables above, `steps` columns a unit): it is
// start + change, the first exact.
struct Rise {
  F32x16 start, change;
};
DW_INLINE Rise rise(const float (&table)[7][32], float steps, F32x16 x) {
  const F32x16 y = abs(x), magic = F32x16::set1(kMagic);
  const F32x16 rounded = fma(y, F32x16::set1(steps), magic);
  const U32x16 index = bits(rounded), sign = bits(x) & U32x16::set1(0x80000000u);
  const F32x16 h = fma(rounded - magic, F32x16::set1(-1.0f / steps), y);
  F32x16 q = lookup32(table[6], index);
  q = fma(q, h, lookup32(table[5], index));
  q = fma(q, h, lookup32(table[4], index));
  q = fma(q, h, lookup32(table[3], index));
  q = fma(q, h, lookup32(table[2], index));
  const F32x16 change = fma(q, h, lookup32(table[1], index));
  const F32x16 start = F32x16::set1(0.5f) + f32(bits(lookup32(table[0], index)) ^ sign);
  return {start, f32(bits(change) ^ sign)};
}

// y · Φ(−y) for 3.375 ≤ y: e^(−y²/2) · G(1/y²).
DW_INLINE F32x16 gelu_tail(F32x16 size) {
  const F32x16 one = F32x16::set1(1.0f), limit = F32x16::set1(15.0f), y = select(gt(size, limit), limit, size);
  const F32x16 z = y * y, z_rest = fma(y, y, -z);
  const Power e = exp_parts(F32x16::set1(-0.5f) * z, F32x16::set1(-0.5f) * z_rest);
  const F32x16 v = one / z, c = F32x16::set1(0x1.988454p-2f);
  const F32x16 w = fma(v, horner(v, -0x1.988342p-2f, 0x1.321dbcp+0f, -0x1.789f08p+2f, 0x1.289eeep+5f, -0x1.d3ff34p+7f,
                                 0x1.23f89cp+10f, -0x1.cf2dccp+11f, 0x1.4ef028p+12f), F32x16::set1(-0x1.857936p-27f));
  const F32x16 g = c + w, g_rest = (c - g) + w;
  const F32x16 t = e.high * g;
  const F32x16 t_rest = fma(e.low, g, fma(e.high, g_rest, fma(e.high, g, -t)));
  return scale_by_power(t + t_rest, e.n);
}
__attribute__((noinline)) inline void gelu_far(const float* x, float* out) {
  const F32x16 v = F32x16::load(x), t = gelu_tail(abs(v));
  store(out, select(lt(v, F32x16::zero()), -t, v - t));
}

__attribute__((noinline)) inline void sigmoid_far(const float* x, float* out) {
  const Logistic y = logistic(clamp_112(F32x16::load(x)));
  store(out, scale_by_power(y.t + y.rest, y.n));
}
__attribute__((noinline)) inline void silu_far(const float* x, float* out) {
  const F32x16 v = F32x16::load(x), clamped = clamp_112(v);
  const Logistic y = logistic(clamped);
  const F32x16 p = clamped * y.t;
  const F32x16 near = scale_by_power(p + fma(clamped, y.rest, fma(clamped, y.t, -p)), y.n);
  store(out, select(ge(v, F32x16::set1(112.0f)), v, near));
}
// `value` but for the lanes of `far`, which F computes.
template <void (*F)(const float*, float*)>
DW_INLINE F32x16 or_far(F32x16 x, F32x16 value, M32x16 far) {
  if (any(far)) {
    float xs[16], values[16];
    store(xs, x);
    F(xs, values);
    value = select(far, F32x16::load(values), value);
  }
  return value;
}

}  // namespace math

// 1 / (1 + e^−x)
DW_INLINE F32x16 sigmoid(F32x16 x) {
  const math::Rise r = math::rise(math::kSigma, 4.0f, x);
  const M32x16 far = gt(abs(x), F32x16::set1(7.75f));
  return canonical(math::or_far<math::sigmoid_far>(x, r.start + r.change, far));
}

// x · sigmoid(x); −0 at −∞. What underflows keeps its sign, too.
DW_INLINE F32x16 silu(F32x16 x) {
  const math::Rise r = math::rise(math::kSigma, 4.0f, x);
  const M32x16 far = gt(abs(x), F32x16::set1(7.75f));
  return canonical(copysign(math::or_far<math::silu_far>(x, fma(x, r.start, x * r.change), far), x));
}

// x · Φ(x), Φ the distribution function of the standard normal (the exact form of GELU); −0 at −∞.
DW_INLINE F32x16 gelu(F32x16 x) {
  const math::Rise r = math::rise(math::kPhi, 8.0f, x);
  const M32x16 far = lt(x, F32x16::set1(-3.375f)) | gt(x, F32x16::set1(3.875f));
  return canonical(copysign(math::or_far<math::gelu_far>(x, fma(x, r.start, x * r.change), far), x));
}

}  // namespace DW_ISA
