#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <new>
#include <tuple>
#include <vector>

#include "droveway/area.hpp"
#include "droveway/python_call.hpp"
#include "table.hpp"

namespace nb = nanobind;
using namespace nb::literals;
using droveway::call_kernel;
using droveway::require_aligned;
using droveway::CoordTable;
using droveway::Problem;
using droveway::Shapes;

namespace {

droveway::Area<CoordTable> area("coord", DW_TABLES(coord_table), droveway::coord_self_test);

const CoordTable& kernels() { return area.kernels(); }

template <class T> using In = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using Out = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <class T> using In2 = nb::ndarray<const T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;
template <class T> using Out2 = nb::ndarray<T, nb::ndim<2>, nb::c_contig, nb::device::cpu>;

template <class... A>
void require_all_aligned(const char* function, const A&... arrays) {
  (require_aligned(arrays, function), ...);
}
void require(bool condition, const char* sentence) {
  if (!condition) throw nb::value_error(sentence);
}

// The bytes of an array. Arguments are checked before a kernel writes its first result: an output that shared memory with
// them could change an index after its check.
struct Span {
  uintptr_t begin, end;
  template <class A>
  explicit Span(const A& array)
      : begin(reinterpret_cast<uintptr_t>(array.data())), end(begin + array.size() * sizeof(*array.data())) {}
  bool meets(const Span& other) const {
    return begin < end && other.begin < other.end && begin < other.end && other.begin < end;
  }
};
using Spans = std::vector<Span>;
void require_apart(const Spans& outputs, const Spans& inputs) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    for (const Span& input : inputs) require(!outputs[i].meets(input), "an output must not share memory with an input");
    for (size_t j = 0; j < i; ++j) require(!outputs[i].meets(outputs[j]), "outputs must not share memory");
  }
}

// Arrays taken out of tuples, held until the kernel is done: an exporter may make its memory for one request only.
struct Kept {
  std::tuple<std::vector<In<float>>, std::vector<In<uint32_t>>, std::vector<In<int32_t>>, std::vector<In<uint8_t>>> arrays;
  Spans spans;
  template <class T>
  const T* keep(const In<T>& array) {
    std::get<std::vector<In<T>>>(arrays).push_back(array);
    spans.emplace_back(array);
    return array.data();
  }
};

// Item i of a tuple of arrays, all as long as the first.
template <class T>
const T* column(Kept& kept, const nb::tuple& arrays, size_t i, size_t n, const char* name) {
  In<T> array;
  if (i >= arrays.size() || !nb::try_cast<In<T>>(arrays[i], array, false))
    throw nb::type_error((std::string(name) + ": item " + std::to_string(i) + " has the wrong type or is not contiguous").c_str());
  require_aligned(array, name);
  if (array.shape(0) != n)
    throw nb::value_error((std::string(name) + ": item " + std::to_string(i) + " must be as long as the first").c_str());
  return kept.keep(array);
}
size_t length(const nb::tuple& arrays, const char* name) {
  In<float> array;
  In<uint8_t> bytes;
  if (arrays.size() == 0) throw nb::type_error((std::string(name) + " must not be empty").c_str());
  if (nb::try_cast<In<float>>(arrays[0], array, false)) return array.shape(0);
  if (nb::try_cast<In<uint8_t>>(arrays[0], bytes, false)) return bytes.shape(0);
  throw nb::type_error((std::string(name) + ": item 0 has the wrong type or is not contiguous").c_str());
}

// (kind, x, y, half_x, half_y, reach, first, count, corners flattened)
Shapes shapes_of(Kept& kept, const nb::tuple& t) {
  Shapes s{};
  s.count = length(t, "shapes");
  s.kind = column<uint8_t>(kept, t, 0, s.count, "shapes");
  s.x = column<float>(kept, t, 1, s.count, "shapes");
  s.y = column<float>(kept, t, 2, s.count, "shapes");
  s.half_x = column<float>(kept, t, 3, s.count, "shapes");
  s.half_y = column<float>(kept, t, 4, s.count, "shapes");
  s.reach = column<float>(kept, t, 5, s.count, "shapes");
  s.first = column<uint32_t>(kept, t, 6, s.count, "shapes");
  s.corner_count = column<uint32_t>(kept, t, 7, s.count, "shapes");
  In<float> corners;
  if (t.size() != 9 || !nb::try_cast<In<float>>(t[8], corners, false))
    throw nb::type_error("shapes: item 8 must be float32, contiguous");
  require_aligned(corners, "shapes");
  s.corners = kept.keep(corners);
  for (size_t o = 0; o < s.count; ++o) {
    require(s.kind[o] <= 2, "shapes: kind must be 0, 1 or 2");
    require(s.kind[o] != 1 || (s.corner_count[o] >= 3 &&
                               2 * (uint64_t(s.first[o]) + s.corner_count[o]) <= corners.shape(0)),
            "shapes: a polygon's corners must lie in the table");
  }
  return s;
}

// Keeps the arrays of a problem and what points into them.
struct Held {
  Problem problem{};
  Shapes shapes{};
  Kept kept;
  Held(const nb::tuple& agents, const nb::tuple& zones, float w_travel, float w_switch, uint32_t max_travel, bool grid,
       const nb::object& shape_tuple) {
    Problem& p = problem;
    p.n = length(agents, "agents");
    p.m = length(zones, "zones");
    require(p.n < 0x7FFFFFFFu && p.m < 0x7FFFFFFFu, "a problem must have fewer than 2^31 agents and zones");
    p.ax = column<float>(kept, agents, 0, p.n, "agents");
    p.ay = column<float>(kept, agents, 1, p.n, "agents");
    p.az = column<float>(kept, agents, 2, p.n, "agents");
    p.speed = column<float>(kept, agents, 3, p.n, "agents");
    p.energy = column<float>(kept, agents, 4, p.n, "agents");
    p.caps = column<uint32_t>(kept, agents, 5, p.n, "agents");
    p.acomponent = column<uint32_t>(kept, agents, 6, p.n, "agents");
    p.current = column<int32_t>(kept, agents, 7, p.n, "agents");
    p.zx = column<float>(kept, zones, 0, p.m, "zones");
    p.zy = column<float>(kept, zones, 1, p.m, "zones");
    p.zz = column<float>(kept, zones, 2, p.m, "zones");
    p.radius = column<float>(kept, zones, 3, p.m, "zones");
    p.base = column<float>(kept, zones, 4, p.m, "zones");
    p.cost = column<float>(kept, zones, 5, p.m, "zones");
    p.need = column<uint32_t>(kept, zones, 6, p.m, "zones");
    p.zcomponent = column<uint32_t>(kept, zones, 7, p.m, "zones");
    p.blocked = column<uint8_t>(kept, zones, 8, p.m, "zones");
    p.w_travel = w_travel;
    p.w_switch = w_switch;
    p.max_travel = max_travel;
    p.grid = grid;
    if (!shape_tuple.is_none()) {
      shapes = shapes_of(kept, nb::cast<nb::tuple>(shape_tuple));
      p.shapes = &shapes;
    }
    for (size_t a = 0; a < p.n; ++a)
      require(p.current[a] >= -1 && p.current[a] < int64_t(p.m), "agents: current must be -1 or the index of a zone");
  }
};

// Memory that the caller lent to the kernels of this thread.
struct Lent {
  void* memory = nullptr;
  size_t bytes = 0;
};
thread_local Lent lent;

// Scratch of one kernel: what was lent, where that will do.
struct Workspace {
  void* memory;
  Lent back;
  explicit Workspace(size_t bytes) : memory(nullptr), back(lent) {
    if (bytes <= lent.bytes) {
      memory = lent.memory;
      lent = {};  // until this one is done
      return;
    }
    back = {};
    memory = ::operator new(bytes, std::align_val_t{64}, std::nothrow);
    if (memory == nullptr) throw std::bad_alloc();
  }
  ~Workspace() {
    if (back.memory != nullptr) lent = back;
    else ::operator delete(memory, std::align_val_t{64}, std::nothrow);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
};

void require_indices(const Out<int32_t>& assigned, const Problem& p) {
  require(assigned.shape(0) == p.n, "assigned must have one value for each agent");
  for (size_t a = 0; a < p.n; ++a)
    require(assigned.data()[a] >= -1 && assigned.data()[a] < int64_t(p.m), "assigned must be -1 or the index of a zone");
}

void require_rows(const int32_t* zone, const uint32_t* count, size_t n, size_t k, size_t m) {
  for (size_t a = 0; a < n; ++a) {
    require(count[a] <= k, "count must be at most k");
    for (size_t c = 0; c < count[a]; ++c)
      require(zone[a * k + c] >= 0 && size_t(zone[a * k + c]) < m, "zone must hold indices of zones");
  }
}

#define PROBLEM_ARGS                                                                                               \
  "agents"_a, "zones"_a, "w_travel"_a, "w_switch"_a, "max_travel"_a, "grid"_a, "shapes"_a.none()

void bind_planning(nb::module_& m) {
  m.def("candidates", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                         const nb::object& shapes, Out2<int32_t> zone, Out2<int32_t> score, Out<uint32_t> count) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        const size_t k = zone.shape(1);
        require(zone.shape(0) == p.n && score.shape(0) == p.n && score.shape(1) == k && count.shape(0) == p.n,
                "candidates: zone and score must be [n, k], count [n]");
        require(k <= 256, "candidates: k must be at most 256");
        require_all_aligned("candidates", zone, score, count);
        require_apart({Span(zone), Span(score), Span(count)}, held.kept.spans);
        if (p.n == 0 || k == 0) return;
        const Workspace w(kernels().plan_workspace(p.n, p.m, p.shapes == nullptr ? 0 : p.shapes->count));
        call_kernel([&] { kernels().candidates(p, k, zone.data(), score.data(), count.data(), w.memory); });
      }, PROBLEM_ARGS, "zone"_a.noconvert(), "score"_a.noconvert(), "count"_a.noconvert());
  m.def("greedy", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                     const nb::object& shapes, const nb::object& found, Out<int32_t> assigned) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        require(assigned.shape(0) == p.n, "greedy: assigned must have one value for each agent");
        require_aligned(assigned, "greedy");
        require_apart({Span(assigned)}, held.kept.spans);
        const int32_t* zone = nullptr;
        const uint32_t* count = nullptr;
        size_t k = 0;
        In2<int32_t> zones_found;
        In<uint32_t> counts;
        if (!found.is_none()) {
          const nb::tuple pair = nb::cast<nb::tuple>(found);
          if (pair.size() != 2 || !nb::try_cast<In2<int32_t>>(pair[0], zones_found, false) ||
              !nb::try_cast<In<uint32_t>>(pair[1], counts, false))
            throw nb::type_error("greedy: found must be None or (int32[n, k], uint32[n])");
          require(zones_found.shape(0) == p.n && counts.shape(0) == p.n, "greedy: found must have a row for each agent");
          require_all_aligned("greedy", zones_found, counts);
          require_apart({Span(assigned)}, {Span(zones_found), Span(counts)});
          k = zones_found.shape(1);
          require_rows(zones_found.data(), counts.data(), p.n, k, p.m);
          zone = k == 0 ? nullptr : zones_found.data();
          count = counts.data();
        }
        const Workspace w(kernels().plan_workspace(p.n, p.m, p.shapes == nullptr ? 0 : p.shapes->count));
        call_kernel([&] { kernels().greedy(p, k, zone, count, assigned.data(), w.memory); });
      }, PROBLEM_ARGS, "found"_a.none(), "assigned"_a.noconvert());
  m.def("list_scores", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                          const nb::object& shapes, In2<int32_t> zone, In<uint32_t> count, Out2<int32_t> score) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        const size_t k = zone.shape(1);
        require(zone.shape(0) == p.n && score.shape(0) == p.n && score.shape(1) == k && count.shape(0) == p.n,
                "list_scores: zone and score must be [n, k], count [n]");
        require_all_aligned("list_scores", zone, count, score);
        require_apart({Span(score)}, held.kept.spans);
        require_apart({Span(score)}, {Span(zone), Span(count)});
        require_rows(zone.data(), count.data(), p.n, k, p.m);
        call_kernel([&] { kernels().list_scores(p, k, zone.data(), count.data(), score.data()); });
      }, PROBLEM_ARGS, "zone"_a.noconvert(), "count"_a.noconvert(), "score"_a.noconvert());
  m.def("swap", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                   const nb::object& shapes, In2<int32_t> zone, In2<int32_t> score, In<uint32_t> count, uint32_t sweeps,
                   uint64_t budget, Out<int32_t> assigned) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        const size_t k = zone.shape(1);
        require(zone.shape(0) == p.n && score.shape(0) == p.n && score.shape(1) == k && count.shape(0) == p.n,
                "swap: zone and score must be [n, k], count [n]");
        require_all_aligned("swap", zone, score, count, assigned);
        require_apart({Span(assigned)}, held.kept.spans);
        require_apart({Span(assigned)}, {Span(zone), Span(score), Span(count)});
        require_rows(zone.data(), count.data(), p.n, k, p.m);
        require_indices(assigned, p);
        const Workspace w(kernels().plan_workspace(p.n, p.m, p.shapes == nullptr ? 0 : p.shapes->count));
        uint64_t tests = 0;
        uint32_t bound = 0;
        call_kernel([&] {
          tests = kernels().swap(p, k, zone.data(), score.data(), count.data(), sweeps, budget, assigned.data(), &bound, w.memory);
        });
        return nb::make_tuple(tests, bound != 0);
      }, PROBLEM_ARGS, "zone"_a.noconvert(), "score"_a.noconvert(), "count"_a.noconvert(), "sweeps"_a, "budget"_a,
      "assigned"_a.noconvert());
  m.def("auction", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                      const nb::object& shapes, size_t k, int64_t idle, uint64_t budget, bool endless,
                      Out<int32_t> assigned) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        require(assigned.shape(0) == p.n, "auction: assigned must have one value for each agent");
        require(idle >= -3 * (int64_t(1) << 31) && idle < (int64_t(1) << 31),
                "auction: idle must be from -3 * 2^31 to below 2^31");
        require_aligned(assigned, "auction");
        require_apart({Span(assigned)}, held.kept.spans);
        const Workspace w(kernels().auction_workspace(p.n, p.m, p.shapes == nullptr ? 0 : p.shapes->count));
        droveway::AuctionOutcome out{};
        call_kernel([&] { out = kernels().auction(p, {k, idle, budget, endless}, assigned.data(), w.memory); });
        return nb::make_tuple(out.worth, out.bound, out.bids, out.bound_reached != 0);
      }, PROBLEM_ARGS, "k"_a, "idle"_a, "budget"_a, "endless"_a, "assigned"_a.noconvert());
  m.def("pair_values", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                          const nb::object& shapes, Out<int32_t> assigned, Out<int32_t> score, Out<uint32_t> travel,
                          Out<uint8_t> saturated) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        require_all_aligned("pair_values", assigned, score, travel, saturated);
        require_apart({Span(score), Span(travel), Span(saturated)}, held.kept.spans);
        require_apart({Span(score), Span(travel), Span(saturated)}, {Span(assigned)});
        require_indices(assigned, p);
        require(score.shape(0) == p.n && travel.shape(0) == p.n && saturated.shape(0) == p.n,
                "pair_values: outputs must have one value for each agent");
        call_kernel([&] { kernels().pair_values(p, assigned.data(), score.data(), travel.data(), saturated.data()); });
      }, PROBLEM_ARGS, "assigned"_a.noconvert(), "score"_a.noconvert(), "travel"_a.noconvert(),
      "saturated"_a.noconvert());
  m.def("leftover_status", [](const nb::tuple& agents, const nb::tuple& zones, float wt, float ws, uint32_t mt, bool grid,
                              const nb::object& shapes, In<uint8_t> taken, Out<uint8_t> status) {
        const Held held(agents, zones, wt, ws, mt, grid, shapes);
        const Problem& p = held.problem;
        require(taken.shape(0) == p.m && status.shape(0) == p.n,
                "leftover_status: taken must be [zones], status [agents]");
        require_apart({Span(status)}, held.kept.spans);
        require_apart({Span(status)}, {Span(taken)});
        const Workspace w(kernels().plan_workspace(p.n, p.m, p.shapes == nullptr ? 0 : p.shapes->count));
        call_kernel([&] { kernels().leftover_status(p, taken.data(), status.data(), w.memory); });
      }, PROBLEM_ARGS, "taken"_a.noconvert(), "status"_a.noconvert());
}

void bind_lending(nb::module_& m) {
  m.def("scratch_bytes", [](size_t agents, size_t zones, size_t obstacles) {
        const size_t plan = kernels().plan_workspace(agents, zones, obstacles);
        const size_t auction = kernels().auction_workspace(agents, zones, obstacles);
        return plan < auction ? auction : plan;
      }, "agents"_a, "zones"_a, "obstacles"_a);
  m.def("lend", [](const nb::object& memory) {
        if (memory.is_none()) {
          lent = {};
          return;
        }
        Out<uint8_t> bytes;
        if (!nb::try_cast<Out<uint8_t>>(memory, bytes, false))
          throw nb::type_error("lend: memory must be None or uint8, contiguous and writable");
        require(reinterpret_cast<uintptr_t>(bytes.data()) % 64 == 0, "lend: memory must begin at a multiple of 64");
        lent = {bytes.data(), bytes.size()};
      }, "memory"_a.none(), "Memory for the kernels of this thread, to be kept until None is lent.");
}

void bind_zones(nb::module_& m) {
  m.def("idle_norm", [](In<uint64_t> idle, uint32_t cap, Out<float> out) {
        require(idle.shape(0) == out.shape(0), "idle_norm: idle and out must have the same length");
        require_all_aligned("idle_norm", idle, out);
        call_kernel([&] { kernels().idle_norm(idle.data(), idle.shape(0), cap, out.data()); });
      }, "idle"_a.noconvert(), "cap"_a, "out"_a.noconvert());
  m.def("zone_base", [](In<float> priority, In<float> idle, In<float> cover, In<float> avoid, In<float> weights,
                        Out<float> out) {
        const size_t n = out.shape(0);
        require(priority.shape(0) == n && idle.shape(0) == n && cover.shape(0) == n && avoid.shape(0) == n &&
                    weights.shape(0) == 4,
                "zone_base: arrays must have the same length, weights 4 values");
        require_all_aligned("zone_base", priority, idle, cover, avoid, weights, out);
        call_kernel([&] {
          kernels().zone_base(priority.data(), idle.data(), cover.data(), avoid.data(), weights.data(), n, out.data());
        });
      }, "priority"_a.noconvert(), "idle"_a.noconvert(), "cover"_a.noconvert(), "avoid"_a.noconvert(),
      "weights"_a.noconvert(), "out"_a.noconvert());
  m.def("blocked_points", [](In<float> x, In<float> y, const nb::tuple& shapes, Out<uint8_t> out) {
        Kept kept;
        const Shapes s = shapes_of(kept, shapes);
        const size_t n = out.shape(0);
        require(x.shape(0) == n && y.shape(0) == n, "blocked_points: x, y and out must have the same length");
        require_all_aligned("blocked_points", x, y, out);
        require_apart({Span(out)}, kept.spans);
        call_kernel([&] { kernels().blocked_points(x.data(), y.data(), n, s, out.data()); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "shapes"_a, "out"_a.noconvert());
  m.def("blocked_segments", [](In<float> ax, In<float> ay, In<float> bx, In<float> by, const nb::tuple& shapes,
                               Out<uint8_t> out) {
        Kept kept;
        const Shapes s = shapes_of(kept, shapes);
        const size_t n = out.shape(0);
        require(ax.shape(0) == n && ay.shape(0) == n && bx.shape(0) == n && by.shape(0) == n,
                "blocked_segments: all arrays must have the same length");
        require_all_aligned("blocked_segments", ax, ay, bx, by, out);
        require_apart({Span(out)}, kept.spans);
        const size_t index_from = 8;  // segments that pay for an index of the obstacles
        if (n < index_from || s.count < 32) {
          call_kernel([&] {
            kernels().blocked_segments(ax.data(), ay.data(), bx.data(), by.data(), n, s, nullptr, out.data());
          });
          return;
        }
        const Workspace w(kernels().ways_workspace(s.count));
        call_kernel([&] {
          kernels().blocked_segments(ax.data(), ay.data(), bx.data(), by.data(), n, s, w.memory, out.data());
        });
      }, "ax"_a.noconvert(), "ay"_a.noconvert(), "bx"_a.noconvert(), "by"_a.noconvert(), "shapes"_a,
      "out"_a.noconvert());
  m.def("grid_components", [](In2<uint8_t> blocked, Out2<uint32_t> label, Out<uint32_t> queue) {
        require(label.shape(0) == blocked.shape(0) && label.shape(1) == blocked.shape(1) &&
                    queue.shape(0) == blocked.size() && blocked.size() < 0xFFFFFFFFu,
                "grid_components: label must have the shape of blocked, queue its size");
        require_all_aligned("grid_components", blocked, label, queue);
        require_apart({Span(label), Span(queue)}, {Span(blocked)});
        call_kernel([&] {
          kernels().grid_components(blocked.data(), blocked.shape(0), blocked.shape(1), label.data(), queue.data());
        });
      }, "blocked"_a.noconvert(), "label"_a.noconvert(), "queue"_a.noconvert());
}

void bind_field(nb::module_& m) {
  m.def("gaussian_terms", [](In<float> sigma, float cutoff, Out<float> reach, Out<float> inv) {
        const size_t n = sigma.shape(0);
        require(reach.shape(0) == n && inv.shape(0) == n, "gaussian_terms: all arrays must have the same length");
        require_all_aligned("gaussian_terms", sigma, reach, inv);
        call_kernel([&] { kernels().gaussian_terms(sigma.data(), cutoff, n, reach.data(), inv.data()); });
      }, "sigma"_a.noconvert(), "cutoff"_a, "reach"_a.noconvert(), "inv"_a.noconvert());
  const auto bind = [&m](const char* name, size_t width, void (*CoordTable::*kernel)(const droveway::Field&, float*)) {
    m.def(name, [width, kernel](In<float> x, In<float> y, In<int32_t> cell, In<uint32_t> start, In<uint32_t> items,
                           In<float> kx, In<float> ky, In<float> reach, In<float> inv, In<float> weight, Out<float> out) {
        const size_t n = x.shape(0), k = kx.shape(0), cells = start.shape(0) == 0 ? 0 : start.shape(0) - 1;
        require(y.shape(0) == n && cell.shape(0) == n && out.shape(0) == width * n, "field_points: x, y, cell and out must agree");
        require(ky.shape(0) == k && reach.shape(0) == k && inv.shape(0) == k && weight.shape(0) == k,
                "field_points: kx, ky, reach, inv and weight must agree");
        require_all_aligned("field_points", x, y, cell, start, items, kx, ky, reach, inv, weight, out);
        require_apart({Span(out)}, {Span(x), Span(y), Span(cell), Span(start), Span(items), Span(kx), Span(ky), Span(reach),
                                    Span(inv), Span(weight)});
        for (size_t i = 0; i < n; ++i)
          require(cell.data()[i] >= -1 && cell.data()[i] < int64_t(cells), "field_points: cell must be -1 or a cell");
        for (size_t c = 0; c < cells; ++c)
          require(start.data()[c] <= start.data()[c + 1], "field_points: start must ascend");
        require(cells == 0 || start.data()[cells] <= items.shape(0), "field_points: start must stay within items");
        for (size_t i = 0; i < items.shape(0); ++i)
          require(items.data()[i] < k, "field_points: items must be numbers of kernels");
        const droveway::Field field{n, x.data(), y.data(), cell.data(), start.data(), items.data(), kx.data(), ky.data(),
                                    reach.data(), inv.data(), weight.data()};
        call_kernel([&] { (kernels().*kernel)(field, out.data()); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "cell"_a.noconvert(), "start"_a.noconvert(), "items"_a.noconvert(),
      "kx"_a.noconvert(), "ky"_a.noconvert(), "reach"_a.noconvert(), "inv"_a.noconvert(), "weight"_a.noconvert(),
      "out"_a.noconvert());
  };
  bind("field_points", 1, &CoordTable::field_points);
  bind("field_gradient", 2, &CoordTable::field_gradient);
  const auto by_cells = [&m](const char* name, size_t width,
                             void (*CoordTable::*kernel)(const droveway::FieldSum&, float*, void*)) {
    m.def(name, [width, kernel](In<float> x, In<float> y, In<float> kx, In<float> ky, In<float> reach, In<float> inv,
                                In<float> weight, Out<float> out) {
        const size_t n = x.shape(0), k = kx.shape(0);
        require(y.shape(0) == n && out.shape(0) == width * n && n < 0xFFFFFFFFu, "field_by_cells: x, y and out must agree");
        require(ky.shape(0) == k && reach.shape(0) == k && inv.shape(0) == k && weight.shape(0) == k && k < 0xFFFFFFFFu,
                "field_by_cells: kx, ky, reach, inv and weight must agree");
        require_all_aligned("field_by_cells", x, y, kx, ky, reach, inv, weight, out);
        require_apart({Span(out)}, {Span(x), Span(y), Span(kx), Span(ky), Span(reach), Span(inv), Span(weight)});
        const droveway::FieldSum field{n, x.data(), y.data(), k, kx.data(), ky.data(), reach.data(), inv.data(), weight.data()};
        const Workspace w(kernels().field_workspace(n, k));
        call_kernel([&] { (kernels().*kernel)(field, out.data(), w.memory); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "kx"_a.noconvert(), "ky"_a.noconvert(), "reach"_a.noconvert(),
      "inv"_a.noconvert(), "weight"_a.noconvert(), "out"_a.noconvert());
  };
  by_cells("field_by_cells", 1, &CoordTable::field_by_cells);
  by_cells("gradient_by_cells", 2, &CoordTable::gradient_by_cells);
}

void bind_frames(nb::module_& m) {
  m.def("check_frames", [](In<uint8_t> data, const nb::object& offsets, bool chained, bool known, uint64_t number,
                           Out<uint8_t> prev) {
        In<uint64_t> places;
        size_t n = data.shape(0) / 128;
        const uint64_t* at = nullptr;
        if (offsets.is_none()) {
          require(data.shape(0) % 128 == 0, "check_frames: data must be whole frames of 128 bytes");
        } else {
          if (!nb::try_cast<In<uint64_t>>(offsets, places, false))
            throw nb::type_error("check_frames: offsets must be None or uint64[n]");
          require_all_aligned("check_frames", places);
          n = places.shape(0), at = places.data();
          for (size_t i = 0; i < n; ++i)
            require(data.shape(0) >= 128 && at[i] <= data.shape(0) - 128, "check_frames: offsets must stay within data");
          require_apart({Span(prev)}, {Span(places)});
        }
        require(prev.shape(0) == 16, "check_frames: prev must be 16 bytes");
        require_apart({Span(prev)}, {Span(data)});
        uint32_t fault = 0;
        size_t first = 0;
        call_kernel([&] {
          first = kernels().check_frames(data.data(), at, n, chained, known, number, prev.data(), &fault);
        });
        return nb::make_tuple(first, fault);
      }, "data"_a.noconvert(), "offsets"_a.none(), "chained"_a, "known"_a, "number"_a, "prev"_a.noconvert());
}

void bind_motion(nb::module_& m) {
  m.def("frame_crc", [](const nb::bytes& data) {
        return kernels().frame_crc(reinterpret_cast<const uint8_t*>(data.c_str()), data.size());
      }, "data"_a, "CRC-32C of the bytes of a decision frame.");
  m.def("grid_paths", [](Out<uint32_t> seen, Out<uint8_t> entered, Out<int32_t> queue, uint32_t width, In<int32_t> start,
                         In<int32_t> goal, uint32_t generation, Out2<uint8_t> directions, Out<int32_t> length) {
        const size_t cells = seen.shape(0), n = start.shape(0);
        require(width >= 2 && cells % width == 0 && cells / width >= 2 && cells <= 0x7FFFFFFFu,
                "grid_paths: seen must be rows of width cells, border included");
        require(entered.shape(0) == cells && queue.shape(0) == cells,
                "grid_paths: entered and queue must have one entry a cell");
        require(goal.shape(0) == n && length.shape(0) == n && directions.shape(0) == n &&
                    directions.shape(1) <= 0x7FFFFFFFu,
                "grid_paths: start, goal, length and directions must have the same length");
        require(generation > 0 && uint64_t(generation) + n < 0xFFFFFFFFu, "grid_paths: generation is out of range");
        require_all_aligned("grid_paths", seen, entered, queue, start, goal, directions, length);
        require_apart({Span(seen), Span(entered), Span(queue), Span(directions), Span(length)}, {Span(start), Span(goal)});
        const size_t rows = cells / width;
        for (size_t c = 0; c < cells; ++c) {
          const bool border = c < width || c >= (rows - 1) * width || c % width == 0 || c % width == width - 1;
          require(seen.data()[c] == 0xFFFFFFFFu || (!border && seen.data()[c] < generation),
                  "grid_paths: seen must be blocked on the border and below generation elsewhere");
        }
        for (size_t i = 0; i < n; ++i)
          require(start.data()[i] >= 0 && size_t(start.data()[i]) < cells && goal.data()[i] >= 0 &&
                      size_t(goal.data()[i]) < cells,
                  "grid_paths: start and goal must be cells");
        const droveway::Ways ways{int32_t(width), int32_t(directions.shape(1)), seen.data(), entered.data(), queue.data()};
        call_kernel([&] {
          kernels().grid_paths(ways, start.data(), goal.data(), n, generation, directions.data(), length.data());
        });
      }, "seen"_a.noconvert(), "entered"_a.noconvert(), "queue"_a.noconvert(), "width"_a, "start"_a.noconvert(),
      "goal"_a.noconvert(), "generation"_a, "directions"_a.noconvert(), "length"_a.noconvert());
}

// Columns of points, z and the order or None. A kernel only counts on the order for speed, but each number must be a point.
droveway::Points points_of(Kept& kept, const In<float>& x, const In<float>& y, const nb::object& z, const nb::object& order) {
  droveway::Points p{x.shape(0), kept.keep(x), kept.keep(y), nullptr, nullptr};
  require(y.shape(0) == p.n && p.n < 0x7FFFFFFFu, "points: x and y must have the same length");
  require_all_aligned("points", x, y);
  if (!z.is_none()) {
    In<float> column;
    if (!nb::try_cast<In<float>>(z, column, false) || column.shape(0) != p.n)
      throw nb::type_error("points: z must be None or float32, one value a point");
    require_aligned(column, "points");
    p.z = kept.keep(column);
  }
  if (!order.is_none()) {
    In<uint32_t> places;
    if (!nb::try_cast<In<uint32_t>>(order, places, false) || places.shape(0) != p.n)
      throw nb::type_error("points: order must be None or uint32, one value a point");
    require_aligned(places, "points");
    std::vector<bool> seen(p.n);
    for (size_t i = 0; i < p.n; ++i) {
      const uint32_t at = places.data()[i];
      require(at < p.n && !seen[at], "points: order must hold each point once");
      seen[at] = true;
    }
    p.order = kept.keep(places);
  }
  return p;
}

// A field of records or a column; its stride is in elements.
template <class T> using Field1 = nb::ndarray<T, nb::ndim<1>, nb::device::cpu>;

template <class T>
Span reach_of(const Field1<T>& a) {
  const size_t n = a.shape(0);
  Span span(a);
  span.end = span.begin;
  if (n == 0) return span;
  const ptrdiff_t last = ptrdiff_t(n - 1) * ptrdiff_t(a.stride(0)) * ptrdiff_t(sizeof(T));
  (last < 0 ? span.begin : span.end) += uintptr_t(last);
  span.end += sizeof(T);
  return span;
}

void bind_crowd(nb::module_& m) {
  m.def("straight_steps", [](Field1<float> x, Field1<float> y, Field1<float> z, Field1<const float> speed,
                             Field1<const float> gx, Field1<const float> gy, Field1<const float> gz, const nb::object& rows,
                             const nb::object& gone, const nb::object& arrived) {
        const size_t agents = x.shape(0);
        require(y.shape(0) == agents && z.shape(0) == agents && speed.shape(0) == agents && gx.shape(0) == agents &&
                    gy.shape(0) == agents && gz.shape(0) == agents,
                "straight_steps: x, y, z, speed and the goals must have the same length");
        require_all_aligned("straight_steps", x, y, z, speed, gx, gy, gz);
        In<int64_t> some;
        const auto step = [agents](const auto& field) { return agents < 2 ? ptrdiff_t(1) : ptrdiff_t(field.stride(0)); };
        droveway::Walk walk{agents, nullptr, x.data(), y.data(), z.data(), speed.data(), gx.data(), gy.data(), gz.data(),
                            {step(x), step(y), step(z), step(speed), step(gx), step(gy), step(gz)}};
        if (!rows.is_none()) {
          if (!nb::try_cast<In<int64_t>>(rows, some, false))
            throw nb::type_error("straight_steps: rows must be None or int64[m], contiguous");
          require_aligned(some, "straight_steps");
          walk.rows = some.data();
          walk.n = some.shape(0);
          for (size_t i = 0; i < walk.n; ++i)
            require(walk.rows[i] >= 0 && uint64_t(walk.rows[i]) < agents && (i == 0 || walk.rows[i - 1] < walk.rows[i]),
                    "straight_steps: rows must be rows of the agents, ascending");
        }
        Out<float> metres;
        Out<int64_t> there;
        Spans outputs;
        if (!gone.is_none()) {
          if (!nb::try_cast<Out<float>>(gone, metres, false) || metres.shape(0) != walk.n)
            throw nb::type_error("straight_steps: gone must be None or float32, one value a step");
          require_aligned(metres, "straight_steps");
          outputs.emplace_back(metres);
        }
        if (!arrived.is_none()) {
          if (!nb::try_cast<Out<int64_t>>(arrived, there, false) || there.shape(0) != walk.n)
            throw nb::type_error("straight_steps: arrived must be None or int64, one value a step");
          require_aligned(there, "straight_steps");
          outputs.emplace_back(there);
        }
        // fields of one table of records lie between each other, so only the results are kept apart from everything
        require_apart(outputs, {reach_of(x), reach_of(y), reach_of(z), reach_of(speed), reach_of(gx), reach_of(gy),
                                reach_of(gz), Span(some)});
        size_t count = 0;
        call_kernel([&] {
          count = kernels().straight_steps(walk, gone.is_none() ? nullptr : metres.data(),
                                           arrived.is_none() ? nullptr : there.data());
        });
        return count;
      }, "x"_a.noconvert(), "y"_a.noconvert(), "z"_a.noconvert(), "speed"_a.noconvert(), "gx"_a.noconvert(),
      "gy"_a.noconvert(), "gz"_a.noconvert(), "rows"_a.none(), "gone"_a.none(), "arrived"_a.none());
  m.def("crowd_order", [](In<float> x, In<float> y, Out<uint32_t> order) {
        const size_t n = order.shape(0);
        require(x.shape(0) == n && y.shape(0) == n && n < 0x7FFFFFFFu, "crowd_order: x, y and order must have the same length");
        require_all_aligned("crowd_order", x, y, order);
        require_apart({Span(order)}, {Span(x), Span(y)});
        for (size_t i = 0; i < n; ++i)
          require(__builtin_isfinite(x.data()[i]) && __builtin_isfinite(y.data()[i]), "crowd_order: x and y must be finite");
        const Workspace w(kernels().crowd_workspace(n));
        call_kernel([&] { kernels().crowd_order(x.data(), y.data(), n, order.data(), w.memory); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "order"_a.noconvert());
  m.def("neighbour_counts", [](In<float> x, In<float> y, const nb::object& z, const nb::object& order, float radius,
                               uint64_t limit, Out<uint32_t> count) {
        Kept kept;
        const droveway::Points p = points_of(kept, x, y, z, order);
        require(count.shape(0) == p.n, "neighbour_counts: count must have one value a point");
        require_aligned(count, "neighbour_counts");
        require_apart({Span(count)}, kept.spans);
        const Workspace w(kernels().crowd_workspace(p.n));
        uint64_t total = 0;
        call_kernel([&] { total = kernels().neighbour_counts(p, radius, limit, count.data(), w.memory); });
        return total;
      }, "x"_a.noconvert(), "y"_a.noconvert(), "z"_a.none(), "order"_a.none(), "radius"_a, "limit"_a, "count"_a.noconvert());
  m.def("neighbour_lists", [](In<float> x, In<float> y, const nb::object& z, const nb::object& order, float radius,
                              In<uint32_t> start, Out<uint32_t> index) {
        Kept kept;
        const droveway::Points p = points_of(kept, x, y, z, order);
        require(start.shape(0) == p.n + 1, "neighbour_lists: start must have one value a point and one more");
        require_all_aligned("neighbour_lists", start, index);
        for (size_t i = 0; i < p.n; ++i)
          require(start.data()[i] <= start.data()[i + 1], "neighbour_lists: start must ascend");
        require(start.data()[p.n] <= index.shape(0), "neighbour_lists: start must stay within index");
        kept.spans.emplace_back(start);
        require_apart({Span(index)}, kept.spans);
        const Workspace w(kernels().crowd_workspace(p.n));
        call_kernel([&] { kernels().neighbour_lists(p, radius, start.data(), index.data(), w.memory); });
      }, "x"_a.noconvert(), "y"_a.noconvert(), "z"_a.none(), "order"_a.none(), "radius"_a, "start"_a.noconvert(),
      "index"_a.noconvert());
  m.def("closest_pair", [](In<float> x, In<float> y, const nb::object& z, const nb::object& order) {
        Kept kept;
        const droveway::Points p = points_of(kept, x, y, z, order);
        require(p.n >= 2, "closest_pair: two points at least");
        const Workspace w(kernels().crowd_workspace(p.n));
        float square = 0.0f;
        uint32_t pair[2] = {0, 0};
        call_kernel([&] { square = kernels().closest_pair(p, pair, w.memory); });
        return nb::make_tuple(square, pair[0], pair[1]);
      }, "x"_a.noconvert(), "y"_a.noconvert(), "z"_a.none(), "order"_a.none());
}

// Numbers of a grid with a blocked border: cells, their exits, and that both agree.
droveway::Lattice lattice_of(const In<uint8_t>& exits, uint32_t width) {
  const size_t cells = exits.shape(0);
  require(width >= 2 && cells % width == 0 && cells / width >= 2 && cells <= 0x7FFFFFFFu,
          "exits must be rows of width cells, border included");
  const int64_t step[4] = {int64_t(width), 1, -int64_t(width), -1};
  const uint8_t* e = exits.data();
  for (size_t c = 0; c < cells; ++c) {
    if (e[c] == 0) continue;
    require(e[c] < 16 && c >= width && c < cells - width && c % width != 0 && c % width != width - 1,
            "exits must be 0 on the border and below 16 elsewhere");
    for (int d = 0; d < 4; ++d)
      require((e[c] >> d & 1) == 0 || (e[int64_t(c) + step[d]] >> (d ^ 2) & 1) != 0, "exits must lead both ways");
  }
  return {int32_t(cells), int32_t(width), e};
}
void require_cells(const In<int32_t>& cells, size_t n, int64_t least, size_t size, const char* sentence) {
  require(cells.shape(0) == n, sentence);
  for (size_t i = 0; i < n; ++i) require(cells.data()[i] >= least && cells.data()[i] < int64_t(size), sentence);
}
void require_permutation(const In<int32_t>& order, size_t n) {
  std::vector<bool> met(n, false);
  require(order.shape(0) == n, "order must have one number an agent");
  for (size_t k = 0; k < n; ++k) {
    const int32_t i = order.data()[k];
    require(i >= 0 && size_t(i) < n && !met[size_t(i)], "order must hold every agent once");
    met[size_t(i)] = true;
  }
}

void bind_pibt(nb::module_& m) {
  m.def("grid_waves", [](In<uint64_t> free, uint32_t width, size_t cells, In<int32_t> start, In<int32_t> goal,
                         Out2<uint64_t> bits, Out<int32_t> length) {
        const size_t n = goal.shape(0), words = (cells + 63) / 64;
        require(width >= 2 && cells % width == 0 && cells / width >= 2 && cells <= 0x7FFFFFFFu && free.shape(0) == words,
                "grid_waves: free must have one bit for each of the cells, rows of width cells");
        require(bits.shape(0) == n && bits.shape(1) == words && length.shape(0) == n,
                "grid_waves: bits must be [n, words], length [n]");
        require_all_aligned("grid_waves", free, start, goal, bits, length);
        require_apart({Span(bits), Span(length)}, {Span(free), Span(start), Span(goal)});
        require_cells(start, n, 0, cells, "grid_waves: start must hold one cell a goal");
        require_cells(goal, n, 0, cells, "grid_waves: goal must hold cells");
        for (size_t c = 0; c < 64 * words; ++c) {
          const size_t column = c % width;
          const bool inside = c >= width && c + width < cells && column != 0 && column != width - 1;
          require(inside || (free.data()[c / 64] >> (c % 64) & 1) == 0, "grid_waves: the border must be blocked");
        }
        const Workspace w(kernels().waves_workspace(int32_t(cells), int32_t(width)));
        call_kernel([&] {
          kernels().grid_waves(free.data(), int32_t(cells), int32_t(width), start.data(), goal.data(), n, bits.data(),
                               length.data(), w.memory);
        });
      }, "free"_a.noconvert(), "width"_a, "cells"_a, "start"_a.noconvert(), "goal"_a.noconvert(), "bits"_a.noconvert(),
      "length"_a.noconvert());
  m.def("pibt_step", [](In<uint8_t> exits, uint32_t width, In2<uint64_t> bits, In<int32_t> now, In<int32_t> goal,
                        In<int32_t> row, In<int32_t> order, In<uint8_t> swaps, const nb::object& guide, uint64_t salt,
                        Out<int32_t> to) {
        const droveway::Lattice lattice = lattice_of(exits, width);
        const size_t n = now.shape(0), cells = exits.shape(0), words = (cells + 63) / 64;
        require(bits.shape(1) == words, "pibt_step: bits must be [goals, words]");
        require(to.shape(0) == n && swaps.shape(0) == n, "pibt_step: to and swaps must have one value an agent");
        require_all_aligned("pibt_step", exits, bits, now, goal, row, order, swaps, to);
        Spans inputs = {Span(exits), Span(bits), Span(now), Span(goal), Span(row), Span(order), Span(swaps)};
        require_cells(now, n, 0, cells, "pibt_step: now must hold cells");
        require_cells(goal, n, -1, cells, "pibt_step: goal must hold -1 or cells");
        require(row.shape(0) == n, "pibt_step: row must have one value an agent");
        require_permutation(order, n);
        std::vector<bool> held(cells, false);
        for (size_t i = 0; i < n; ++i) {
          const int32_t c = now.data()[i], t = to.data()[i];
          require(!held[size_t(c)], "pibt_step: agents must be in different cells");
          held[size_t(c)] = true;
          require(goal.data()[i] < 0 || (row.data()[i] >= 0 && size_t(row.data()[i]) < bits.shape(0)),
                  "pibt_step: row must be a row of bits");
          bool beside = t == -1 || t == c;
          const int32_t step[4] = {int32_t(width), 1, -int32_t(width), -1};
          for (int d = 0; d < 4; ++d) beside = beside || ((lattice.exits[c] >> d & 1) != 0 && t == c + step[d]);
          require(beside, "pibt_step: to must be -1, the agent's cell or a free one beside it");
        }
        droveway::PibtStep step{n, now.data(), goal.data(), row.data(), order.data(), swaps.data(), nullptr, nullptr, salt};
        In<int32_t> path;
        In<int64_t> start;
        if (!guide.is_none()) {
          const nb::tuple pair = nb::cast<nb::tuple>(guide);
          if (pair.size() != 2 || !nb::try_cast<In<int32_t>>(pair[0], path, false) ||
              !nb::try_cast<In<int64_t>>(pair[1], start, false))
            throw nb::type_error("pibt_step: guide must be None or (int32[cells], int64[n + 1])");
          require_all_aligned("pibt_step", path, start);
          require(start.shape(0) == n + 1 && start.data()[0] == 0 && start.data()[n] == int64_t(path.shape(0)),
                  "pibt_step: guide must tile its cells");
          for (size_t i = 0; i < n; ++i)
            require(start.data()[i] <= start.data()[i + 1], "pibt_step: guide must tile its cells");
          inputs.emplace_back(path);
          inputs.emplace_back(start);
          step.path = path.data();
          step.path_start = start.data();
        }
        require_apart({Span(to)}, inputs);
        const droveway::Distances distances{words, bits.data()};
        const Workspace w(kernels().pibt_workspace(lattice.cells, n));
        int64_t value = 0;
        bool done = false;
        call_kernel([&] { done = kernels().pibt_step(lattice, distances, step, to.data(), &value, w.memory); });
        return nb::make_tuple(done, value);
      }, "exits"_a.noconvert(), "width"_a, "bits"_a.noconvert(), "now"_a.noconvert(), "goal"_a.noconvert(),
      "row"_a.noconvert(), "order"_a.noconvert(), "swaps"_a.noconvert(), "guide"_a.none(), "salt"_a, "to"_a.noconvert());
  m.def("guide_paths", [](In<uint8_t> exits, uint32_t width, In2<uint64_t> bits, In<uint32_t> costs, In<int32_t> from,
                          In<int32_t> goal, In<int32_t> length, In<int32_t> order, Out2<uint16_t> leaving,
                          Out<int32_t> path, In<int64_t> start) {
        const droveway::Lattice lattice = lattice_of(exits, width);
        const size_t n = from.shape(0), cells = exits.shape(0), words = (cells + 63) / 64;
        require(bits.shape(0) == n && bits.shape(1) == words, "guide_paths: bits must be [n, words]");
        require(costs.shape(0) == 3, "guide_paths: costs must be three numbers");
        for (int k = 0; k < 3; ++k) require(costs.data()[k] <= 1000, "guide_paths: costs must be at most 1000");
        require(leaving.shape(0) >= 1 && leaving.shape(0) <= 0x7FFFFFFFu && leaving.shape(1) == cells,
                "guide_paths: leaving must be [slabs, cells]");
        require_all_aligned("guide_paths", exits, bits, costs, from, goal, length, order, leaving, path, start);
        require_apart({Span(leaving), Span(path)}, {Span(exits), Span(bits), Span(costs), Span(from), Span(goal),
                                                    Span(length), Span(order), Span(start)});
        require_cells(from, n, 0, cells, "guide_paths: from must hold cells");
        require_cells(goal, n, 0, cells, "guide_paths: goal must hold cells");
        require_permutation(order, n);
        require(length.shape(0) == n && start.shape(0) == n + 1 && start.data()[0] == 0 &&
                    start.data()[n] == int64_t(path.shape(0)),
                "guide_paths: path must have room for every length");
        require(path.shape(0) < 0xFFFFFFFFu, "guide_paths: path must have fewer than 2^32 cells");
        for (size_t i = 0; i < n; ++i)
          require(length.data()[i] >= 0 && length.data()[i] < lattice.cells &&
                      start.data()[i + 1] - start.data()[i] == int64_t(length.data()[i]) + 1,
                  "guide_paths: path must have room for every length");
        const droveway::Distances distances{words, bits.data()};
        const droveway::GuideCosts terms{costs.data()[0], costs.data()[1], costs.data()[2]};
        const Workspace w(kernels().guide_workspace(lattice.cells));
        bool true_bits = false;
        call_kernel([&] {
          true_bits = kernels().guide_paths(lattice, distances, terms, from.data(), goal.data(), length.data(),
                                            order.data(), n, leaving.data(), uint32_t(leaving.shape(0)), path.data(),
                                            start.data(), w.memory);
        });
        require(true_bits, "guide_paths: bits must be the distances of goal");
      }, "exits"_a.noconvert(), "width"_a, "bits"_a.noconvert(), "costs"_a.noconvert(), "begin"_a.noconvert(),
      "goal"_a.noconvert(), "length"_a.noconvert(), "order"_a.noconvert(), "leaving"_a.noconvert(),
      "path"_a.noconvert(), "start"_a.noconvert());
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  bind_planning(m);
  bind_lending(m);
  bind_zones(m);
  bind_field(m);
  bind_frames(m);
  bind_motion(m);
  bind_crowd(m);
  bind_pibt(m);
}
