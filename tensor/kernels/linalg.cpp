// Decompositions of batches of matrices: everything in f64, one rounding at the end, threads over the batch only.
#include "linalg.hpp"

#include "droveway/fpenv.hpp"
#include "droveway/parallel.hpp"
#include "linalg_factor.hpp"
#include "linalg_jacobi.hpp"

namespace DW_ISA {
namespace {

using droveway::Dtype;
using droveway::LinalgCall;
using droveway::LinalgOp;
using droveway::View;
using namespace linalg;

constexpr size_t kBlocksMax = 16;  // blocks of the batch; each has a workspace of its own

int cores(LinalgOp op, bool out, int i) {  // dimensions of a view that belong to one matrix
  if (!out) return 2;
  switch (op) {
    case LinalgOp::lu: return i == 0 ? 2 : 1;
    case LinalgOp::det:
    case LinalgOp::slogdet: return 0;
    case LinalgOp::eigh: return i == 0 ? 1 : 2;
    case LinalgOp::svd: return i == 1 ? 1 : 2;
    default: return 2;
  }
}

struct Size {
  size_t m, n, k, batch;
};

Size size_of(const LinalgCall& call) {
  const View& x = call.in[0];
  Size s{size_t(x.shape[x.ndim - 2]), size_t(x.shape[x.ndim - 1]), 0, 1};
  for (int d = 0; d < x.ndim - 2; ++d) s.batch *= size_t(x.shape[d]);
  if (call.op == LinalgOp::solve || call.op == LinalgOp::tri_solve) s.k = size_t(call.in[1].shape[x.ndim - 1]);
  if (call.op == LinalgOp::inv) s.k = s.n;
  return s;
}

// The place of matrix (or vector, or number) `index` of a view.
Place place_of(const View& v, int core, size_t index) {
  ptrdiff_t offset = 0;
  for (int d = v.ndim - core - 1; d >= 0; --d) {
    offset += ptrdiff_t(index % size_t(v.shape[d])) * v.strides[d];
    index /= size_t(v.shape[d]);
  }
  Place p;
  p.data = v.data + offset * ptrdiff_t(dtype_size(v.dtype));
  p.f64 = v.dtype == Dtype::f64 || v.dtype == Dtype::c128;
  p.row = core == 2 ? v.strides[v.ndim - 2] : 0;
  p.column = core >= 1 ? v.strides[v.ndim - 1] : 0;
  return p;
}

template <bool C>
size_t doubles_for(const LinalgCall& call, const Size& s) {
  const size_t matrix = doubles_of<C>(s.m, s.n), rows = padded(s.m);
  const size_t low = s.m < s.n ? s.m : s.n, high = s.m < s.n ? s.n : s.m;
  switch (call.op) {
    case LinalgOp::cholesky: return matrix + doubles_of<C>(1, s.n);
    case LinalgOp::lu:
    case LinalgOp::det:
    case LinalgOp::slogdet: return matrix + doubles_of<C>(1, s.n) + rows;
    case LinalgOp::solve:
    case LinalgOp::inv: return matrix + doubles_of<C>(1, s.n) + rows + doubles_of<C>(s.n, s.k);
    case LinalgOp::tri_solve: return matrix + doubles_of<C>(s.n, s.k);
    case LinalgOp::qr: {
      const size_t k = call.full ? s.m : low;
      return matrix + doubles_of<C>(s.m, k) + doubles_of<C>(low, s.m) + doubles_of<C>(1, low) + doubles_of<C>(1, high);
    }
    case LinalgOp::eigh: return doubles_for_eigh<C>(s.n) + 2 * padded(s.n);
    case LinalgOp::svd: return SvdSpace<C>::doubles(high, low, call.full ? high : low);
  }
  return 0;
}

template <bool C>
int32_t run_one(const LinalgCall& call, const Size& s, size_t index, Taker take) {
  const auto in = [&](int i) { return place_of(call.in[i], cores(call.op, false, i), index); };
  const auto out = [&](int i) { return place_of(call.out[i], cores(call.op, true, i), index); };
  switch (call.op) {
    case LinalgOp::cholesky: {
      const Matrix<C> a = take.matrix<C>(s.n, s.n);
      read_all<C>(in(0), a, s.n, s.n);
      for (size_t i = 0; i < s.n; ++i) {
        for (size_t j = 0; j <= i; ++j) {
          const Number x = a.get(i, j), y = a.get(j, i);
          a.put(i, j, {0.5 * (x.re + y.re), C ? 0.5 * (x.im - y.im) : 0.0});
        }
      }
      const int32_t status = cholesky<C>(a, s.n, take.vector<C>(s.n));
      if (status == 0) write_all<C>(out(0), a, s.n, s.n);
      return status;
    }
    case LinalgOp::lu:
    case LinalgOp::det:
    case LinalgOp::slogdet: {
      const Matrix<C> a = take.matrix<C>(s.m, s.n);
      const Row spare = take.vector<C>(s.n);
      int64_t* rows = reinterpret_cast<int64_t*>(take.doubles(s.m));
      read_all<C>(in(0), a, s.m, s.n);
      const bool odd = lu<C>(a, s.m, s.n, rows, spare);
      if (call.op == LinalgOp::lu) {
        write_all<C>(out(0), a, s.m, s.n);
        const Place p = out(1);
        for (size_t i = 0; i < s.m; ++i) reinterpret_cast<int64_t*>(p.data)[ptrdiff_t(i) * p.column] = rows[i];
      } else if (call.op == LinalgOp::det) {
        write<C>(out(0), 0, 0, diagonal_product<C>(a, s.n, odd));
      } else {
        double log_size;
        write<C>(out(0), 0, 0, sign_and_log<C>(a, s.n, odd, &log_size));
        write<false>(out(1), 0, 0, {log_size, 0.0});
      }
      return 0;
    }
    case LinalgOp::solve:
    case LinalgOp::inv: {
      const Matrix<C> a = take.matrix<C>(s.n, s.n);
      const Row spare = take.vector<C>(s.n);
      int64_t* rows = reinterpret_cast<int64_t*>(take.doubles(s.n));
      const Matrix<C> b = take.matrix<C>(s.n, s.k);
      read_all<C>(in(0), a, s.n, s.n);
      lu<C>(a, s.n, s.n, rows, spare);
      const int32_t zero = zero_on_diagonal<C>(a, s.n);
      if (zero != 0) return zero;
      for (size_t i = 0; i < s.n; ++i) {
        if (call.op == LinalgOp::inv) {
          clear<C>(b.row(i), s.k);
          b.put(i, size_t(rows[i]), {1.0, 0.0});
        } else {
          for (size_t j = 0; j < s.k; ++j) b.put(i, j, read<C>(in(1), size_t(rows[i]), j));
        }
      }
      forward<C>(a, s.n, b, s.k, true);
      backward<C>(a, s.n, b, s.k, false);
      write_all<C>(out(0), b, s.n, s.k);
      return 0;
    }
    case LinalgOp::tri_solve: {
      const Matrix<C> a = take.matrix<C>(s.n, s.n), b = take.matrix<C>(s.n, s.k);
      read_all<C>(in(0), a, s.n, s.n);
      const int32_t zero = call.unit ? 0 : zero_on_diagonal<C>(a, s.n);
      if (zero != 0) return zero;
      read_all<C>(in(1), b, s.n, s.k);
      if (call.lower) forward<C>(a, s.n, b, s.k, call.unit);
      else backward<C>(a, s.n, b, s.k, call.unit);
      write_all<C>(out(0), b, s.n, s.k);
      return 0;
    }
    case LinalgOp::qr: {
      const size_t low = s.m < s.n ? s.m : s.n, k = call.full ? s.m : low;
      const Matrix<C> a = take.matrix<C>(s.m, s.n), q = take.matrix<C>(s.m, k), vs = take.matrix<C>(low, s.m);
      const Row taus = take.vector<C>(low), w = take.vector<C>(s.m < s.n ? s.n : s.m);
      read_all<C>(in(0), a, s.m, s.n);
      const double factor = power_of_2_below(largest<C>(a, s.m, s.n));
      for (size_t i = 0; i < s.m; ++i) scale<C>(a.row(i), factor, s.n);
      householder<C>(a, s.m, s.n, q, k, vs, taus, w);
      for (size_t i = 0; i < low; ++i) scale<C>(a.row(i), 1 / factor, s.n);
      for (size_t i = low; i < k; ++i) clear<C>(a.row(i), s.n);
      write_all<C>(out(0), q, s.m, k);
      write_all<C>(out(1), a, k, s.n);
      return 0;
    }
    case LinalgOp::eigh: {
      const size_t even = s.n + s.n % 2;
      const Matrix<C> a = take.matrix<C>(even + 1, even), v = take.matrix<C>(even, s.n);
      double* values = take.doubles(s.n);
      uint32_t* order = reinterpret_cast<uint32_t*>(take.doubles(s.n));
      read_all<C>(in(0), a, s.n, s.n);
      const double asymmetry_max = !call.full ? __builtin_inf() : in(0).f64 ? 0x1p-40 : 0x1p-16;
      const int32_t status = eigh<C>(a, s.n, v, asymmetry_max, take, values, order);
      if (status != 0) return status;
      const Place w = out(0), columns = out(1);
      for (size_t k = 0; k < s.n; ++k) {
        write<false>(w, 0, k, {values[k], 0.0});
        for (size_t i = 0; i < s.n; ++i) write<C>(columns, i, k, v.get(order[k], i));
      }
      return 0;
    }
    case LinalgOp::svd: {
      const bool wide = s.m < s.n;
      const size_t m = wide ? s.n : s.m, n = wide ? s.m : s.n, columns = call.full ? m : n;
      SvdSpace<C> space(take, m, n, columns);
      Place x = in(0), u = out(wide ? 2 : 0), vh = out(wide ? 0 : 2);
      if (wide) {  // the adjoint
        Place* const places[] = {&x, &u, &vh};
        for (Place* p : places) {
          const ptrdiff_t row = p->row;
          p->row = p->column;
          p->column = row;
        }
      }
      read_all<C>(x, space.a, m, n);
      if (C && wide)
        for (size_t i = 0; i < m; ++i)
          for (size_t j = 0; j < n; ++j) space.a.row(i).im[j] = -space.a.row(i).im[j];
      if (!finite<C>(space.a, m, n)) return kNotFinite;
      const double factor = power_of_2_below(largest<C>(space.a, m, n));
      for (size_t i = 0; i < m; ++i) scale<C>(space.a.row(i), factor, n);
      const int32_t status = svd_tall<C>(space, m, n, columns);
      if (status != 0) return status;
      const double sign = wide ? -1.0 : 1.0;
      for (size_t i = 0; i < m; ++i)
        for (size_t j = 0; j < columns; ++j) {
          const Number v = space.q.get(i, j);
          write<C>(u, i, j, {v.re, v.im * sign});
        }
      const Place values = out(1);
      for (size_t i = 0; i < n; ++i) {
        write<false>(values, 0, i, {space.sizes[space.order[i]] / factor, 0.0});
        for (size_t j = 0; j < n; ++j) {
          const Number v = space.left.get(i, j);
          write<C>(vh, i, j, {v.re, v.im * sign});
        }
      }
      return 0;
    }
  }
  return 0;
}

bool is_complex(const LinalgCall& call) { return droveway::is_complex(call.in[0].dtype); }

size_t doubles_each(const LinalgCall& call, const Size& s) {
  return is_complex(call) ? doubles_for<true>(call, s) : doubles_for<false>(call, s);
}

struct Batch {
  const LinalgCall* call;
  Size size;
  size_t blocks, doubles;
  double* workspace;
};

void run_block(void* context, size_t block) {
  FpGuard guard;
  const Batch& b = *static_cast<const Batch*>(context);
  const Taker take{b.workspace + block * b.doubles};
  const size_t first = b.size.batch * block / b.blocks, last = b.size.batch * (block + 1) / b.blocks;
  for (size_t i = first; i < last; ++i)
    b.call->status[i] = is_complex(*b.call) ? run_one<true>(*b.call, b.size, i, take) : run_one<false>(*b.call, b.size, i, take);
}

size_t blocks_of(const Size& s) { return s.batch < kBlocksMax ? s.batch : kBlocksMax; }

size_t workspace(const LinalgCall& call) {
  const Size s = size_of(call);
  return blocks_of(s) * doubles_each(call, s) * sizeof(double);
}

void run(const LinalgCall& call, void* space) {
  const Size s = size_of(call);
  Batch batch{&call, s, blocks_of(s), doubles_each(call, s), static_cast<double*>(space)};
  dw_parallel(batch.blocks, run_block, &batch);
}

}  // namespace

const droveway::LinalgKernels linalg_kernels = {workspace, run};

}  // namespace DW_ISA
