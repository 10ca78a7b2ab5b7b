// Twin: storage/selftest_ref.py.
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
  sink.emit(sink.context, portable ? "storage.frontier_extend_portable" : "storage.frontier_extend", hash);
  sink(portable ? "storage.frontier_root_portable" : "storage.frontier_root", root, sizeof root);
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
  table.derive_chunks(bytes, 24, data, sizes, 12, ids);
  sink("storage.derive_chunks", ids, sizeof ids);

  sha_digests(table, bytes, 0, sink);
  sha_digests(table, bytes, 1, sink);

  uint32_t crc[40];
  for (size_t i = 0; i < 40; ++i) crc[i] = table.crc32c(bytes + i, i * i);
  sink("storage.crc32c", crc, sizeof crc);
}

}  // namespace droveway
