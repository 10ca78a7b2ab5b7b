#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <vector>

#include "droveway/area.hpp"
#include "droveway/interpreter_exit.hpp"
#include "event_objects.hpp"
#include "gate.hpp"
#include "table.hpp"

namespace nb = nanobind;
using droveway::StorageTable;
using droveway::hash_bytes;
using droveway::owned;

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

// The next of an iterator, whose Python code may give up the interpreter's lock; null at its end and where it raised.
PyObject* next_of(const nb::handle& iterator) {
  return droveway::unless_interpreter_ends([&] { return PyIter_Next(iterator.ptr()); });
}

template <class Work>
void run(size_t bytes, Work work) {
  if (bytes < release_bytes) return work();
  droveway::InterpreterUnlocked unlocked;
  work();
}

// The bytes objects of a list, kept alive while the interpreter's lock is given up.
nb::tuple held_bytes(const nb::list& items, const char* refusal) {
  nb::tuple held(items);
  for (size_t i = 0; i < held.size(); ++i)
    if (!PyBytes_CheckExact(PyTuple_GET_ITEM(held.ptr(), Py_ssize_t(i)))) throw nb::type_error(refusal);
  return held;
}

void check_context(const nb::bytes& context) {
  if (context.size() > droveway::blake3_chunk_bytes) throw nb::value_error("event_ids: context is longer than a chunk");
}

nb::bytes event_ids(const nb::bytes& context, const nb::list& events) {
  const StorageTable& t = kernels();
  const nb::tuple held = held_bytes(events, "event_ids: every event must be bytes");
  check_context(context);
  std::vector<const uint8_t*> data(held.size());
  std::vector<size_t> sizes(held.size());
  size_t total = 0, chunks = 0;
  for (size_t i = 0; i < held.size(); ++i) {
    PyObject* event = PyTuple_GET_ITEM(held.ptr(), Py_ssize_t(i));
    data[i] = droveway::bytes_at(event), sizes[i] = size_t(PyBytes_GET_SIZE(event));
    total += sizes[i];
    if (sizes[i] > droveway::blake3_chunk_bytes) chunks += sizes[i] / droveway::blake3_chunk_bytes + 1;
  }
  nb::bytes out = blank(held.size() * hash_bytes);
  if (held.size() == 0) return out;
  std::vector<uint8_t> scratch(chunks * hash_bytes + 1);
  run(total, [&, room = room_of(out)] {
    t.derive_hashes(data_of(context), context.size(), data.data(), sizes.data(), data.size(), scratch.data(), room);
  });
  return out;
}

// Rows of `log` (id, then event bytes), ids and joined leaf hashes of events.
nb::tuple prepare(const nb::bytes& context, const nb::sequence& sequence) {
  const StorageTable& t = kernels();
  check_context(context);
  const nb::tuple events(sequence);
  const size_t n = events.size();
  nb::object rows = owned(PyList_New(Py_ssize_t(n))), ids = owned(PyList_New(Py_ssize_t(n)));
  droveway::Hashed hashed;
  droveway::FieldsOf reading;
  for (size_t i = 0; i < n; ++i) {
    PyObject* event = PyTuple_GET_ITEM(events.ptr(), Py_ssize_t(i));
    if (!droveway::event_slots.fit(event)) throw nb::type_error("prepare: everything appended must be an Event");
    nb::bytes row;
    size_t size = 0;
    if (reading.read(event) && (size = t.write_event(reading.fields, nullptr)) <= droveway::event_bytes_max) {
      row = blank(hash_bytes + size);
      t.write_event(reading.fields, room_of(row) + hash_bytes);
    } else {
      const nb::object encoded = nb::handle(event).attr("encode")();  // names the fault
      if (!PyBytes_CheckExact(encoded.ptr())) throw nb::type_error("prepare: an event encodes to bytes");
      size = size_t(PyBytes_GET_SIZE(encoded.ptr()));
      row = blank(hash_bytes + size);
      std::memcpy(room_of(row) + hash_bytes, droveway::bytes_at(encoded.ptr()), size);
    }
    hashed.add(room_of(row) + hash_bytes, size);
    PyList_SET_ITEM(rows.ptr(), Py_ssize_t(i), row.release().ptr());
  }
  hashed.make_room();
  run(hashed.bytes, [&] { hashed.hash(t, data_of(context), context.size()); });
  for (size_t i = 0; i < n; ++i) {
    const uint8_t* id = hashed.ids.data() + hash_bytes * i;
    std::memcpy(PyBytes_AS_STRING(PyList_GET_ITEM(rows.ptr(), Py_ssize_t(i))), id, hash_bytes);
    PyList_SET_ITEM(ids.ptr(), Py_ssize_t(i), droveway::bytes_of(id, hash_bytes));
  }
  return nb::make_tuple(rows, ids, nb::bytes(hashed.leaves.data(), n * hash_bytes));
}

nb::bytes rank_key(uint64_t rank) {
  nb::bytes key = blank(8);
  droveway::store_big_u64(room_of(key), rank);
  return key;
}

nb::object entry(const nb::object& family, PyObject* key, PyObject* value) {
  nb::object out = owned(PyTuple_New(3));
  PyTuple_SET_ITEM(out.ptr(), 0, nb::object(family).release().ptr());
  PyTuple_SET_ITEM(out.ptr(), 1, nb::borrow(key).release().ptr());
  PyTuple_SET_ITEM(out.ptr(), 2, nb::borrow(value).release().ptr());
  return out;
}

void check_same_length(const nb::list& a, const nb::list& b, const char* refusal) {
  if (a.size() != b.size()) throw nb::value_error(refusal);
}

// For each event what is put into `log` and into `ids`.
nb::object entries(uint64_t first, const nb::list& ids, const nb::list& rows) {
  check_same_length(ids, rows, "entries: as many ids as rows are needed");
  const nb::object log = nb::str("log"), id_family = nb::str("ids");
  nb::object out = owned(PyList_New(Py_ssize_t(2 * ids.size())));
  for (size_t i = 0; i < ids.size(); ++i) {
    const nb::bytes key = rank_key(first + i);
    PyObject* id = PyList_GET_ITEM(ids.ptr(), Py_ssize_t(i));
    PyObject* row = PyList_GET_ITEM(rows.ptr(), Py_ssize_t(i));
    PyList_SET_ITEM(out.ptr(), Py_ssize_t(2 * i), entry(log, key.ptr(), row).release().ptr());
    PyList_SET_ITEM(out.ptr(), Py_ssize_t(2 * i + 1), entry(id_family, id, key.ptr()).release().ptr());
  }
  return out;
}

nb::object receipts(uint64_t first, const nb::list& ids, const nb::object& size, const nb::object& root) {
  nb::object out = owned(PyList_New(Py_ssize_t(ids.size())));
  for (size_t i = 0; i < ids.size(); ++i) {
    PyObject* id = PyList_GET_ITEM(ids.ptr(), Py_ssize_t(i));
    PyList_SET_ITEM(out.ptr(), Py_ssize_t(i), droveway::make_receipt(first + i, id, size.ptr(), root.ptr()).release().ptr());
  }
  return out;
}

nb::object cursor_of(uint64_t sequence, const nb::handle& id) {
  nb::object out = owned(PyTuple_New(2));
  PyTuple_SET_ITEM(out.ptr(), 0, droveway::number_of(sequence));
  PyTuple_SET_ITEM(out.ptr(), 1, nb::borrow(id).release().ptr());
  return out;
}

// Reads a cursor, (sequence, id) or None; false where it is something else.
bool read_cursor(PyObject* cursor, bool& some, uint64_t& sequence) {
  some = cursor != Py_None;
  return !some || (PyTuple_CheckExact(cursor) && PyTuple_GET_SIZE(cursor) == 2 &&
                   droveway::FieldsOf::number(PyTuple_GET_ITEM(cursor, 0), sequence));
}

// Moves the cursors (producer -> (sequence, id) or None) over the events from `start` on; returns where it stopped: at
// an event whose producer isn't in the cursors, or whose sequence number is not above its cursor.
size_t advance(size_t start, const nb::sequence& sequence, const nb::list& ids, nb::dict& cursors) {
  const nb::tuple events(sequence);
  if (events.size() != ids.size()) throw nb::value_error("advance: as many ids as events are needed");
  nb::object producer;
  uint64_t reached = 0;
  bool some = false, moved = false;
  size_t i = start;
  const auto put_back = [&] {
    if (moved) cursors[producer] = cursor_of(reached, nb::handle(PyList_GET_ITEM(ids.ptr(), Py_ssize_t(i - 1))));
    moved = false;
  };
  for (; i < events.size(); ++i) {
    PyObject* event = PyTuple_GET_ITEM(events.ptr(), Py_ssize_t(i));
    if (!droveway::event_slots.are_of(event) || !droveway::event_slots.are_all_set(event)) break;
    PyObject* name = droveway::event_slots.get(event, droveway::producer_slot);
    if (!PyUnicode_CheckExact(name)) break;
    if (!producer.is_valid() || (name != producer.ptr() && PyUnicode_Compare(name, producer.ptr()) != 0)) {
      put_back();
      producer = nb::borrow(name);
      PyObject* cursor = PyDict_GetItemWithError(cursors.ptr(), name);
      if (cursor == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      if (cursor == nullptr || !read_cursor(cursor, some, reached)) break;
    }
    uint64_t number = 0;
    if (!droveway::FieldsOf::number(droveway::event_slots.get(event, droveway::sequence_slot), number)) break;
    if (some && number <= reached) break;
    reached = number, some = moved = true;
  }
  put_back();
  return i;
}

// Values of `log` from an iterator of (key, value), in order of rank from `first`: (values, end). end: None when the
// count or the bytes are reached, () at the end of the iterator, the exception it raised, or the pair that is not the
// next rank or larger than `value_bytes_max`.
nb::tuple take(const nb::object& iterator, uint64_t first, size_t count, size_t bytes_max, size_t value_bytes_max) {
  nb::list values;
  nb::object end = nb::none();
  uint8_t key[8];
  for (size_t held = 0; values.size() < count && held < bytes_max;) {
    PyObject* next = next_of(iterator);
    if (next == nullptr) {
      if (PyErr_Occurred() == nullptr) {
        end = nb::tuple();
      } else {
        const nb::python_error error;
        end = nb::borrow(error.value());
      }
      break;
    }
    nb::object pair = nb::steal(next);
    if (!PyTuple_CheckExact(next) || PyTuple_GET_SIZE(next) != 2 || !PyBytes_CheckExact(PyTuple_GET_ITEM(next, 0)) ||
        !PyBytes_CheckExact(PyTuple_GET_ITEM(next, 1)))
      throw nb::type_error("take: the iterator must give pairs of bytes");
    PyObject* value = PyTuple_GET_ITEM(next, 1);
    droveway::store_big_u64(key, first + values.size());
    if (PyBytes_GET_SIZE(PyTuple_GET_ITEM(next, 0)) != 8 || PyBytes_GET_SIZE(value) > Py_ssize_t(value_bytes_max) ||
        std::memcmp(droveway::bytes_at(PyTuple_GET_ITEM(next, 0)), key, 8) != 0) {
      end = pair;
      break;
    }
    held += size_t(PyBytes_GET_SIZE(value));
    values.append(nb::borrow(value));
  }
  return nb::make_tuple(values, end);
}

// Hashes and reads stored values; `good` is how many there are before the first that isn't id, canonical event and
// the leaf that the tree holds.
struct Checked : droveway::Hashed {
  std::vector<droveway::EventFields> fields;
  size_t good = 0;

  void check(const StorageTable& t, const nb::bytes& context, const nb::tuple& values, const nb::bytes& held_leaves) {
    check_context(context);
    const size_t n = std::min(values.size(), held_leaves.size() / hash_bytes);
    for (size_t i = 0; i < n; ++i) {
      PyObject* value = PyTuple_GET_ITEM(values.ptr(), Py_ssize_t(i));
      if (PyBytes_GET_SIZE(value) <= Py_ssize_t(droveway::leaf_bytes)) break;  // the leaf of a retired event, or nothing
      add(droveway::bytes_at(value) + hash_bytes, size_t(PyBytes_GET_SIZE(value)) - hash_bytes);
    }
    make_room();
    fields.resize(data.size());
    run(bytes, [&] {
      hash(t, data_of(context), context.size());
      const size_t readable = t.parse_events(data.data(), sizes.data(), data.size(), fields.data());
      for (good = 0; good < readable; ++good) {
        const size_t at = hash_bytes * good;
        if (std::memcmp(data[good] - hash_bytes, ids.data() + at, hash_bytes) != 0) break;
        if (std::memcmp(data_of(held_leaves) + at, leaves.data() + at, hash_bytes) != 0) break;
      }
    });
  }
};

// (rank, event) for the stored values before the first bad one. leaves: what the tree holds, 32 bytes each.
nb::object checked_events(const nb::bytes& context, uint64_t first, const nb::list& values, const nb::bytes& leaves) {
  const nb::tuple held = held_bytes(values, "checked_events: every value must be bytes");
  Checked checked;
  checked.check(kernels(), context, held, leaves);
  droveway::Names producers, kinds;
  nb::object out = owned(PyList_New(Py_ssize_t(checked.good)));
  for (size_t i = 0; i < checked.good; ++i) {
    nb::object event = droveway::make_event(checked.fields[i], producers, kinds);
    nb::object pair = owned(PyTuple_New(2));
    PyTuple_SET_ITEM(pair.ptr(), 0, droveway::number_of(first + i));
    PyTuple_SET_ITEM(pair.ptr(), 1, event.release().ptr());
    PyList_SET_ITEM(out.ptr(), Py_ssize_t(i), pair.release().ptr());
  }
  return out;
}

constexpr size_t id_record_bytes = hash_bytes + 8;

void check_sum(const nb::bytes& key, const nb::bytes& sum) {
  if (key.size() != hash_bytes || sum.size() != hash_bytes) throw nb::value_error("fingerprint: key and sum have 32 bytes");
}

nb::bytes fingerprint(const nb::bytes& key, const nb::bytes& sum, const nb::bytes& records, size_t width) {
  check_sum(key, sum);
  if (width == 0 || width > droveway::blake3_chunk_bytes || records.size() % width != 0)
    throw nb::value_error("fingerprint: records must be a whole number of `width` bytes, and width 1..1024");
  nb::bytes out(sum.c_str(), hash_bytes);
  run(records.size(), [&, room = room_of(out)] {
    kernels().fingerprint(data_of(key), data_of(records), width, records.size() / width, room);
  });
  return out;
}

// The sequence numbers of a batch against the cursors, which move only when all are above theirs.
bool sequences_rise(const Checked& checked, nb::dict& cursors) {
  nb::dict moved;
  nb::object producer;
  uint64_t reached = 0;
  bool some = false;
  const uint8_t* name = nullptr;
  size_t name_bytes = 0, i = 0;
  const auto put_back = [&] {
    if (i != 0) moved[producer] = cursor_of(reached, nb::bytes(checked.ids.data() + hash_bytes * (i - 1), hash_bytes));
  };
  for (; i < checked.good; ++i) {
    const droveway::EventFields& f = checked.fields[i];
    if (i == 0 || f.producer_bytes != name_bytes || std::memcmp(f.producer, name, name_bytes) != 0) {
      put_back();
      name = f.producer, name_bytes = f.producer_bytes;
      producer = owned(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(name), Py_ssize_t(name_bytes), nullptr));
      PyObject* cursor = PyDict_GetItemWithError(moved.ptr(), producer.ptr());
      if (cursor == nullptr) cursor = PyDict_GetItemWithError(cursors.ptr(), producer.ptr());
      if (cursor == nullptr && PyErr_Occurred() != nullptr) throw nb::python_error();
      some = cursor != nullptr;
      if (some && !read_cursor(cursor, some, reached)) return false;
    }
    if (some && f.sequence <= reached) return false;
    reached = f.sequence, some = true;
  }
  put_back();
  if (PyDict_Update(cursors.ptr(), moved.ptr()) != 0) throw nb::python_error();
  return true;
}

// Appends to `shown`, in order of rank: (rank, event) for each event whose kind begins with `prefix`; for all others
// (rank, count, producer, kind, sequence), one for as many in a row as have the same producer and kind and the next
// sequence number.
void show(const Checked& checked, uint64_t first, nb::list& shown, const char* prefix, size_t prefix_bytes) {
  droveway::Names producers, kinds;
  for (size_t i = 0; i < checked.good;) {
    const droveway::EventFields& f = checked.fields[i];
    if (f.kind_bytes >= prefix_bytes && std::memcmp(f.kind, prefix, prefix_bytes) == 0) {
      shown.append(nb::make_tuple(first + i, droveway::make_event(f, producers, kinds)));
      ++i;
      continue;
    }
    size_t count = 1;
    for (; i + count < checked.good; ++count) {
      const droveway::EventFields& g = checked.fields[i + count];
      if (g.sequence != f.sequence + count || g.producer_bytes != f.producer_bytes || g.kind_bytes != f.kind_bytes ||
          std::memcmp(g.producer, f.producer, f.producer_bytes) != 0 || std::memcmp(g.kind, f.kind, f.kind_bytes) != 0)
        break;
    }
    shown.append(nb::make_tuple(first + i, count, nb::steal(producers.of(f.producer, f.producer_bytes)),
                                nb::steal(kinds.of(f.kind, f.kind_bytes)), f.sequence));
    i += count;
  }
}

// Everything an audit asks of a batch of stored values: the fingerprint with (id, rank) of each added, cursors moved,
// events shown where `shown` is a list; or None, and nothing moved, where any of it isn't as it must be.
nb::object audited(const nb::bytes& context, const nb::bytes& key, const nb::bytes& sum, uint64_t first,
                   const nb::list& values, const nb::bytes& leaves, nb::dict& cursors, nb::object shown,
                   const nb::str& prefix) {
  check_sum(key, sum);
  if (!shown.is_none() && !PyList_CheckExact(shown.ptr())) throw nb::type_error("audited: `shown` must be a list or None");
  Py_ssize_t prefix_bytes = 0;
  const char* prefix_at = PyUnicode_AsUTF8AndSize(prefix.ptr(), &prefix_bytes);
  if (prefix_at == nullptr) throw nb::python_error();
  for (size_t i = 0; i < values.size(); ++i)
    if (!PyBytes_CheckExact(PyList_GET_ITEM(values.ptr(), Py_ssize_t(i)))) return nb::none();
  const nb::tuple held(values);
  Checked checked;
  checked.check(kernels(), context, held, leaves);
  if (checked.good != held.size() || !sequences_rise(checked, cursors)) return nb::none();
  std::vector<uint8_t> records(checked.good * id_record_bytes + 1);
  for (size_t i = 0; i < checked.good; ++i) {
    std::memcpy(records.data() + id_record_bytes * i, checked.ids.data() + hash_bytes * i, hash_bytes);
    droveway::store_big_u64(records.data() + id_record_bytes * i + hash_bytes, first + i);
  }
  nb::bytes out(sum.c_str(), hash_bytes);
  kernels().fingerprint(data_of(key), records.data(), id_record_bytes, checked.good, room_of(out));
  if (!shown.is_none()) {
    nb::list list = nb::borrow<nb::list>(shown);
    show(checked, first, list, prefix_at, size_t(prefix_bytes));
  }
  return out;
}

// (how many, their fingerprint) of the (id, rank) pairs of an iterator; None where a pair is no id and rank.
nb::object fingerprint_of_ids(const nb::bytes& key, const nb::object& iterator) {
  nb::bytes sum = blank(hash_bytes);
  std::memset(room_of(sum), 0, hash_bytes);
  check_sum(key, sum);
  constexpr size_t group = 256;
  uint8_t records[group * id_record_bytes];
  size_t count = 0, held = 0;
  const auto add = [&] {
    kernels().fingerprint(data_of(key), records, id_record_bytes, held, room_of(sum));
    count += held, held = 0;
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
  };
  while (PyObject* next = next_of(iterator)) {
    const nb::object pair = nb::steal(next);
    if (!PyTuple_CheckExact(next) || PyTuple_GET_SIZE(next) != 2) throw nb::type_error("fingerprint: expected pairs");
    PyObject *id = PyTuple_GET_ITEM(next, 0), *rank = PyTuple_GET_ITEM(next, 1);
    if (!PyBytes_CheckExact(id) || !PyBytes_CheckExact(rank)) throw nb::type_error("fingerprint: expected pairs of bytes");
    if (PyBytes_GET_SIZE(id) != Py_ssize_t(hash_bytes) || PyBytes_GET_SIZE(rank) != 8) return nb::none();
    std::memcpy(records + id_record_bytes * held, droveway::bytes_at(id), hash_bytes);
    std::memcpy(records + id_record_bytes * held + hash_bytes, droveway::bytes_at(rank), 8);
    if (++held == group) add();
  }
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  add();
  return nb::make_tuple(count, sum);
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

nb::object inclusion_root(uint64_t index, uint64_t size, const nb::bytes& leaf, const nb::bytes& proof, bool portable) {
  if (index >= size) throw nb::value_error("inclusion_root: index must be below size");
  if (leaf.size() != hash_bytes || proof.size() % hash_bytes != 0)
    throw nb::value_error("inclusion_root: leaf and proof are hashes of 32 bytes");
  uint8_t root[hash_bytes];
  std::memcpy(root, leaf.c_str(), hash_bytes);
  const size_t count = proof.size() / hash_bytes;
  if (kernels().inclusion_root(index, size, root, data_of(proof), count, portable) == 0) return nb::none();
  return nb::bytes(root, hash_bytes);
}

}  // namespace

NB_MODULE(_kernels, m) {
  area.bind(m);
  m.def("event_ids", event_ids, nb::arg("context"), nb::arg("events"),
        "32 bytes for each event: BLAKE3 in derive-key mode.");
  m.def("learn_types", [](const nb::object& event, const nb::object& receipt) {
          droveway::event_slots.learn(
              event, {"producer", "effect", "kind", "parents", "sequence", "schema", "tick", "wall_ns"});
          if (!PyType_Check(receipt.ptr()) ||
              !PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(receipt.ptr()), &PyTuple_Type))
            throw nb::type_error("learn_types: a receipt is a tuple");
          droveway::receipt_type = reinterpret_cast<PyTypeObject*>(nb::borrow(receipt).release().ptr());
        }, nb::arg("event"), nb::arg("receipt"), "The classes whose objects the batch functions read and make.");
  m.def("prepare", prepare, nb::arg("context"), nb::arg("events"),
        "(rows, ids, leaves) of events: rows are id and event bytes, leaves the joined leaf hashes.");
  m.def("entries", entries, nb::arg("first"), nb::arg("ids"), nb::arg("rows"),
        "(family, key, value) for `log` and `ids` of events that take the ranks from `first` on.");
  m.def("receipts", receipts, nb::arg("first"), nb::arg("ids"), nb::arg("size"), nb::arg("root"),
        "Receipts of events that took the ranks from `first` on.");
  m.def("advance", advance, nb::arg("start"), nb::arg("events"), nb::arg("ids"), nb::arg("cursors"),
        "Moves cursors over events from `start` on; returns the index of the first that doesn't follow its cursor.");
  m.def("take", take, nb::arg("iterator"), nb::arg("first"), nb::arg("count"), nb::arg("bytes_max"),
        nb::arg("value_bytes_max"), "(values, end) of the next ranks from an iterator over `log`.");
  m.def("checked_events", checked_events, nb::arg("context"), nb::arg("first"), nb::arg("values"), nb::arg("leaves"),
        "(rank, event) for the stored values before the first bad one.");
  m.def("audited", audited, nb::arg("context"), nb::arg("key"), nb::arg("sum"), nb::arg("first"), nb::arg("values"),
        nb::arg("leaves"), nb::arg("cursors"), nb::arg("shown") = nb::none(), nb::arg("prefix") = "",
        "The fingerprint with a batch added, or None where anything is odd; the events, or how many, into `shown`.");
  m.def("fingerprint", fingerprint, nb::arg("key"), nb::arg("sum"), nb::arg("records"), nb::arg("width"),
        "The sum with the keyed BLAKE3 of each record added, as four little-endian u64.");
  m.def("fingerprint_of_ids", fingerprint_of_ids, nb::arg("key"), nb::arg("iterator"),
        "(count, fingerprint) of pairs of id and rank, or None where one is none.");
  m.def("leaf_hashes", leaf_hashes, nb::arg("records"), nb::arg("width"), nb::arg("portable") = false,
        "SHA256(0x00 || record) for each `width` bytes of records.");
  m.def("node_hashes", node_hashes, nb::arg("pairs"), nb::arg("portable") = false,
        "SHA256(0x01 || pair) for each 64 bytes of pairs.");
  m.def("frontier_extend", frontier_extend, nb::arg("size"), nb::arg("frontier"), nb::arg("leaves"),
        nb::arg("portable") = false, "The frontier after appending leaf hashes to a tree of `size` leaves.");
  m.def("frontier_root", frontier_root, nb::arg("frontier"), nb::arg("portable") = false,
        "The root over a frontier that is not empty.");
  m.def("inclusion_root", inclusion_root, nb::arg("index"), nb::arg("size"), nb::arg("leaf"), nb::arg("proof"),
        nb::arg("portable") = false,
        "The root that a proof leads to from a leaf hash, or None where it has too few or too many hashes.");
  m.def("crc32c", [](const nb::bytes& data) { return kernels().crc32c(data_of(data), data.size()); },
        nb::arg("data"), "CRC-32C of data.");
  if (!droveway::add_gates(m.ptr())) throw nb::python_error();
  m.def("xxh3", [](const nb::bytes& data) { return kernels().xxh3(data_of(data), data.size()); },
        nb::arg("data"), "XXH3 of data, 64 bits, seed 0.");
  m.def("compiler", [] { return DW_COMPILER; }, "The compiler that built the kernels.");
  m.def("sha_instructions", [] { return area.has_kernels() && kernels().sha_instructions() != 0; },
        "Whether SHA-256 runs on the processor's own instructions.");
  m.def("leak", [](nb::object object) { object.release(); }, nb::arg("object"),
        "Keep an object until the process ends, and never run its destructor.");
}
