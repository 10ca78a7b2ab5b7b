// The discrete Fourier transform of any length: Stockham passes of radix 4, 2, 3, 5, 7, 11, 13, and Bluestein's chirp for
// lengths with other factors. Everything in f64; one rounding at the end. Short transforms run eight at a time, side by
// side: each element sees the same operations, so the bits are those of one alone. Twin: tensor/twins/fft_ref.py.
#include "fft.hpp"

#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "kernels.hpp"
#include "twiddles.hpp"

namespace DW_ISA {
namespace {

using droveway::Dtype;
using droveway::FftCall;
using droveway::FftOp;
using droveway::View;

constexpr size_t kTogether = 8;           // short transforms run side by side
constexpr size_t kShort = 4096;           // up to this length (of Bluestein: its power of two)
constexpr size_t kBlocksMax = 16;         // blocks of the batch, each with a workspace of its own
constexpr size_t kWorkspaceMax = 4 << 20; // bytes that more than one block may take
constexpr int kPassesMax = 64;

constexpr size_t padded(size_t n) { return (n + 7) & ~size_t{7}; }

struct Planes {
  double *re, *im;
};

struct Plan {
  size_t n;          // of the transform
  size_t size;       // of the passes: n, or Bluestein's power of two
  bool chirp;
  int passes;
  uint8_t radix[kPassesMax];
};

Plan plan_of(size_t n) {
  Plan p{n, n, false, 0, {}};
  const auto split = [&p](size_t rest) {
    constexpr uint8_t radices[7] = {4, 2, 3, 5, 7, 11, 13};
    p.passes = 0;
    for (uint8_t radix : radices)
      for (; rest % radix == 0; rest /= radix) p.radix[p.passes++] = radix;
    return rest == 1;
  };
  if (!split(n)) {
    p.chirp = true;
    p.size = 1;
    while (p.size < 2 * n - 1) p.size *= 2;
    split(p.size);
  }
  return p;
}

DW_INLINE void product(double ar, double ai, double br, double bi, double* re, double* im) {
  *re = fma1(ar, br, -(ai * bi));
  *im = fma1(ar, bi, ai * br);
}

// One pass: y[k + s·(p·q + j)] = root^(q·j·s) · the transform of x[k + s·(q + i·m)] over i, for k < s·w, q < m; `w`
// transforms lie side by side.
template <int P>
void pass(Planes x, Planes y, size_t n, size_t m, size_t s, size_t w, Planes root) {
  const size_t run = s * w, half = (P - 1) / 2;
  double c[P][P] = {}, sine[P][P] = {};
  if constexpr (P > 4 || P == 3) {
    for (size_t k = 1; k <= half; ++k) {
      for (size_t j = 1; j <= half; ++j) {
        const size_t at = j * k % P * (n / P);
        c[k][j] = root.re[at];
        sine[k][j] = -root.im[at];
      }
    }
  }
  for (size_t q = 0; q < m; ++q) {
    double tr[P], ti[P];
    for (int j = 1; j < P; ++j) {
      tr[j] = root.re[q * size_t(j) * s];
      ti[j] = root.im[q * size_t(j) * s];
    }
    const double* __restrict xr = x.re + run * q;
    const double* __restrict xi = x.im + run * q;
    double* __restrict yr = y.re + run * q * P;
    double* __restrict yi = y.im + run * q * P;
    const size_t in = run * m, out = run;
    for (size_t k = 0; k < run; ++k) {
      if constexpr (P == 2) {
        const double ar = xr[k], ai = xi[k], br = xr[k + in], bi = xi[k + in];
        yr[k] = ar + br;
        yi[k] = ai + bi;
        product(ar - br, ai - bi, tr[1], ti[1], &yr[k + out], &yi[k + out]);
      } else if constexpr (P == 4) {
        const double ar = xr[k], ai = xi[k], br = xr[k + in], bi = xi[k + in];
        const double cr = xr[k + 2 * in], ci = xi[k + 2 * in], dr = xr[k + 3 * in], di = xi[k + 3 * in];
        const double sr = ar + cr, si = ai + ci, dr1 = ar - cr, di1 = ai - ci;
        const double ur = br + dr, ui = bi + di, vr = bi - di, vi = dr - br;
        yr[k] = sr + ur;
        yi[k] = si + ui;
        product(dr1 + vr, di1 + vi, tr[1], ti[1], &yr[k + out], &yi[k + out]);
        product(sr - ur, si - ui, tr[2], ti[2], &yr[k + 2 * out], &yi[k + 2 * out]);
        product(dr1 - vr, di1 - vi, tr[3], ti[3], &yr[k + 3 * out], &yi[k + 3 * out]);
      } else {
        double ur[P], ui[P], vr[P], vi[P];  // sums and differences of elements j and P − j
        const double ar = xr[k], ai = xi[k];
        double first_r = ar, first_i = ai;
        for (size_t j = 1; j <= half; ++j) {
          const double br = xr[k + j * in], bi = xi[k + j * in];
          const double cr = xr[k + (P - j) * in], ci = xi[k + (P - j) * in];
          ur[j] = br + cr;
          ui[j] = bi + ci;
          vr[j] = br - cr;
          vi[j] = bi - ci;
          first_r = first_r + ur[j];
          first_i = first_i + ui[j];
        }
        yr[k] = first_r;
        yi[k] = first_i;
        for (size_t l = 1; l <= half; ++l) {
          double er = ar, ei = ai, fr = 0, fi = 0;
          for (size_t j = 1; j <= half; ++j) {
            er = fma1(c[l][j], ur[j], er);
            ei = fma1(c[l][j], ui[j], ei);
            fr = fma1(sine[l][j], vr[j], fr);
            fi = fma1(sine[l][j], vi[j], fi);
          }
          product(er + fi, ei - fr, tr[l], ti[l], &yr[k + l * out], &yi[k + l * out]);
          product(er - fi, ei + fr, tr[P - l], ti[P - l], &yr[k + (P - l) * out], &yi[k + (P - l) * out]);
        }
      }
    }
  }
}

// The transform of w times `size` numbers in x; the answer lies in the planes that are returned, x or y.
Planes passes(const Plan& plan, Planes x, Planes y, size_t w, Planes root) {
  size_t length = plan.size, s = 1;
  for (int i = 0; i < plan.passes; ++i) {
    const int p = plan.radix[i];
    const size_t m = length / size_t(p);
    switch (p) {
      case 2: pass<2>(x, y, plan.size, m, s, w, root); break;
      case 3: pass<3>(x, y, plan.size, m, s, w, root); break;
      case 4: pass<4>(x, y, plan.size, m, s, w, root); break;
      case 5: pass<5>(x, y, plan.size, m, s, w, root); break;
      case 7: pass<7>(x, y, plan.size, m, s, w, root); break;
      case 11: pass<11>(x, y, plan.size, m, s, w, root); break;
      default: pass<13>(x, y, plan.size, m, s, w, root); break;
    }
    const Planes old = x;
    x = y;
    y = old;
    length = m;
    s *= size_t(p);
  }
  return x;
}

// What all blocks share, made once a call.
struct Tables {
  Planes root;      // of size
  Planes chirp;     // n
  Planes spectrum;  // of the conjugate chirp, size
};

// x[n] (w side by side) becomes its transform, somewhere in x or y; both have room for size · w numbers.
Planes transform(const Plan& plan, const Tables& t, Planes x, Planes y, size_t w) {
  if (!plan.chirp) return passes(plan, x, y, w, t.root);
  for (size_t k = 0; k < plan.n; ++k)
    for (size_t i = k * w; i < (k + 1) * w; ++i)
      product(x.re[i], x.im[i], t.chirp.re[k], t.chirp.im[k], &x.re[i], &x.im[i]);
  memset(x.re + plan.n * w, 0, (plan.size - plan.n) * w * sizeof(double));
  memset(x.im + plan.n * w, 0, (plan.size - plan.n) * w * sizeof(double));
  const Planes a = passes(plan, x, y, w, t.root);
  for (size_t k = 0; k < plan.size; ++k)
    for (size_t i = k * w; i < (k + 1) * w; ++i)
      product(a.re[i], a.im[i], t.spectrum.re[k], t.spectrum.im[k], &a.re[i], &a.im[i]);
  // the inverse, by exchanging the parts
  const Planes other = a.re == x.re ? y : x;
  const Planes back = passes(plan, {a.im, a.re}, {other.im, other.re}, w, t.root);
  const double scale = 1.0 / double(plan.size);
  for (size_t k = 0; k < plan.n; ++k)
    for (size_t i = k * w; i < (k + 1) * w; ++i)
      product(back.im[i] * scale, back.re[i] * scale, t.chirp.re[k], t.chirp.im[k], &back.im[i], &back.re[i]);
  return {back.im, back.re};
}

void make_tables(const Plan& plan, const Tables& t, Planes x, Planes y) {
  twiddles(plan.size, t.root.re, t.root.im, x.re);
  if (!plan.chirp) return;
  // the chirp exp(−πi·k²/n) is a root of order 2n; x and y together hold these roots and the scratch
  const size_t n = plan.n;
  double *re = y.re, *im = y.im;
  twiddles(2 * n, re, im, x.re);
  size_t at = 0;  // k² mod 2n
  for (size_t k = 0; k < n; ++k) {
    t.chirp.re[k] = re[at];
    t.chirp.im[k] = im[at];
    at = (at + 2 * k + 1) % (2 * n);
  }
  memset(x.re, 0, plan.size * sizeof(double));
  memset(x.im, 0, plan.size * sizeof(double));
  for (size_t k = 0; k < n; ++k) {
    x.re[k] = t.chirp.re[k];
    x.im[k] = -t.chirp.im[k];
    if (k == 0) continue;
    x.re[plan.size - k] = x.re[k];
    x.im[plan.size - k] = x.im[k];
  }
  const Planes b = passes(plan, x, y, 1, t.root);
  memcpy(t.spectrum.re, b.re, plan.size * sizeof(double));
  memcpy(t.spectrum.im, b.im, plan.size * sizeof(double));
}

struct Layout {
  Plan plan;
  size_t batch, together, groups, blocks;
  size_t shared, each;  // doubles
  size_t plane;         // doubles of a plane of a block
};

Layout layout_of(const FftCall& call) {
  Layout l{};
  l.plan = plan_of(call.n);
  l.batch = 1;
  for (int d = 0; d + 1 < call.in.ndim; ++d) l.batch *= size_t(call.in.shape[d]);
  l.together = l.plan.size <= kShort && l.batch >= kTogether ? kTogether : 1;
  l.groups = (l.batch + l.together - 1) / l.together;
  size_t plane = l.plan.size * l.together;
  const size_t most = l.plan.chirp ? 2 * call.n : l.plan.size;  // roots that make_tables works out in a block's planes
  if (plane < most) plane = most;
  if (2 * plane < twiddle_scratch(most)) plane = (twiddle_scratch(most) + 1) / 2;
  l.plane = padded(plane);
  l.each = 4 * l.plane;
  l.shared = 2 * padded(l.plan.size);
  if (l.plan.chirp) l.shared += 2 * padded(call.n) + 2 * padded(l.plan.size);
  const size_t fit = kWorkspaceMax / (l.each * sizeof(double));
  l.blocks = fit < 1 ? 1 : fit < kBlocksMax ? fit : kBlocksMax;
  if (l.blocks > l.groups) l.blocks = l.groups;
  return l;
}

struct Rows {
  const FftCall* call;
  Layout layout;
  Tables tables;
  double* space;
};

ptrdiff_t row_offset(const View& v, size_t index) {
  ptrdiff_t offset = 0;
  for (int d = v.ndim - 2; d >= 0; --d) {
    offset += ptrdiff_t(index % size_t(v.shape[d])) * v.strides[d];
    index /= size_t(v.shape[d]);
  }
  return offset;
}

template <class T>
void read_row(const FftCall& call, size_t row, Planes x, size_t lane, size_t w) {
  const ptrdiff_t step = call.in.strides[call.in.ndim - 1];
  const bool real = call.op == FftOp::real_to_complex;
  const T* p = reinterpret_cast<const T*>(call.in.data) + row_offset(call.in, row) * (real ? 1 : 2);
  const size_t n = call.n, given = call.op == FftOp::complex_to_real ? n / 2 + 1 : n;
  for (size_t k = 0; k < given; ++k) {
    const T* element = p + ptrdiff_t(k) * step * (real ? 1 : 2);
    x.re[k * w + lane] = double(element[0]);
    x.im[k * w + lane] = real ? 0.0 : double(element[1]);
  }
  if (call.op != FftOp::complex_to_real) return;
  x.im[lane] = 0.0;
  if (n % 2 == 0) x.im[n / 2 * w + lane] = 0.0;
  for (size_t k = n / 2 + 1; k < n; ++k) {
    const T* element = p + ptrdiff_t(n - k) * step * 2;
    x.re[k * w + lane] = double(element[0]);
    x.im[k * w + lane] = -double(element[1]);
  }
}

template <class T>
void write_row(const FftCall& call, size_t row, Planes x, size_t lane, size_t w, double divisor) {
  const ptrdiff_t step = call.out.strides[call.out.ndim - 1];
  const bool real = call.op == FftOp::complex_to_real;
  T* p = reinterpret_cast<T*>(call.out.data) + row_offset(call.out, row) * (real ? 1 : 2);
  const size_t count = call.op == FftOp::real_to_complex ? call.n / 2 + 1 : call.n;
  for (size_t k = 0; k < count; ++k) {
    T* element = p + ptrdiff_t(k) * step * (real ? 1 : 2);
    element[0] = canonical(T(x.re[k * w + lane] / divisor));
    if (!real) element[1] = canonical(T(x.im[k * w + lane] / divisor));
  }
}

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Rows& r = *static_cast<const Rows*>(context);
  const FftCall& call = *r.call;
  const Layout& l = r.layout;
  double* space = r.space + block * l.each;
  const bool wide = call.out.dtype == Dtype::f64 || call.out.dtype == Dtype::c128;
  const bool inverse = call.op == FftOp::complex_to_real || call.inverse;
  const double n = double(call.n), divisor = call.divide == 0 ? 1.0 : call.divide == 1 ? n : __builtin_sqrt(n);
  const size_t first = l.groups * block / l.blocks, last = l.groups * (block + 1) / l.blocks;
  for (size_t group = first; group < last; ++group) {
    const Planes a{space, space + l.plane}, b{space + 2 * l.plane, space + 3 * l.plane};
    const size_t row = group * l.together, w = l.together;
    const size_t rows = row + w < l.batch ? w : l.batch - row;
    const Planes x = inverse ? Planes{a.im, a.re} : a, y = inverse ? Planes{b.im, b.re} : b;
    for (size_t lane = 0; lane < w; ++lane) {
      if (lane >= rows) {
        for (size_t k = 0; k < call.n; ++k) a.re[k * w + lane] = a.im[k * w + lane] = 0.0;
      } else if (wide) {
        read_row<double>(call, row + lane, a, lane, w);
      } else {
        read_row<float>(call, row + lane, a, lane, w);
      }
    }
    Planes done = transform(l.plan, r.tables, x, y, w);
    if (inverse) done = {done.im, done.re};
    for (size_t lane = 0; lane < rows; ++lane) {
      if (wide) write_row<double>(call, row + lane, done, lane, w, divisor);
      else write_row<float>(call, row + lane, done, lane, w, divisor);
    }
  }
}

size_t workspace(const FftCall& call) {
  const Layout l = layout_of(call);
  return (l.shared + l.blocks * l.each) * sizeof(double);
}

void run(const FftCall& call, void* space) {
  FpGuard guard;
  Rows r{&call, layout_of(call), {}, static_cast<double*>(space)};
  if (r.layout.batch == 0) return;
  const auto take = [&r](size_t n) {
    const Planes p{r.space, r.space + padded(n)};
    r.space += 2 * padded(n);
    return p;
  };
  r.tables.root = take(r.layout.plan.size);
  if (r.layout.plan.chirp) {
    r.tables.chirp = take(call.n);
    r.tables.spectrum = take(r.layout.plan.size);
  }
  const size_t plane = r.layout.plane;
  make_tables(r.layout.plan, r.tables, {r.space, r.space + plane}, {r.space + 2 * plane, r.space + 3 * plane});
  dw_parallel(r.layout.blocks, run_block, &r);
}

}  // namespace

const droveway::FftKernels fft_kernels = {workspace, run};

}  // namespace DW_ISA
