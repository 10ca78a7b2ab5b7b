// Elementary functions of complex numbers in the table of elementwise operations, from functions of their parts.
// Special cases as in the Python array API standard 2024.12. A block is worked on as planes, real and imaginary parts
// apart; complex64 goes through float64. Twin: tensor/twins/complex_ref.py, the same operations in the same order.
#include "droveway/fpenv.hpp"
#include "elementwise_lanes.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

constexpr size_t kPlane = 128;
constexpr double kInf = __builtin_inf();
constexpr double kHuge = 709.0, kExpHuge = 0x1.d422d2be5dc9bp+1022;  // e^709
constexpr double kLn2 = 0x1.62e42fefa39efp-1, kHalfPi = 0x1.921fb54442d18p+0;

using Plane = double[kPlane];
struct Planes {
  alignas(64) Plane re, im;
};

DW_INLINE double size1(double x) { return f64_of(bits1(x) & 0x7FFFFFFFFFFFFFFFull); }
DW_INLINE double sign1(double size, double sign) {
  return f64_of((bits1(size) & 0x7FFFFFFFFFFFFFFFull) | (bits1(sign) & 0x8000000000000000ull));
}
DW_INLINE double flip1(double x, double sign) { return f64_of(bits1(x) ^ (bits1(sign) & 0x8000000000000000ull)); }
DW_INLINE bool is_nan1(double x) { return x != x; }
DW_INLINE bool is_inf1(double x) { return size1(x) == kInf; }
DW_INLINE bool is_finite1(double x) { return size1(x) < kInf; }
// a · b, where 0 wins over infinity and NaN.
DW_INLINE double times1(double a, double b) { return a == 0.0 && !is_finite1(b) ? a : a * b; }
constexpr double kNan = __builtin_nan("");

// out = f(x) for a function of real numbers.
template <int OP>
DW_INLINE void real(const Plane& x, Plane& out) {
  special_f64(OP)(Strip{out, {x, nullptr, nullptr}, kPlane, OP});
}
template <int OP>
DW_INLINE void real(const Plane& x, const Plane& y, Plane& out) {
  special_f64(OP)(Strip{out, {x, y, nullptr}, kPlane, OP});
}

#define DW_EACH for (size_t k = 0; k < kPlane; ++k)

void exp(const Planes& z, Planes& out) {
  Plane x, e, c, s;
  DW_EACH x[k] = z.re[k] > kHuge && is_finite1(z.re[k]) ? z.re[k] - kHuge : z.re[k];
  real<droveway::op_exp>(x, e);
  real<droveway::op_cos>(z.im, c);
  real<droveway::op_sin>(z.im, s);
  DW_EACH {
    const double a = z.re[k], b = z.im[k];
    const bool lifted = a > kHuge && is_finite1(a), loose = !is_finite1(b);
    const double p = e[k] * c[k], re = lifted ? p * kExpHuge : p;
    out.re[k] = is_inf1(a) && loose ? (a < 0.0 ? 0.0 : kInf) : re;
  }
  DW_EACH {
    const double a = z.re[k], b = z.im[k];
    const bool lifted = a > kHuge && is_finite1(a), loose = !is_finite1(b);
    const double q = e[k] * s[k], im = lifted ? q * kExpHuge : q;
    out.im[k] = b == 0.0 ? b : a == -kInf && loose ? 0.0 : im;
  }
}

// sinh x and cosh x times `rest`, which is e^709 for |x| > 709, else 1.
struct Hyperbolic {
  Plane sine, cosine, rest;
};
void hyperbolic(const Plane& a, Hyperbolic& h) {
  Plane x, e;
  DW_EACH x[k] = size1(a[k]) > kHuge && is_finite1(a[k]) ? sign1(size1(a[k]) - kHuge, a[k]) : a[k];
  DW_EACH h.rest[k] = size1(a[k]) > kHuge && is_finite1(a[k]) ? kExpHuge : 1.0;
  real<droveway::op_sinh>(x, h.sine);
  real<droveway::op_cosh>(x, h.cosine);
  DW_EACH x[k] = size1(x[k]);
  real<droveway::op_exp>(x, e);
  // e^−|x| is nothing beside e^|x| there
  DW_EACH h.sine[k] = h.rest[k] != 1.0 ? sign1(0.5 * e[k], a[k]) : h.sine[k];
  DW_EACH h.cosine[k] = h.rest[k] != 1.0 ? 0.5 * e[k] : h.cosine[k];
}

void sinh(const Planes& z, Planes& out) {
  Hyperbolic h;
  Plane c, s;
  hyperbolic(z.re, h);
  real<droveway::op_cos>(z.im, c);
  real<droveway::op_sin>(z.im, s);
  DW_EACH {
    const double p = times1(h.sine[k], c[k]) * h.rest[k];
    out.re[k] = is_inf1(z.re[k]) && !is_finite1(z.im[k]) ? z.re[k] : p;
  }
  DW_EACH {
    const double b = z.im[k], q = (h.cosine[k] * s[k]) * h.rest[k];
    out.im[k] = b == 0.0 ? b : q;
  }
}
void cosh(const Planes& z, Planes& out) {
  Hyperbolic h;
  Plane c, s, im;
  hyperbolic(z.re, h);
  real<droveway::op_cos>(z.im, c);
  real<droveway::op_sin>(z.im, s);
  DW_EACH {
    const double a = z.re[k], b = z.im[k], q = times1(h.sine[k], s[k]) * h.rest[k];
    im[k] = b == 0.0 ? (is_nan1(a) ? b : flip1(b, a)) : q;
  }
  DW_EACH {
    const double p = (h.cosine[k] * c[k]) * h.rest[k];
    out.re[k] = is_inf1(z.re[k]) && !is_finite1(z.im[k]) ? kInf : p;
  }
  DW_EACH out.im[k] = im[k];
}
// With t = tan y, s = sinh x: (√(1 + s²)·s·(1 + t²) + i·t) / (1 + (1 + t²)·s²); Kahan, "Branch cuts for complex
// elementary functions", 1987.
void tanh(const Planes& z, Planes& out) {
  Plane s, t, root, limited, e, c, sy;
  DW_EACH limited[k] = size1(z.re[k]) > 30.0 ? sign1(30.0, z.re[k]) : z.re[k];
  real<droveway::op_sinh>(limited, s);
  real<droveway::op_tan>(z.im, t);
  DW_EACH root[k] = -2.0 * size1(z.re[k]);
  real<droveway::op_exp>(root, e);
  real<droveway::op_cos>(z.im, c);
  real<droveway::op_sin>(z.im, sy);
  DW_EACH root[k] = __builtin_sqrt(fma1(s[k], s[k], 1.0));
  DW_EACH {
    const double a = z.re[k], beta = fma1(t[k], t[k], 1.0), ss = s[k] * s[k];
    const double bottom = fma1(beta, ss, 1.0);
    const double near = ((beta * root[k]) * s[k]) / bottom;
    const double value = size1(a) > 22.0 ? sign1(1.0, a) : a == 0.0 ? a : near;
    out.re[k] = is_nan1(a) ? kNan : is_finite1(z.im[k]) || a == 0.0 || is_inf1(a) ? value : kNan;
  }
  DW_EACH {
    const double a = z.re[k], b = z.im[k], beta = fma1(t[k], t[k], 1.0), ss = s[k] * s[k];
    const double near = t[k] / fma1(beta, ss, 1.0);
    const double far = ((4.0 * sy[k]) * c[k]) * e[k];
    const double value = is_inf1(a) ? sign1(0.0, b) : size1(a) > 22.0 ? far : near;
    out.im[k] = b == 0.0 ? b : is_inf1(a) ? (is_nan1(b) ? 0.0 : value) : is_finite1(b) && !is_nan1(a) ? value : kNan;
  }
}

// log |x + iy|, or log |1 + x + iy|; where that is near 1, ½·log1p of the square less 1, by compensated sums.
void log_size(const Plane& re, const Plane& im, bool one_more, Plane& out) {
  Plane x, a, b, h, d, near, far;
  DW_EACH x[k] = one_more ? 1.0 + re[k] : re[k];
  // by powers of two, so that the size is a normal number
  Plane lift;
  DW_EACH {
    const double p = size1(x[k]), q = size1(im[k]), m = p < q ? q : p;
    lift[k] = m > 0x1p1000 ? -100.0 : m < 0x1p-900 ? 100.0 : 0.0;
  }
  DW_EACH a[k] = x[k] * (lift[k] == 0.0 ? 1.0 : lift[k] > 0.0 ? 0x1p100 : 0x1p-100);
  DW_EACH b[k] = im[k] * (lift[k] == 0.0 ? 1.0 : lift[k] > 0.0 ? 0x1p100 : 0x1p-100);
  real<droveway::op_hypot>(a, b, h);
  DW_EACH {
    const double p = size1(re[k]), q = size1(im[k]);
    const double m = one_more ? re[k] : p < q ? q : p, n = one_more ? im[k] : p < q ? p : q;
    const double mm = m * m, nn = n * n;
    const double mm_rest = fma1(m, m, -mm), nn_rest = fma1(n, n, -nn);
    // 2x + x², or (m² − 1): its two terms, the larger first where it matters
    const double first = one_more ? m + m : -1.0;
    const double s = first + mm, part = s - first, s_rest = (first - (s - part)) + (mm - part);
    const double t = s + nn, part2 = t - s, t_rest = (s - (t - part2)) + (nn - part2);
    d[k] = t + ((s_rest + t_rest) + (mm_rest + nn_rest));
  }
  real<droveway::op_log1p>(d, near);
  real<droveway::op_log>(h, far);
  DW_EACH {
    const bool close = h[k] > 0.5 && h[k] < 2.0 && lift[k] == 0.0;
    out[k] = close ? 0.5 * near[k] : far[k] - lift[k] * kLn2;
  }
}
void log(const Planes& z, Planes& out) {
  Plane re, im;
  log_size(z.re, z.im, false, re);
  real<droveway::op_atan2>(z.im, z.re, im);
  DW_EACH out.re[k] = re[k];
  DW_EACH out.im[k] = im[k];
}
void log1p(const Planes& z, Planes& out) {
  Plane re, im, x;
  log_size(z.re, z.im, true, re);
  DW_EACH x[k] = 1.0 + z.re[k];
  real<droveway::op_atan2>(z.im, x, im);
  // 1 − 1 is +0, and so small a number is its own logarithm
  DW_EACH out.re[k] = z.re[k] == 0.0 && z.im[k] == 0.0 ? z.re[k] : re[k];
  DW_EACH out.im[k] = im[k];
}
void log2(const Planes& z, Planes& out) {
  log(z, out);
  DW_EACH out.re[k] = out.re[k] * 0x1.71547652b82fep+0;
  DW_EACH out.im[k] = out.im[k] * 0x1.71547652b82fep+0;
}
void log10(const Planes& z, Planes& out) {
  log(z, out);
  DW_EACH out.re[k] = out.re[k] * 0x1.bcb7b1526e50ep-2;
  DW_EACH out.im[k] = out.im[k] * 0x1.bcb7b1526e50ep-2;
}
// e^x·cos y − 1 = (e^x − 1)·cos y − 2·sin²(y/2); of −0 ± 0i it is +0 ± 0i (array API)
void expm1(const Planes& z, Planes& out) {
  Plane e, c, half, h;
  Planes power;
  exp(z, power);
  real<droveway::op_expm1>(z.re, e);
  real<droveway::op_cos>(z.im, c);
  DW_EACH half[k] = 0.5 * z.im[k];
  real<droveway::op_sin>(half, h);
  DW_EACH {
    const double a = z.re[k], b = z.im[k];
    const double near = fma1(e[k], c[k], -((h[k] + h[k]) * h[k]));
    const double value = b == 0.0 ? e[k] + 0.0 : a > 700.0 ? power.re[k] : near;
    out.re[k] = is_inf1(a) && !is_finite1(b) ? (a < 0.0 ? -1.0 : kInf) : value;
  }
  DW_EACH out.im[k] = power.im[k];
}

// The root with re ≥ 0; Kahan 1987.
void sqrt(const Planes& z, Planes& out) {
  Plane x, y, h;
  Plane back;
  DW_EACH {
    const double p = size1(z.re[k]), q = size1(z.im[k]), m = p < q ? q : p;
    const bool large = m > 0x1p1000, small = m < 0x1p-900;
    const double scale = large ? 0x1p-100 : small ? 0x1p100 : 1.0;
    back[k] = large ? 0x1p50 : small ? 0x1p-50 : 1.0;
    x[k] = z.re[k] * scale;
    y[k] = z.im[k] * scale;
  }
  real<droveway::op_hypot>(x, y, h);
  Plane t, u;
  DW_EACH t[k] = __builtin_sqrt(0.5 * (size1(x[k]) + h[k]));
  DW_EACH u[k] = t[k] == 0.0 ? 0.0 : size1(y[k]) / (t[k] + t[k]);
  DW_EACH {
    const double a = z.re[k], b = z.im[k];
    const double re = (a < 0.0 ? u[k] : t[k]) * back[k], im = sign1(a < 0.0 ? t[k] : u[k], b) * back[k];
    const bool wide = is_inf1(b), right = a == kInf, left = a == -kInf, none = is_nan1(b);
    h[k] = wide || right ? kInf : left ? (none ? b : 0.0) : re;
    u[k] = wide ? b : right ? (none ? b : sign1(0.0, b)) : left ? (none ? kInf : sign1(kInf, b)) : im;
  }
  DW_EACH out.re[k] = h[k];
  DW_EACH out.im[k] = u[k];
}
void product(const Planes& x, const Planes& y, Planes& out) {
  Plane re, im;
  DW_EACH re[k] = x.re[k] * y.re[k] - x.im[k] * y.im[k];
  DW_EACH im[k] = x.re[k] * y.im[k] + x.im[k] * y.re[k];
  DW_EACH out.re[k] = re[k];
  DW_EACH out.im[k] = im[k];
}

// asin z = (α, β) and acos z = (κ, −β) for a number whose parts are positive or 0, and κ of the one mirrored at the
// imaginary axis where re < 0; Kahan 1987. Beyond 2^500 nothing is left of the 1 in 1 − z².
struct Inverse {
  Plane alpha, beta, kappa;
};
void inverse(const Planes& z, Inverse& r) {
  Planes w, less, more;
  Plane x, y, h, near;
  DW_EACH x[k] = size1(z.re[k]);
  DW_EACH y[k] = size1(z.im[k]);
  DW_EACH w.re[k] = 1.0 - x[k];
  DW_EACH w.im[k] = y[k];
  sqrt(w, less);
  DW_EACH w.re[k] = 1.0 + x[k];
  sqrt(w, more);
  Plane apart, flat, steep;
  DW_EACH apart[k] = x[k] > 0x1p500 || y[k] > 0x1p500 ? 1.0 : 0.0;
  // α
  DW_EACH h[k] = less.re[k] * more.re[k] + less.im[k] * more.im[k];
  DW_EACH h[k] = apart[k] != 0.0 ? y[k] : h[k];
  real<droveway::op_atan2>(x, h, r.alpha);
  // κ
  DW_EACH flat[k] = apart[k] != 0.0 ? y[k] : z.re[k] < 0.0 ? more.re[k] : less.re[k];
  DW_EACH steep[k] = apart[k] != 0.0 ? z.re[k] : z.re[k] < 0.0 ? less.re[k] : more.re[k];
  real<droveway::op_atan2>(flat, steep, r.kappa);
  DW_EACH r.kappa[k] = apart[k] != 0.0 ? r.kappa[k] : r.kappa[k] + r.kappa[k];
  // β
  DW_EACH h[k] = less.re[k] * more.im[k] + less.im[k] * more.re[k];
  real<droveway::op_asinh>(h, near);
  DW_EACH flat[k] = 0x1p-50 * x[k];
  DW_EACH steep[k] = 0x1p-50 * y[k];
  real<droveway::op_hypot>(flat, steep, h);
  real<droveway::op_log>(h, r.beta);
  DW_EACH r.beta[k] = apart[k] != 0.0 ? r.beta[k] + 51.0 * kLn2 : near[k];
  DW_EACH {
    const bool none = is_nan1(x[k]) || is_nan1(y[k]);
    r.beta[k] = is_inf1(x[k]) || is_inf1(y[k]) ? kInf : none ? kNan : r.beta[k];
    r.alpha[k] = none ? (x[k] == 0.0 ? 0.0 : kNan) : r.alpha[k];
    r.kappa[k] = none ? (x[k] == 0.0 ? kHalfPi : kNan) : r.kappa[k];
  }
}
void asin(const Planes& z, Planes& out) {
  Inverse r;
  inverse(z, r);
  DW_EACH out.re[k] = sign1(r.alpha[k], z.re[k]);
  DW_EACH out.im[k] = sign1(r.beta[k], z.im[k]);
}
void acos(const Planes& z, Planes& out) {
  Inverse r;
  inverse(z, r);
  DW_EACH out.re[k] = r.kappa[k];
  DW_EACH out.im[k] = -sign1(r.beta[k], z.im[k]);
}
void acosh(const Planes& z, Planes& out) {
  Inverse r;
  inverse(z, r);
  DW_EACH out.re[k] = r.beta[k];
  DW_EACH out.im[k] = sign1(r.kappa[k], z.im[k]);
}
// ¼·log1p(4x / ((1 − x)² + y²)) + i·½·atan2(2y, (1 − x)(1 + x) − y²)
void atanh(const Planes& z, Planes& out) {
  Plane x, y, h, re, im, at_one, ratio;
  DW_EACH x[k] = size1(z.re[k]);
  DW_EACH y[k] = size1(z.im[k]);
  DW_EACH h[k] = (4.0 * x[k]) / fma1(y[k], y[k], (1.0 - x[k]) * (1.0 - x[k]));
  real<droveway::op_log1p>(h, re);
  DW_EACH h[k] = __builtin_sqrt(fma1(y[k], y[k], 4.0)) / y[k];
  real<droveway::op_log>(h, at_one);
  real<droveway::op_hypot>(x, y, h);
  DW_EACH ratio[k] = (x[k] / h[k]) / h[k];
  DW_EACH h[k] = fma1(-y[k], y[k], (1.0 - x[k]) * (1.0 + x[k]));
  Plane twice;
  DW_EACH twice[k] = y[k] + y[k];
  real<droveway::op_atan2>(twice, h, im);
  DW_EACH {
    const bool apart = x[k] > 0x1p500 || y[k] > 0x1p500, any_inf = is_inf1(x[k]) || is_inf1(y[k]);
    const bool none = is_nan1(x[k]) || is_nan1(y[k]);
    const double value = apart ? ratio[k] : x[k] == 1.0 ? 0.5 * at_one[k] : 0.25 * re[k];
    re[k] = any_inf || (none && x[k] == 0.0) ? 0.0 : none ? kNan : value;
    im[k] = is_inf1(y[k]) ? kHalfPi : none ? kNan : apart ? kHalfPi : 0.5 * im[k];
  }
  DW_EACH out.re[k] = sign1(re[k], z.re[k]);
  DW_EACH out.im[k] = sign1(im[k], z.im[k]);
}

// f(i·z) turned back: sin z = −i·sinh(i·z), and so on.
template <void (*F)(const Planes&, Planes&)>
void turned(const Planes& z, Planes& out) {
  Planes w, v;
  DW_EACH w.re[k] = -z.im[k];
  DW_EACH w.im[k] = z.re[k];
  F(w, v);
  DW_EACH out.re[k] = v.im[k];
  DW_EACH out.im[k] = -v.re[k];
}
void cos(const Planes& z, Planes& out) {
  Planes w;
  DW_EACH w.re[k] = -z.im[k];
  DW_EACH w.im[k] = z.re[k];
  cosh(w, out);
}
// asinh z = i·asin(−i·z)
void asinh(const Planes& z, Planes& out) {
  Planes w, v;
  DW_EACH w.re[k] = z.im[k];
  DW_EACH w.im[k] = -z.re[k];
  asin(w, v);
  DW_EACH out.re[k] = -v.im[k];
  DW_EACH out.im[k] = v.re[k];
}

// Whole powers up to 64 by products, the others as e^(w·log z). 0 to a power of positive real part is 0.
void pow(const Planes& z, const Planes& w, Planes& out) {
  Planes power, general, factor = z;
  Plane whole, rest;
  log(z, general);
  DW_EACH power.re[k] = w.re[k] * general.re[k] - w.im[k] * general.im[k];
  DW_EACH power.im[k] = w.re[k] * general.im[k] + w.im[k] * general.re[k];
  exp(power, general);
  DW_EACH {
    const double n = size1(w.re[k]);
    whole[k] = w.im[k] == 0.0 && n <= 64.0 && (n + 0x1p52) - 0x1p52 == n ? 1.0 : 0.0;
    rest[k] = whole[k] != 0.0 ? n : 0.0;
  }
  DW_EACH power.re[k] = 1.0;
  DW_EACH power.im[k] = 0.0;
  for (int step = 0; step < 7; ++step) {
    Planes next;
    Plane odd;
    DW_EACH odd[k] = (uint64_t(rest[k]) >> step & 1) != 0 ? 1.0 : 0.0;
    product(power, factor, next);
    DW_EACH power.re[k] = odd[k] != 0.0 ? next.re[k] : power.re[k];
    DW_EACH power.im[k] = odd[k] != 0.0 ? next.im[k] : power.im[k];
    product(factor, factor, next);
    factor = next;
  }
  // 1 / power (Smith 1962)
  Planes inverse;
  DW_EACH {
    const double c = power.re[k], d = power.im[k];
    const bool flat = size1(c) >= size1(d), zero = c == 0.0 && d == 0.0;
    const double large = flat ? c : d, small = flat ? d : c, ratio = small / large;
    const double scale = 1.0 / (large + small * ratio);
    inverse.re[k] = zero ? 1.0 / size1(c) : (flat ? 1.0 : ratio) * scale;
    inverse.im[k] = zero ? kNan : (flat ? -ratio : -1.0) * scale;
  }
  DW_EACH {
    const bool falls = w.re[k] < 0.0, zero = z.re[k] == 0.0 && z.im[k] == 0.0;
    const double p = falls ? inverse.re[k] : power.re[k], q = falls ? inverse.im[k] : power.im[k];
    const double re = zero ? (w.re[k] > 0.0 ? 0.0 : kNan) : general.re[k];
    const double im = zero ? (w.re[k] > 0.0 ? 0.0 : kNan) : general.im[k];
    rest[k] = whole[k] != 0.0 ? p : re;
    whole[k] = whole[k] != 0.0 ? q : im;
  }
  DW_EACH out.re[k] = rest[k];
  DW_EACH out.im[k] = whole[k];
}

// The rest of the last block is filled with 1.
template <class T>
void read(const void* data, size_t start, size_t n, Planes& z) {
  const T* x = static_cast<const T*>(data) + 2 * start;
  for (size_t k = 0; k < kPlane; ++k) {
    z.re[k] = k < n ? double(x[2 * k]) : 1.0;
    z.im[k] = k < n ? double(x[2 * k + 1]) : 1.0;
  }
}
template <class T>
void write(const Planes& z, void* data, size_t start, size_t n) {
  T* x = static_cast<T*>(data) + 2 * start;
  for (size_t k = 0; k < n; ++k) {
    x[2 * k] = canonical(T(z.re[k]));
    x[2 * k + 1] = canonical(T(z.im[k]));
  }
}
template <class T, void (*F)(const Planes&, Planes&)>
void unary_planes(const Strip& s) {
  FpGuard guard;
  Planes z, out;
  for (size_t i = 0; i < s.n; i += kPlane) {
    const size_t n = s.n - i < kPlane ? s.n - i : kPlane;
    read<T>(s.in[0], i, n, z);
    F(z, out);
    write<T>(out, s.out, i, n);
  }
}
template <class T, void (*F)(const Planes&, const Planes&, Planes&)>
void binary_planes(const Strip& s) {
  FpGuard guard;
  Planes z, w, out;
  for (size_t i = 0; i < s.n; i += kPlane) {
    const size_t n = s.n - i < kPlane ? s.n - i : kPlane;
    read<T>(s.in[0], i, n, z);
    read<T>(s.in[1], i, n, w);
    F(z, w, out);
    write<T>(out, s.out, i, n);
  }
}

template <class T>
ElementwiseLoop special_complex(int op) {
  switch (op) {
    case droveway::op_exp: return unary_planes<T, exp>;
    case droveway::op_expm1: return unary_planes<T, expm1>;
    case droveway::op_log: return unary_planes<T, log>;
    case droveway::op_log1p: return unary_planes<T, log1p>;
    case droveway::op_log2: return unary_planes<T, log2>;
    case droveway::op_log10: return unary_planes<T, log10>;
    case droveway::op_sqrt: return unary_planes<T, sqrt>;
    case droveway::op_sin: return unary_planes<T, turned<sinh>>;
    case droveway::op_cos: return unary_planes<T, cos>;
    case droveway::op_tan: return unary_planes<T, turned<tanh>>;
    case droveway::op_sinh: return unary_planes<T, sinh>;
    case droveway::op_cosh: return unary_planes<T, cosh>;
    case droveway::op_tanh: return unary_planes<T, tanh>;
    case droveway::op_asin: return unary_planes<T, asin>;
    case droveway::op_acos: return unary_planes<T, acos>;
    case droveway::op_atan: return unary_planes<T, turned<atanh>>;
    case droveway::op_asinh: return unary_planes<T, asinh>;
    case droveway::op_acosh: return unary_planes<T, acosh>;
    case droveway::op_atanh: return unary_planes<T, atanh>;
    case droveway::op_pow: return binary_planes<T, pow>;
    default: return nullptr;
  }
}

}  // namespace

ElementwiseLoop special_c64(int op) { return special_complex<float>(op); }
ElementwiseLoop special_c128(int op) { return special_complex<double>(op); }

}  // namespace DW_ISA
