#include <string.h>

#include <vector>

#include "droveway/selftest_memory.hpp"
#include "selftest_steps.hpp"
#include "table.hpp"

// One digest a kernel over three fixed problems; the twin of these inputs is coord/selftest_ref.py.
namespace droveway {
namespace {

// The sum of two floats is exact in double here; how the host rounds must not reach the inputs.
inline float nearest_f32(double exact) {
  uint64_t u;
  memcpy(&u, &exact, sizeof u);
  u += (uint64_t(1) << 28) - 1 + (u >> 29 & 1);
  u &= ~((uint64_t(1) << 29) - 1);
  memcpy(&exact, &u, sizeof u);
  return float(exact);
}

constexpr size_t kAgents = 211, kZones = 197, kKernels = 53, kObstacles = 7, kCandidates = 12;
constexpr size_t kWidth = 37, kHeight = 29;

struct Numbers {
  SplitMix64 source;
  // A multiple of 2^-14 from 0 to below `size`, a power of two: exact in float32.
  float place(float size) { return float(source.next() >> 40) * (size / 16777216.0f); }
  uint32_t below(uint32_t n) { return uint32_t(source.next() >> 33) % n; }
  std::vector<float> places(size_t n, float size) {
    std::vector<float> out(n);
    for (float& v : out) v = place(size);
    return out;
  }
  std::vector<uint32_t> words(size_t n, uint32_t limit) {
    std::vector<uint32_t> out(n);
    for (uint32_t& v : out) v = below(limit);
    return out;
  }
};

}  // namespace

// A chain of frames, then one changed byte in each place; twin: selftest_ref._frames.
static void frames(const CoordTable& table, SelfTestEmit emit, void* context) {
  constexpr size_t count = 37, size = 128;
  std::vector<uint8_t> chain(count * size);
  uint8_t prev[16] = {};
  uint32_t fault = 0;
  const auto seal = [&](uint8_t* frame) {
    const uint32_t sum = table.frame_crc(frame, 124);
    memcpy(frame + 124, &sum, 4);
  };
  for (size_t i = 0; i < count; ++i) {
    uint8_t* frame = chain.data() + size * i;
    for (size_t at = 0; at < 80; ++at) frame[at] = uint8_t(at * 11 + i * 5);
    memcpy(frame, "JDF1\1\0\0\0", 8);
    const uint64_t number = i;
    memcpy(frame + 8, &number, 8);
    memcpy(frame + 64, prev, 16);
    seal(frame);
    table.check_frames(frame, nullptr, 1, true, false, 0, prev, &fault);
  }
  std::vector<uint32_t> found;
  for (size_t at = 0; at <= size; ++at) {
    uint8_t* frame = chain.data() + size * (at % count);
    const size_t byte = at % size;
    const uint8_t kept[2] = {frame[byte], 0};
    uint8_t whole[size];
    memcpy(whole, frame, size);
    frame[byte] = uint8_t(kept[0] ^ (at == size ? 0 : 9));
    if (byte < 124) seal(frame);
    uint8_t last[16] = {};
    found.push_back(uint32_t(table.check_frames(chain.data(), nullptr, count, true, true, 0, last, &fault)));
    found.push_back(fault);
    for (int i = 0; i < 4; ++i) {
      uint32_t word;
      memcpy(&word, last + 4 * i, 4);
      found.push_back(word);
    }
    memcpy(frame, whole, size);
  }
  Digest digest;
  digest.add(found);
  emit(context, "coord.check_frames", digest.hash);
}

void coord_self_test(const CoordTable& table, SelfTestEmit emit, void* context) {
  Digest terms, field, gradient, cells, listed, points, segments, idle, base, found, greedy, swap, sold, values, leftover, regions, paths, steps, neighbours, closest;
  for (uint32_t round = 0; round < 3; ++round) {
    Numbers r{{0x636F6F7264ull + round}};
    const float size = 256.0f;
    // zones: fields of kernels, idle times, base scores
    std::vector<float> zx = r.places(kZones, size), zy = r.places(kZones, size), zz = r.places(kZones, 2.0f);
    std::vector<float> kx = r.places(kKernels, size), ky = r.places(kKernels, size), sigma = r.places(kKernels, 32.0f);
    std::vector<float> weight = r.places(kKernels, 4.0f);
    for (float& s : sigma) s += 0.5f;
    for (float& w : weight) w -= 2.0f;
    std::vector<float> reach(kKernels), inv(kKernels), cover(kZones);
    table.gaussian_terms(sigma.data(), 4.0f, kKernels, reach.data(), inv.data());
    terms.add(reach);
    terms.add(inv);
    std::vector<int32_t> cell(kZones);
    std::vector<uint32_t> start = {0, uint32_t(kKernels), uint32_t(kKernels + kKernels / 2)}, items;
    for (uint32_t k = 0; k < kKernels; ++k) items.push_back(k);
    for (uint32_t k = 0; k < kKernels / 2; ++k) items.push_back(2 * k);
    for (int32_t& c : cell) c = int32_t(r.below(3)) - 1;
    const Field f{kZones, zx.data(), zy.data(), cell.data(), start.data(), items.data(), kx.data(), ky.data(),
                  reach.data(), inv.data(), weight.data()};
    table.field_points(f, cover.data());
    field.add(cover);
    std::vector<float> slopes(2 * kZones);
    table.field_gradient(f, slopes.data());
    gradient.add(slopes);
    const FieldSum all{kZones, zx.data(), zy.data(), kKernels, kx.data(), ky.data(), reach.data(), inv.data(), weight.data()};
    const AlignedMemory room(table.field_workspace(kZones, kKernels));
    std::vector<float> sums(kZones), slopes_by_cells(2 * kZones);
    table.field_by_cells(all, sums.data(), room.p);
    table.gradient_by_cells(all, slopes_by_cells.data(), room.p);
    cells.add(sums);
    cells.add(slopes_by_cells);
    std::vector<uint64_t> idle_ticks(kZones);
    for (uint64_t& t : idle_ticks) {
      const uint64_t word = r.source.next();
      t = word >> (20 + r.below(40));
    }
    std::vector<float> norm(kZones), priority = r.places(kZones, 2.0f), avoid(kZones, 0.25f), zone_base(kZones);
    table.idle_norm(idle_ticks.data(), kZones, 70000001u * round, norm.data());
    idle.add(norm);
    const float weights[4] = {round == 2 ? 3e38f : 1.0f, 0.75f, 0.5f, 0.1f};
    table.zone_base(priority.data(), norm.data(), cover.data(), avoid.data(), weights, kZones, zone_base.data());
    base.add(zone_base);

    // obstacles: circles, triangles, boxes
    std::vector<uint8_t> kind(kObstacles);
    std::vector<float> ox = r.places(kObstacles, size), oy = r.places(kObstacles, size);
    std::vector<float> half_x = r.places(kObstacles, 16.0f), half_y = r.places(kObstacles, 16.0f);
    std::vector<float> margin = r.places(kObstacles, 4.0f), corners = r.places(6 * kObstacles, size);
    std::vector<uint32_t> first(kObstacles), corner_count(kObstacles);
    for (uint32_t o = 0; o < kObstacles; ++o) {
      kind[o] = uint8_t(o % 3);
      first[o] = kind[o] == 1 ? 3 * o : 0;
      corner_count[o] = kind[o] == 1 ? 3 : 0;
    }
    const Shapes shapes{kObstacles, kind.data(), ox.data(), oy.data(), half_x.data(), half_y.data(), margin.data(),
                        first.data(), corner_count.data(), corners.data()};
    std::vector<uint8_t> blocked(kZones), crossed(kZones);
    table.blocked_points(zx.data(), zy.data(), kZones, shapes, blocked.data());
    points.add(blocked);
    std::vector<float> ax = r.places(kAgents, size), ay = r.places(kAgents, size), az = r.places(kAgents, 2.0f);
    table.blocked_segments(ax.data(), ay.data(), zx.data(), zy.data(), kZones, shapes, nullptr, crossed.data());
    segments.add(crossed);

    // the problem: round 1 tests ways, round 2 has components and saturating scores
    std::vector<float> speed = r.places(kAgents, 2.0f), energy = r.places(kAgents, 1.0f);
    for (float& s : speed) s = nearest_f32(double(s) + 0.125);
    std::vector<uint32_t> caps = r.words(kAgents, 8), acomponent = r.words(kAgents, 3), zcomponent = r.words(kZones, 3);
    for (uint32_t& c : caps) c |= 1;
    for (size_t z = 0; z < kZones; ++z)
      if (round == 2 && zcomponent[z] == 0) blocked[z] = 1;
    std::vector<int32_t> current(kAgents);
    for (int32_t& c : current) c = int32_t(r.below(kZones + 1)) - 1;
    std::vector<float> radius = r.places(kZones, 4.0f), cost = r.places(kZones, 0.5f);
    std::vector<uint32_t> need = r.words(kZones, 4);
    const Problem p{kAgents, ax.data(), ay.data(), az.data(), speed.data(), energy.data(), caps.data(),
                    acomponent.data(), current.data(), kZones, zx.data(), zy.data(), zz.data(), radius.data(),
                    zone_base.data(), cost.data(), need.data(), zcomponent.data(), blocked.data(), 1.0f, 0.1f,
                    round == 0 ? 1000u : 150u, uint32_t(round == 2), round == 1 ? &shapes : nullptr};
    const AlignedMemory memory(table.plan_workspace(kAgents, kZones, kObstacles));
    std::vector<int32_t> zone(kAgents * kCandidates), score(kAgents * kCandidates), assigned(kAgents);
    std::vector<uint32_t> count(kAgents), travel(kAgents);
    table.candidates(p, kCandidates, zone.data(), score.data(), count.data(), memory.p);
    found.add(zone);
    found.add(score);
    found.add(count);
    std::vector<int32_t> again(kAgents * kCandidates);
    table.list_scores(p, kCandidates, zone.data(), count.data(), again.data());
    listed.add(again);
    table.greedy(p, 0, nullptr, nullptr, assigned.data(), memory.p);
    greedy.add(assigned);
    table.greedy(p, kCandidates, zone.data(), count.data(), assigned.data(), memory.p);
    greedy.add(assigned);
    for (const uint64_t budget : {uint64_t(500), uint64_t(0)}) {
      uint32_t bound = 0;
      std::vector<int32_t> improved = assigned;
      swap.add(table.swap(p, kCandidates, zone.data(), score.data(), count.data(), 10, budget, improved.data(), &bound,
                          memory.p));
      swap.add(bound);
      swap.add(improved);
    }
    const AlignedMemory market(table.auction_workspace(kAgents, kZones, kObstacles));
    for (const uint64_t budget : {uint64_t(300), uint64_t(3000)}) {
      std::vector<int32_t> won(kAgents);
      const AuctionOutcome out = table.auction(p, {kCandidates, -(int64_t(3) << 31), budget, false}, won.data(), market.p);
      sold.add(uint64_t(out.worth));
      sold.add(uint64_t(out.bound));
      sold.add(out.bids);
      sold.add(uint64_t(out.bound_reached));
      sold.add(won);
    }
    std::vector<int32_t> pair_score(kAgents);
    std::vector<uint8_t> saturated(kAgents), status(kAgents), taken(kZones);
    table.pair_values(p, assigned.data(), pair_score.data(), travel.data(), saturated.data());
    values.add(pair_score);
    values.add(travel);
    values.add(saturated);
    for (size_t a = 0; a < kAgents; ++a)
      if (assigned[a] >= 0) taken[size_t(assigned[a])] = 1;
    table.leftover_status(p, taken.data(), status.data(), memory.p);
    leftover.add(status);

    std::vector<uint8_t> wall(kWidth * kHeight);
    for (uint8_t& w : wall) w = r.below(100) < 30 + 10 * round;
    std::vector<uint32_t> label(wall.size()), queue(wall.size());
    table.grid_components(wall.data(), kHeight, kWidth, label.data(), queue.data());
    regions.add(label);

    constexpr size_t kBordered = kWidth + 2, kCells = kBordered * (kHeight + 2), kTrips = 60, kHorizon = 9;
    std::vector<uint32_t> seen(kCells, 0xFFFFFFFFu);
    for (size_t y = 0; y < kHeight; ++y)
      for (size_t x = 0; x < kWidth; ++x)
        if (!wall[y * kWidth + x]) seen[(y + 1) * kBordered + x + 1] = 0;
    std::vector<uint8_t> entered(kCells), directions(kTrips * kHorizon);
    std::vector<int32_t> line(kCells), from(kTrips), to(kTrips), length(kTrips);
    for (int32_t& cell_from : from) cell_from = int32_t(r.below(kCells));
    for (int32_t& cell_to : to) cell_to = int32_t(r.below(kCells));
    const Ways ways{int32_t(kBordered), int32_t(kHorizon), seen.data(), entered.data(), line.data()};
    table.grid_paths(ways, from.data(), to.data(), kTrips, 1, directions.data(), length.data());
    paths.add(directions);
    paths.add(length);

    // a step of the agents towards the zones, all and every third; neighbours and the closest pair of the zones
    const Walk walk{kZones, nullptr, ax.data(), ay.data(), az.data(), speed.data(), zx.data(), zy.data(), zz.data(),
                    {1, 1, 1, 1, 1, 1, 1}};
    std::vector<float> gone(kZones);
    std::vector<int64_t> arrived(kZones);
    arrived.resize(table.straight_steps(walk, gone.data(), arrived.data()));
    std::vector<int64_t> third;
    for (int64_t row = 0; row < int64_t(kZones); row += 3) third.push_back(row);
    Walk some = walk;
    some.n = third.size();
    some.rows = third.data();
    table.straight_steps(some, nullptr, nullptr);
    for (const std::vector<float>* column : {&ax, &ay, &az, &gone}) steps.add(*column);
    steps.add(arrived);
    std::vector<uint32_t> order(kZones), near(kZones), starts(kZones + 1);
    const AlignedMemory crowd(table.crowd_workspace(kZones));
    table.crowd_order(zx.data(), zy.data(), kZones, order.data(), crowd.p);
    const Points spots{kZones, zx.data(), zy.data(), round == 0 ? nullptr : zz.data(), order.data()};
    const float reach_m = 8.0f + 8.0f * float(round);
    std::vector<uint32_t> lists(size_t(table.neighbour_counts(spots, reach_m, 1u << 20, near.data(), crowd.p)));
    for (size_t i = 0; i < kZones; ++i) starts[i + 1] = starts[i] + near[i];
    table.neighbour_lists(spots, reach_m, starts.data(), lists.data(), crowd.p);
    neighbours.add(near);
    neighbours.add(lists);
    std::vector<uint32_t> pair(2);
    const std::vector<float> square = {table.closest_pair(spots, pair.data(), crowd.p)};
    closest.add(square);
    closest.add(pair);
  }
  emit(context, "coord.gaussian_terms", terms.hash);
  emit(context, "coord.field_points", field.hash);
  emit(context, "coord.field_gradient", gradient.hash);
  emit(context, "coord.field_by_cells", cells.hash);
  emit(context, "coord.blocked_points", points.hash);
  emit(context, "coord.blocked_segments", segments.hash);
  emit(context, "coord.idle_norm", idle.hash);
  emit(context, "coord.zone_base", base.hash);
  emit(context, "coord.candidates", found.hash);
  emit(context, "coord.greedy", greedy.hash);
  emit(context, "coord.list_scores", listed.hash);
  emit(context, "coord.swap", swap.hash);
  emit(context, "coord.auction", sold.hash);
  emit(context, "coord.pair_values", values.hash);
  emit(context, "coord.leftover_status", leftover.hash);
  emit(context, "coord.grid_components", regions.hash);
  emit(context, "coord.grid_paths", paths.hash);
  emit(context, "coord.straight_steps", steps.hash);
  emit(context, "coord.neighbours", neighbours.hash);
  emit(context, "coord.closest_pair", closest.hash);
  steps_self_test(table, emit, context);
  std::vector<uint32_t> crcs;
  uint8_t bytes[160];
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = uint8_t(i * 7 + 3);
  for (size_t i = 0; i < sizeof bytes; ++i) crcs.push_back(table.frame_crc(bytes + i, sizeof bytes - i));
  Digest crc;
  crc.add(crcs);
  emit(context, "coord.frame_crc", crc.hash);
  frames(table, emit, context);
}

}  // namespace droveway
