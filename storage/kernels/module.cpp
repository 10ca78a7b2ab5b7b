#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstdio>
#include <vector>

#include "droveway/area.hpp"
#include "table.hpp"

namespace nb = nanobind;
using droveway::StorageTable;
using droveway::hash_bytes;

namespace {

constexpr size_t release_bytes = 16384;  // below this, giving up the interpreter's lock costs more than it gains

droveway::Area<StorageTable> area("storage", DW_TABLES(storage_table), droveway::storage_self_test);

const StorageTable& kernels() { return area.kernels(); }

const uint8_t* data_of(const nb::bytes& b) { return reinterpret_cast<const uint8_t*>(b.c_str()); }

// New bytes of a size, to be filled before anybody else sees them.
nb::bytes blank(size_t size) {
  PyObject* object = PyBytes_FromStringAndSize(nullptr, Py_ssize_t(size));
  if (object == nullptr) throw nb::python_error();
  return nb::steal<nb::bytes>(object);
}

uint8_t* room_of(nb::bytes& b) { return reinterpret_cast<uint8_t*>(PyBytes_AS_STRING(b.ptr())); }

template <class Work>
void run(size_t bytes, Work work) {
  if (bytes < release_bytes) return work();
  nb::gil_scoped_release release;
  work();
}

nb::bytes event_ids(const nb::bytes& context, const nb::list& events) {
  const StorageTable& t = kernels();
  const nb::tuple held(events);  // keeps the events alive while the lock is given up
  std::vector<const uint8_t*> data;
  std::vector<size_t> sizes, places;
  size_t total = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    PyObject* event = PyTuple_GET_ITEM(held.ptr(), Py_ssize_t(i));
    if (!PyBytes_Check(event)) throw nb::type_error("event_ids: every event must be bytes");
    const size_t size = size_t(PyBytes_GET_SIZE(event));
    if (size > droveway::blake3_chunk_bytes) continue;
    data.push_back(reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(event)));
    sizes.push_back(size);
    places.push_back(i);
    total += size;
  }
  if (context.size() > droveway::blake3_chunk_bytes) throw nb::value_error("event_ids: context is longer than a chunk");
  nb::bytes out = blank(held.size() * hash_bytes);
  uint8_t* room = room_of(out);
  if (places.size() != held.size()) std::memset(room, 0, held.size() * hash_bytes);
  run(total, [&] {
    if (places.size() == held.size()) {
      t.derive_chunks(data_of(context), context.size(), data.data(), sizes.data(), data.size(), room);
      return;
    }
    std::vector<uint8_t> ids(data.size() * hash_bytes + 1);
    t.derive_chunks(data_of(context), context.size(), data.data(), sizes.data(), data.size(), ids.data());
    for (size_t i = 0; i < places.size(); ++i)
      std::memcpy(room + places[i] * hash_bytes, ids.data() + i * hash_bytes, hash_bytes);
  });
  return out;
}

nb::bytes leaf_hashes(const nb::bytes& records, size_t width, bool portable) {
  const StorageTable& t = kernels();
  if (width == 0 || records.size() % width != 0)
    throw nb::value_error("leaf_hashes: records must be a whole number of `width` bytes, and width at least 1");
  const size_t n = records.size() / width;
  nb::bytes out = blank(n * hash_bytes);
  run(records.size(), [&, room = room_of(out)] { t.leaf_hashes(data_of(records), width, n, room, portable); });
  return out;
}

nb::bytes node_hashes(const nb::bytes& pairs, bool portable) {
  const StorageTable& t = kernels();
  if (pairs.size() % 64 != 0) throw nb::value_error("node_hashes: pairs must be a whole number of 64 bytes");
  const size_t n = pairs.size() / 64;
  nb::bytes out = blank(n * hash_bytes);
  run(pairs.size(), [&, room = room_of(out)] { t.node_hashes(data_of(pairs), n, room, portable); });
  return out;
}

nb::bytes frontier_extend(uint64_t size, const nb::bytes& frontier, const nb::bytes& leaves, bool portable) {
  const StorageTable& t = kernels();
  if (frontier.size() != hash_bytes * size_t(__builtin_popcountll(size)))
    throw nb::value_error("frontier_extend: a frontier has 32 bytes for each 1 bit of the size");
  if (leaves.size() % hash_bytes != 0) throw nb::value_error("frontier_extend: leaves must have 32 bytes each");
  const size_t n = leaves.size() / hash_bytes;
  if (size > (uint64_t(1) << 62) || n > (uint64_t(1) << 58)) throw nb::value_error("frontier_extend: the tree is too large");
  uint8_t work[(droveway::frontier_hashes_max + 1) * hash_bytes];
  std::memcpy(work, frontier.c_str(), frontier.size());
  size_t count = 0;
  run(leaves.size(), [&] { count = t.frontier_extend(size, work, data_of(leaves), n, portable); });
  return nb::bytes(work, count * hash_bytes);
}

nb::bytes frontier_root(const nb::bytes& frontier, bool portable) {
  const StorageTable& t = kernels();
  if (frontier.size() == 0 || frontier.size() % hash_bytes != 0)
    throw nb::value_error("frontier_root: a frontier has 32 bytes for each hash, and one at least");
  uint8_t root[hash_bytes];
  t.frontier_root(data_of(frontier), frontier.size() / hash_bytes, root, portable);
  return nb::bytes(root, hash_bytes);
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("event_ids", event_ids, nb::arg("context"), nb::arg("events"),
        "32 bytes for each event: BLAKE3 in derive-key mode, or zeros where it is longer than 1,024 bytes.");
  m.def("leaf_hashes", leaf_hashes, nb::arg("records"), nb::arg("width"), nb::arg("portable") = false,
        "SHA256(0x00 || record) for each `width` bytes of records.");
  m.def("node_hashes", node_hashes, nb::arg("pairs"), nb::arg("portable") = false,
        "SHA256(0x01 || pair) for each 64 bytes of pairs.");
  m.def("frontier_extend", frontier_extend, nb::arg("size"), nb::arg("frontier"), nb::arg("leaves"),
        nb::arg("portable") = false, "The frontier after appending leaf hashes to a tree of `size` leaves.");
  m.def("frontier_root", frontier_root, nb::arg("frontier"), nb::arg("portable") = false,
        "The root over a frontier that is not empty.");
  m.def("crc32c", [](const nb::bytes& data) { return kernels().crc32c(data_of(data), data.size()); },
        nb::arg("data"), "CRC-32C of data.");
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("sha_instructions", [] { return area.has_kernels() && kernels().sha_instructions() != 0; },
        "Whether SHA-256 runs on the processor's own instructions.");
  m.def("leak", [](nb::object object) { object.release(); }, nb::arg("object"),
        "Keep an object until the process ends, and never run its destructor.");
}
