// Twin: storage/selftest_ref.py.
#include <string.h>

#include "table.hpp"

namespace droveway {
namespace {

struct Sink {
  SelfTestEmit emit;
  void* context;
  void operator()(const char* name, const void* data, size_t size) const { emit(context, name, fnv1a(data, size)); }
};

void sha_digests(const StorageTable& table, const uint8_t* bytes, int portable, const Sink& sink) {
  // widths around the limits of one and two blocks; 41 is the leaf
  constexpr size_t widths[] = {1, 41, 54, 55, 62, 63, 64, 118, 119, 127, 200};
  uint8_t out[11 * 7 * 32];
  for (size_t i = 0; i < 11; ++i) table.leaf_hashes(bytes, widths[i], 7, out + i * 7 * 32, portable);
  sink(portable ? "storage.leaf_hashes_portable" : "storage.leaf_hashes", out, sizeof out);

  uint8_t nodes[9 * 32];
  table.node_hashes(bytes, 9, nodes, portable);
  sink(portable ? "storage.node_hashes_portable" : "storage.node_hashes", nodes, sizeof nodes);

  // a tree grown by 1, 2, 3, … 20 leaves: every frontier and root
  uint8_t frontier[frontier_hashes_max * hash_bytes], root[20 * 32];
  uint64_t size = 0, hash = 0xCBF29CE484222325ull;
  for (size_t n = 1; n <= 20; ++n) {
    const size_t count = table.frontier_extend(size, frontier, bytes + size, n, portable);
    size += n;
    hash = fnv1a(frontier, count * hash_bytes, hash);
    table.frontier_root(frontier, count, root + (n - 1) * 32, portable);
  }
  // proofs of every length for every place in trees of up to 20 leaves, right and wrong ones
  uint64_t walked = 0xCBF29CE484222325ull;
  for (uint64_t n = 1; n <= 20; ++n)
    for (uint64_t index = 0; index < n; ++index)
      for (size_t count = 0; count <= 6; ++count) {
        uint8_t hash_and_answer[hash_bytes + 1];
        memcpy(hash_and_answer, bytes + n, hash_bytes);
        const int whole = table.inclusion_root(index, n, hash_and_answer, bytes + 32 * index, count, portable);
        hash_and_answer[hash_bytes] = uint8_t(whole);
        if (whole) walked = fnv1a(hash_and_answer, sizeof hash_and_answer, walked);
      }
  sink.emit(sink.context, portable ? "storage.inclusion_root_portable" : "storage.inclusion_root", walked);
  sink.emit(sink.context, portable ? "storage.frontier_extend_portable" : "storage.frontier_extend", hash);
  sink(portable ? "storage.frontier_root_portable" : "storage.frontier_root", root, sizeof root);
}

// Inputs of several chunks, mixed with shorter ones, so that lanes take up new inputs at all times.
void tree_digests(const StorageTable& table, const Sink& sink) {
  constexpr size_t n = 24, longest = 20000;
  constexpr size_t sizes[n] = {1025, 0,    2048, 2049, 3,     3072, 4096, 5000, 64,  8192,  8193, 1024,
                               7167, 9000, 1,    310,  16384, 311,  2047, 17408, 65, 20000, 4097, 6144};
  static uint8_t bytes[longest + n];
  SplitMix64 generator{0x7472656573ull};
  for (uint8_t& byte : bytes) byte = uint8_t(generator.next() >> 56);
  const uint8_t* data[n];
  size_t chunks = 0;
  for (size_t i = 0; i < n; ++i) data[i] = bytes + i, chunks += (sizes[i] + 1023) / 1024;
  static uint8_t scratch[200 * hash_bytes];
  uint8_t ids[n * hash_bytes];
  if (chunks > 200) return;
  table.derive_hashes(bytes, 24, data, sizes, n, scratch, ids);
  sink("storage.derive_trees", ids, sizeof ids);

  uint8_t sum[hash_bytes] = {};
  table.fingerprint(bytes, bytes + 32, 40, 300, sum);
  sink("storage.fingerprint", sum, sizeof sum);
}

// Events with fields of every width, written, read back and written again.
void event_digests(const StorageTable& table, const Sink& sink) {
  static uint8_t bytes[70000];
  SplitMix64 generator{0x6576656E7473ull};
  for (uint8_t& byte : bytes) byte = uint8_t(generator.next() >> 56);
  static uint8_t written[80000], again[80000];
  constexpr uint32_t effects[8] = {0, 1, 255, 256, 300, 65535, 65536, 31};
  uint64_t hash = 0xCBF29CE484222325ull;
  for (int i = 0; i < 64; ++i) {
    const uint64_t x = generator.next(), y = generator.next();
    uint8_t parents[16 * hash_bytes];
    for (size_t p = 0; p < 16; ++p) {
      memcpy(parents + hash_bytes * p, bytes + 32 * p, hash_bytes);
      parents[hash_bytes * p] = uint8_t(p);
    }
    EventFields f{};
    const uint8_t* name = reinterpret_cast<const uint8_t*>("abcdefghijklmnopqrstuvwxyz0123456789._-abcdefghijklmnopqrstuvwxyz");
    f.producer = name, f.producer_bytes = uint8_t(1 + i);
    f.kind = name, f.kind_bytes = uint8_t(64 - i);
    f.effect = bytes, f.effect_bytes = effects[i % 8];
    f.parents = parents, f.parent_count = uint8_t(i % 17), f.parent_stride = hash_bytes;
    f.sequence = x >> i, f.tick = y >> (63 - i), f.schema = uint32_t(x) >> (i % 32);
    f.has_wall = i % 3 != 0;
    const int64_t wall = int64_t(y >> 1 >> (i % 63));
    f.wall_ns = f.has_wall ? (i % 2 ? -1 - wall : wall) : 0;
    const size_t size = table.write_event(f, written);
    hash = fnv1a(written, size, hash);
    EventFields read{};
    const uint8_t* data[1] = {written};
    const size_t good = table.parse_events(data, &size, 1, &read);
    const size_t same = good == 1 ? table.write_event(read, again) : 0;
    hash = fnv1a(again, same, hash);
    ++written[i % 3];  // another map, key or header: refused
    const uint8_t refused = uint8_t(table.parse_events(data, &size, 1, &read));
    hash = fnv1a(&refused, 1, hash);
  }
  sink.emit(sink.context, "storage.events", hash);
}

}  // namespace

void storage_self_test(const StorageTable& table, SelfTestEmit emit, void* context) {
  const Sink sink{emit, context};
  uint8_t bytes[2048];
  SplitMix64 generator{0x73746F72616765ull};
  for (uint8_t& byte : bytes) byte = uint8_t(generator.next() >> 56);

  constexpr size_t sizes[] = {0, 1, 63, 64, 65, 127, 128, 129, 256, 1000, 1023, 1024};
  const uint8_t* data[12];
  for (size_t i = 0; i < 12; ++i) data[i] = bytes + i;
  uint8_t ids[12 * 32];
  table.derive_hashes(bytes, 24, data, sizes, 12, nullptr, ids);
  sink("storage.derive_chunks", ids, sizeof ids);

  tree_digests(table, sink);
  event_digests(table, sink);
  sha_digests(table, bytes, 0, sink);
  sha_digests(table, bytes, 1, sink);

  uint32_t crc[40];
  for (size_t i = 0; i < 40; ++i) crc[i] = table.crc32c(bytes + i, i * i);
  sink("storage.crc32c", crc, sizeof crc);

  // every length up to 299, and some on both sides of whole blocks of 1024 bytes
  uint64_t xxh[300 + 8];
  constexpr size_t lengths[8] = {960, 1023, 1024, 1025, 1088, 1089, 2000, 2047};
  for (size_t i = 0; i < 300; ++i) xxh[i] = table.xxh3(bytes + i, i);
  for (size_t i = 0; i < 8; ++i) xxh[300 + i] = table.xxh3(bytes, lengths[i]);
  sink("storage.xxh3", xxh, sizeof xxh);
}

}  // namespace droveway
