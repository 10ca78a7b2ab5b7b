// Event v1 read and written (docs/formats/event.md). Reading accepts exactly the canonical bytes of an event: shortest
// headers, the keys in their order, every field in its range, nothing behind. Twins: Event.decode, Event.encode.
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "event_format.hpp"
#include "kernels.hpp"

namespace DW_ISA {
namespace {

using droveway::EventFields;

// A place in bytes. Whatever doesn't fit ends the reading: `ok` stays false and nothing behind the end is looked at.
struct Reader {
  const uint8_t* at;
  const uint8_t* end;
  bool ok = true;

  size_t left() const { return size_t(end - at); }

  bool need(size_t n) {
    if (left() < n) ok = false;
    return ok;
  }

  uint8_t byte() { return need(1) ? *at++ : 0; }

  uint64_t big(int bytes) {
    if (!need(size_t(bytes))) return 0;
    uint64_t x = 0;
    for (int i = 0; i < bytes; ++i) x = x << 8 | at[i];
    at += bytes;
    return x;
  }

  const uint8_t* take(size_t n) {
    if (!need(n)) return at;
    const uint8_t* start = at;
    at += n;
    return start;
  }

  void key(uint8_t name) {
    if (!need(2)) return;
    if (at[0] != 0xA1 || at[1] != name) ok = false;
    at += 2;
  }

  uint64_t unsigned_number() {
    const uint8_t code = byte();
    if (code < 0x80) return code;
    if (code < 0xCC || code > 0xCF) return fail();
    const int shift = code - 0xCC;
    const uint64_t x = big(1 << shift);
    const uint64_t least = shift == 0 ? 128 : uint64_t(1) << (8 << (shift - 1));
    return x < least ? fail() : x;
  }

  int64_t signed_number() {
    if (!need(1)) return 0;
    const uint8_t code = *at;
    if (code < 0xD0) {
      const uint64_t x = unsigned_number();
      return x >> 63 ? int64_t(fail()) : int64_t(x);
    }
    ++at;
    if (code >= 0xE0) return int64_t(code) - 256;
    if (code > 0xD3) return int64_t(fail());
    const int shift = code - 0xD0, bits = 8 << shift;
    const uint64_t x = big(1 << shift);
    if ((x >> (bits - 1) & 1) == 0) return int64_t(fail());
    const int64_t value = int64_t(shift == 3 ? x : x | ~uint64_t(0) << bits);
    const int64_t limit = shift == 0 ? -32 : -(int64_t(1) << ((4 << shift) - 1));
    return value < limit ? value : int64_t(fail());
  }

  uint64_t fail() {
    ok = false;
    return 0;
  }
};

// UTF-8 as Python decodes it: no longer form than needed, no surrogate, nothing above U+10FFFF.
bool is_utf8(const uint8_t* p, size_t n) {
  for (size_t i = 0; i < n;) {
    const uint8_t lead = p[i];
    if (lead < 0x80) {
      ++i;
      continue;
    }
    const size_t more = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || n - i <= more) return false;
    const uint8_t second = p[i + 1];
    const uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (second < low || second > high) return false;
    for (size_t k = 2; k <= more; ++k)
      if ((p[i + k] & 0xC0) != 0x80) return false;
    i += more + 1;
  }
  return true;
}

bool is_kind(const uint8_t* p, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const uint8_t c = p[i];
    if (!((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-')) return false;
  }
  return true;
}

const uint8_t* read_name(Reader& in, uint8_t& bytes) {
  const uint8_t code = in.byte();
  size_t n = code & 0x1Fu;
  if (code == 0xD9) {
    n = in.byte();
    if (n < 32) in.ok = false;
  } else if (code < 0xA0 || code > 0xBF) {
    in.ok = false;
  }
  if (n == 0 || n > droveway::name_bytes_max) in.ok = false;
  if (!in.ok) return in.at;
  bytes = uint8_t(n);
  return in.take(n);
}

const uint8_t* read_effect(Reader& in, uint32_t& bytes) {
  const uint8_t code = in.byte();
  if (code < 0xC4 || code > 0xC6) in.ok = false;
  if (!in.ok) return in.at;
  const uint64_t n = in.big(1 << (code - 0xC4));
  if ((code == 0xC5 && n < 0x100) || (code == 0xC6 && n < 0x10000)) in.ok = false;
  bytes = uint32_t(n);
  return in.ok ? in.take(size_t(n)) : in.at;
}

const uint8_t* read_parents(Reader& in, uint8_t& count) {
  const uint8_t code = in.byte();
  size_t n = code & 0x0Fu;
  if (code == 0xDC) {
    n = size_t(in.big(2));
    if (n != droveway::parents_max) in.ok = false;
  } else if (code < 0x90 || code > 0x9F) {
    in.ok = false;
  }
  if (!in.ok || !in.need(34 * n)) return in.at;
  const uint8_t* first = in.take(34 * n);
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* p = first + 34 * i;
    if (p[0] != 0xC4 || p[1] != 0x20 || (i != 0 && memcmp(p - 32, p + 2, 32) >= 0)) in.ok = false;
  }
  count = uint8_t(n);
  return first + 2;
}

bool parse(const uint8_t* data, size_t size, EventFields& f) {
  if (size > droveway::event_bytes_max) return false;
  Reader in{data, data + size};
  const uint8_t code = in.byte();
  if (code != 0x87 && code != 0x88) return false;
  f.has_wall = code == 0x88;
  in.key('a');
  f.producer = read_name(in, f.producer_bytes);
  in.key('e');
  if (!in.ok) return false;
  f.effect = read_effect(in, f.effect_bytes);
  in.key('k');
  if (!in.ok) return false;
  f.kind = read_name(in, f.kind_bytes);
  in.key('p');
  if (!in.ok) return false;
  f.parents = read_parents(in, f.parent_count);
  f.parent_stride = 34;
  in.key('q');
  f.sequence = in.unsigned_number();
  in.key('s');
  const uint64_t schema = in.unsigned_number();
  if (schema >> 32) in.ok = false;
  f.schema = uint32_t(schema);
  in.key('t');
  f.tick = in.unsigned_number();
  f.wall_ns = 0;
  if (f.has_wall) {
    in.key('w');
    f.wall_ns = in.signed_number();
  }
  return in.ok && in.at == in.end && is_utf8(f.producer, f.producer_bytes) && is_kind(f.kind, f.kind_bytes);
}

// Writes, or counts where `out` is null.
struct Writer {
  uint8_t* out;
  size_t size = 0;

  void byte(uint8_t x) {
    if (out != nullptr) out[size] = x;
    ++size;
  }

  void bytes(const uint8_t* p, size_t n) {
    if (out != nullptr && n != 0) memcpy(out + size, p, n);
    size += n;
  }

  void big(uint64_t x, int n) {
    for (int shift = 8 * (n - 1); shift >= 0; shift -= 8) byte(uint8_t(x >> shift));
  }

  void key(uint8_t name) { byte(0xA1), byte(name); }

  void number(uint64_t x) {
    if (x < 128) return byte(uint8_t(x));
    const int shift = x >> 8 == 0 ? 0 : x >> 16 == 0 ? 1 : x >> 32 == 0 ? 2 : 3;
    byte(uint8_t(0xCC + shift));
    big(x, 1 << shift);
  }

  void signed_number(int64_t x) {
    if (x >= 0) return number(uint64_t(x));
    if (x >= -32) return byte(uint8_t(x));
    const int shift = x >= -128 ? 0 : x >= -32768 ? 1 : x >= -(int64_t(1) << 31) ? 2 : 3;
    byte(uint8_t(0xD0 + shift));
    big(uint64_t(x), 1 << shift);
  }

  void name(const uint8_t* p, size_t n) {
    if (n >= 32) byte(0xD9);
    byte(uint8_t(n < 32 ? 0xA0 | n : n));
    bytes(p, n);
  }

  void effect(const uint8_t* p, size_t n) {
    const int shift = n >> 8 == 0 ? 0 : n >> 16 == 0 ? 1 : 2;
    byte(uint8_t(0xC4 + shift));
    big(n, 1 << shift);
    bytes(p, n);
  }
};

}  // namespace

size_t parse_events(const uint8_t* const* data, const size_t* sizes, size_t n, EventFields* out) {
  for (size_t i = 0; i < n; ++i)
    if (!parse(data[i], sizes[i], out[i])) return i;
  return n;
}

size_t write_event(const EventFields& f, uint8_t* out) {
  Writer w{out};
  w.byte(f.has_wall ? 0x88 : 0x87);
  w.key('a');
  w.name(f.producer, f.producer_bytes);
  w.key('e');
  w.effect(f.effect, f.effect_bytes);
  w.key('k');
  w.name(f.kind, f.kind_bytes);
  w.key('p');
  if (f.parent_count < 16) w.byte(uint8_t(0x90 | f.parent_count));
  if (f.parent_count == 16) w.byte(0xDC), w.big(16, 2);
  for (size_t i = 0; i < f.parent_count; ++i) {
    w.byte(0xC4), w.byte(0x20);
    w.bytes(f.parents + f.parent_stride * i, 32);
  }
  w.key('q');
  w.number(f.sequence);
  w.key('s');
  w.number(f.schema);
  w.key('t');
  w.number(f.tick);
  if (f.has_wall) {
    w.key('w');
    w.signed_number(f.wall_ns);
  }
  return w.size;
}

}  // namespace DW_ISA
