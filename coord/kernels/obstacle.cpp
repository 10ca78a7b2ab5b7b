// Which points and segments obstacles block; the twin is coord/ground/obstacle_ref.py, step by step.
#include "droveway/fpenv.hpp"
#include "kernels.hpp"
#include "ways.hpp"

namespace DW_ISA {
namespace {

struct Box {
  float left, low, right, high;
};

inline float root(float x) { return __builtin_sqrtf(x); }
inline float size(float x) { return __builtin_fabsf(x); }
inline float smaller(float a, float b) { return b < a ? b : a; }
inline float larger(float a, float b) { return a < b ? b : a; }
inline float length(float dx, float dy) { return root(dx * dx + dy * dy); }

float point_to_segment(float px, float py, float ax, float ay, float bx, float by) {
  const float vx = bx - ax, vy = by - ay, wx = px - ax, wy = py - ay;
  const float along = wx * vx + wy * vy, whole = vx * vx + vy * vy;
  if (along <= 0.0f) return length(px - ax, py - ay);
  if (!(along < whole)) return length(px - bx, py - by);
  const float t = along / whole;
  const float qx = ax + t * vx, qy = ay + t * vy;
  return length(px - qx, py - qy);
}

bool apart(float o1, float o2) { return !((o1 >= 0.0f && o2 <= 0.0f) || (o1 <= 0.0f && o2 >= 0.0f)); }

bool segments_cross(float ax, float ay, float bx, float by, float cx, float cy, float dx, float dy) {
  const float vx = bx - ax, vy = by - ay, ux = dx - cx, uy = dy - cy;
  const float o1 = vx * (cy - ay) - vy * (cx - ax), o2 = vx * (dy - ay) - vy * (dx - ax);
  const float o3 = ux * (ay - cy) - uy * (ax - cx), o4 = ux * (by - cy) - uy * (bx - cx);
  if (apart(o1, o2) || apart(o3, o4)) return false;
  return !(o1 == 0.0f && o2 == 0.0f && o3 == 0.0f && o4 == 0.0f);
}

// Corners of a box or polygon as pairs; a box is written to `room`.
const float* corners_of(const Shapes& s, size_t o, float* room, uint32_t* count) {
  if (s.kind[o] == 1) {
    *count = s.corner_count[o];
    return s.corners + 2 * size_t(s.first[o]);
  }
  const float left = s.x[o] - s.half_x[o], right = s.x[o] + s.half_x[o];
  const float low = s.y[o] - s.half_y[o], high = s.y[o] + s.half_y[o];
  const float box[8] = {left, low, right, low, right, high, left, high};
  memcpy(room, box, sizeof box);
  *count = 4;
  return room;
}

float point_distance(float px, float py, const Shapes& s, size_t o) {
  if (s.kind[o] == 0) return length(px - s.x[o], py - s.y[o]);
  if (s.kind[o] == 2)
    return length(larger(size(px - s.x[o]) - s.half_x[o], 0.0f), larger(size(py - s.y[o]) - s.half_y[o], 0.0f));
  const float* ring = s.corners + 2 * size_t(s.first[o]);
  const uint32_t count = s.corner_count[o];
  float nearest = __builtin_inff();
  bool inside = false;
  const float* b = ring + 2 * (size_t(count) - 1);
  for (uint32_t i = 0; i < count; ++i) {
    const float* a = ring + 2 * size_t(i);
    nearest = smaller(nearest, point_to_segment(px, py, b[0], b[1], a[0], a[1]));
    if ((a[1] > py) != (b[1] > py)) inside ^= px < (b[0] - a[0]) * (py - a[1]) / (b[1] - a[1]) + a[0];
    b = a;
  }
  return inside ? 0.0f : nearest;
}

Box bounds_of(const Shapes& s, size_t o) {
  const float reach = s.reach[o];
  if (s.kind[o] == 0) return {s.x[o] - reach, s.y[o] - reach, s.x[o] + reach, s.y[o] + reach};
  float room[8];
  uint32_t count;
  const float* c = corners_of(s, o, room, &count);
  Box box = {c[0], c[1], c[0], c[1]};
  for (uint32_t i = 1; i < count; ++i) {
    box.left = smaller(box.left, c[2 * size_t(i)]);
    box.low = smaller(box.low, c[2 * size_t(i) + 1]);
    box.right = larger(box.right, c[2 * size_t(i)]);
    box.high = larger(box.high, c[2 * size_t(i) + 1]);
  }
  return {box.left - reach, box.low - reach, box.right + reach, box.high + reach};
}

// Whether the segment a–b comes within reach: the least of the twin's distances is, where any of them is. Those that most
// often are come first: a way that a box or polygon blocks mostly crosses an edge, which takes no root and no division.
bool within_reach(float ax, float ay, float bx, float by, const Shapes& s, size_t o) {
  const float reach = s.reach[o];
  if (s.kind[o] == 0) return point_to_segment(s.x[o], s.y[o], ax, ay, bx, by) <= reach;
  float room[8];
  uint32_t count;
  const float* ring = corners_of(s, o, room, &count);
  if (0.0f <= reach) {
    const float* c = ring + 2 * (size_t(count) - 1);
    for (uint32_t i = 0; i < count; ++i) {
      const float* d = ring + 2 * size_t(i);
      if (segments_cross(ax, ay, bx, by, c[0], c[1], d[0], d[1])) return true;
      c = d;
    }
  }
  for (uint32_t i = 0; i < count; ++i)
    if (point_to_segment(ring[2 * size_t(i)], ring[2 * size_t(i) + 1], ax, ay, bx, by) <= reach) return true;
  return point_distance(ax, ay, s, o) <= reach || point_distance(bx, by, s, o) <= reach;
}

bool blocks(float ax, float ay, float bx, float by, const Shapes& s, size_t o) {
  const Box box = bounds_of(s, o);
  return smaller(ax, bx) <= box.right && larger(ax, bx) >= box.left && smaller(ay, by) <= box.high &&
         larger(ay, by) >= box.low && within_reach(ax, ay, bx, by, s, o);
}

// A range of floats that holds the value of every case. Each operation rounds to nearest, which is monotone, so the same
// operation on the ends gives ends again: what a range proves holds for the floats themselves, rounding included.
struct Range {
  float lo, hi;
};
inline Range operator-(Range a, Range b) { return {a.lo - b.hi, a.hi - b.lo}; }
inline Range operator+(Range a, Range b) { return {a.lo + b.lo, a.hi + b.hi}; }
inline Range operator*(Range a, Range b) {
  const float p = a.lo * b.lo, q = a.lo * b.hi, r = a.hi * b.lo, s = a.hi * b.hi;
  return {smaller(smaller(p, q), smaller(r, s)), larger(larger(p, q), larger(r, s))};
}
inline float size_max(Range a) { return larger(size(a.lo), size(a.hi)); }
inline Range square(Range a) {
  const float most = size_max(a), least = a.lo <= 0.0f && a.hi >= 0.0f ? 0.0f : smaller(size(a.lo), size(a.hi));
  return {least * least, most * most};
}
inline float length_max(Range dx, Range dy) { return length(size_max(dx), size_max(dy)); }
inline Range exactly(float x) { return {x, x}; }

struct PointRange {
  Range x, y;
};

bool opposite(Range o1, Range o2) { return (o1.lo >= 0.0f && o2.hi <= 0.0f) || (o1.hi <= 0.0f && o2.lo >= 0.0f); }
bool not_zero(Range o) { return o.lo > 0.0f || o.hi < 0.0f; }

// segments_cross for every a and b of the ranges.
bool all_cross(const PointRange& a, const PointRange& b, float cx, float cy, float dx, float dy) {
  const Range vx = b.x - a.x, vy = b.y - a.y;
  const Range o1 = vx * (exactly(cy) - a.y) - vy * (exactly(cx) - a.x);
  const Range o2 = vx * (exactly(dy) - a.y) - vy * (exactly(dx) - a.x);
  if (!opposite(o1, o2)) return false;
  const Range ux = exactly(dx - cx), uy = exactly(dy - cy);
  const Range o3 = ux * (a.y - exactly(cy)) - uy * (a.x - exactly(cx));
  const Range o4 = ux * (b.y - exactly(cy)) - uy * (b.x - exactly(cx));
  return opposite(o3, o4) && (not_zero(o1) || not_zero(o2) || not_zero(o3) || not_zero(o4));
}

// point_to_segment(p, a, b) ≤ reach for every a and b of the ranges.
bool all_near(float px, float py, const PointRange& a, const PointRange& b, float reach) {
  const Range vx = b.x - a.x, vy = b.y - a.y, wx = exactly(px) - a.x, wy = exactly(py) - a.y;
  const Range along = wx * vx + wy * vy, whole = square(vx) + square(vy);
  if (along.lo <= 0.0f && !(length_max(wx, wy) <= reach)) return false;
  if (along.hi >= whole.lo && !(length_max(exactly(px) - b.x, exactly(py) - b.y) <= reach)) return false;
  if (!(along.hi > 0.0f && along.lo < whole.hi)) return true;
  const Range t = {larger(along.lo / whole.hi, 0.0f), whole.lo > 0.0f ? smaller(along.hi / whole.lo, 1.0f) : 1.0f};
  return length_max(exactly(px) - (a.x + t * vx), exactly(py) - (a.y + t * vy)) <= reach;
}

// An end that is one point: no segment from it is farther from a box or polygon than itself.
bool end_within(const PointRange& end, const Shapes& s, size_t o) {
  return end.x.lo == end.x.hi && end.y.lo == end.y.hi && point_distance(end.x.lo, end.y.lo, s, o) <= s.reach[o];
}

bool all_blocked_by(const PointRange& a, const PointRange& b, const Shapes& s, size_t o) {
  const float reach = s.reach[o];
  const Box box = bounds_of(s, o);
  if (!(smaller(a.x.hi, b.x.hi) <= box.right && larger(a.x.lo, b.x.lo) >= box.left &&
        smaller(a.y.hi, b.y.hi) <= box.high && larger(a.y.lo, b.y.lo) >= box.low))
    return false;
  if (s.kind[o] == 0) return all_near(s.x[o], s.y[o], a, b, reach);
  if (end_within(a, s, o) || end_within(b, s, o)) return true;
  if (!(0.0f <= reach)) return false;
  float room[8];
  uint32_t count;
  const float* ring = corners_of(s, o, room, &count);
  const float* c = ring + 2 * (size_t(count) - 1);
  for (uint32_t i = 0; i < count; ++i) {
    const float* d = ring + 2 * size_t(i);
    if (all_cross(a, b, c[0], c[1], d[0], d[1])) return true;
    c = d;
  }
  return false;
}

}  // namespace

bool point_blocked(float px, float py, const Shapes& shapes) {
  for (size_t o = 0; o < shapes.count; ++o)
    if (point_distance(px, py, shapes, o) <= shapes.reach[o]) return true;
  return false;
}

bool segment_blocked(float ax, float ay, float bx, float by, const Shapes& shapes) {
  for (size_t o = 0; o < shapes.count; ++o)
    if (blocks(ax, ay, bx, by, shapes, o)) return true;
  return false;
}

bool shape_blocks_all(const Rect& a, const Rect& b, const Shapes& shapes, size_t o) {
  return all_blocked_by({{a.x0, a.x1}, {a.y0, a.y1}}, {{b.x0, b.x1}, {b.y0, b.y1}}, shapes, o);
}

bool shape_within_reach(float ax, float ay, float bx, float by, const Shapes& shapes, size_t o) {
  return within_reach(ax, ay, bx, by, shapes, o);
}

Rect shape_bounds(const Shapes& shapes, size_t o) {
  const Box box = bounds_of(shapes, o);
  return {box.left, box.low, box.right, box.high};
}

void blocked_points(const float* x, const float* y, size_t n, const Shapes& shapes, uint8_t* out) {
  FpGuard guard;
  for (size_t i = 0; i < n; ++i) out[i] = point_blocked(x[i], y[i], shapes);
}

void blocked_segments(const float* ax, const float* ay, const float* bx, const float* by, size_t n,
                      const Shapes& shapes, void* workspace, uint8_t* out) {
  FpGuard guard;
  if (workspace == nullptr) {
    for (size_t i = 0; i < n; ++i) out[i] = segment_blocked(ax[i], ay[i], bx[i], by[i], shapes);
    return;
  }
  Arena arena(workspace);
  const WayIndex ways(&shapes, arena);
  for (size_t i = 0; i < n; ++i) out[i] = ways.blocker(ax[i], ay[i], bx[i], by[i]) != kDead;
}

size_t ways_workspace(size_t shapes) { return WayIndex::workspace(shapes); }

}  // namespace DW_ISA
