// Events and receipts as Python objects, a batch at a time. Included by module.cpp only.
//
// The slots of Event are read and written where their member descriptors say they lie: the constructor
// would check again, field by field, what the kernels have checked. Whatever isn't as the constructor leaves it goes
// back to Python, which names the fault.
#pragma once
#include <nanobind/nanobind.h>
#include <structmember.h>

#include <cstring>
#include <vector>

#include "table.hpp"

namespace droveway {

namespace nb = nanobind;

// The slots of a class, in the order of its fields.
class Slots {
 public:
  void learn(nb::handle type, std::initializer_list<const char*> names) {
    if (!PyType_Check(type.ptr())) throw nb::type_error("learn_types: expected a class");
    std::vector<Py_ssize_t> found;
    for (const char* name : names) {
      const nb::object member = nb::getattr(type, name);
      if (Py_TYPE(member.ptr()) != &PyMemberDescr_Type) throw nb::type_error("learn_types: every field must be a slot");
      const PyMemberDef* slot = reinterpret_cast<PyMemberDescrObject*>(member.ptr())->d_member;
      if (slot->type != T_OBJECT_EX) throw nb::type_error("learn_types: every slot must hold an object");
      found.push_back(slot->offset);
    }
    at_ = found;
    type_ = reinterpret_cast<PyTypeObject*>(nb::borrow(type).release().ptr());  // classes live as long as the process
  }

  bool are_of(PyObject* object) const { return Py_TYPE(object) == type_; }

  // Of the class or of one derived from it.
  bool fit(PyObject* object) const { return type_ != nullptr && PyObject_TypeCheck(object, type_); }

  PyObject* get(PyObject* object, int i) const { return *place(object, i); }

  // Steals `value`, which may be null after a failure.
  void set(PyObject* object, int i, PyObject* value) const { *place(object, i) = value; }

  // A new object, all slots empty; no field of ours can hold a reference back to it, so the collector needn't look.
  PyObject* blank() const {
    if (type_ == nullptr) throw std::runtime_error("learn_types was not called");
    PyObject* object = type_->tp_alloc(type_, 0);
    if (object == nullptr) throw nb::python_error();
    if (PyObject_IS_GC(object)) PyObject_GC_UnTrack(object);
    return object;
  }

  bool are_all_set(PyObject* object) const {
    for (size_t i = 0; i < at_.size(); ++i)
      if (get(object, int(i)) == nullptr) return false;
    return true;
  }

 private:
  PyObject** place(PyObject* object, int i) const {
    return reinterpret_cast<PyObject**>(reinterpret_cast<char*>(object) + at_[size_t(i)]);
  }

  PyTypeObject* type_ = nullptr;
  std::vector<Py_ssize_t> at_;
};

inline Slots event_slots;
enum EventSlot { producer_slot, effect_slot, kind_slot, parents_slot, sequence_slot, schema_slot, tick_slot, wall_slot };

inline const uint8_t* bytes_at(PyObject* b) { return reinterpret_cast<const uint8_t*>(PyBytes_AS_STRING(b)); }

inline nb::object owned(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

// An event's fields from its object; false where they aren't as the constructor leaves them.
class FieldsOf {
 public:
  bool read(PyObject* event) {
    if (!event_slots.are_of(event) || !event_slots.are_all_set(event)) return false;
    PyObject* effect = event_slots.get(event, effect_slot);
    PyObject* parents = event_slots.get(event, parents_slot);
    if (!PyBytes_CheckExact(effect) || PyBytes_GET_SIZE(effect) >= Py_ssize_t(event_bytes_max)) return false;
    fields.effect = bytes_at(effect), fields.effect_bytes = uint32_t(PyBytes_GET_SIZE(effect));
    if (!name(event_slots.get(event, producer_slot), fields.producer, fields.producer_bytes)) return false;
    if (!name(event_slots.get(event, kind_slot), fields.kind, fields.kind_bytes)) return false;
    if (!PyTuple_CheckExact(parents) || PyTuple_GET_SIZE(parents) > Py_ssize_t(parents_max)) return false;
    fields.parent_count = uint8_t(PyTuple_GET_SIZE(parents)), fields.parent_stride = 32, fields.parents = parents_;
    for (size_t i = 0; i < fields.parent_count; ++i) {
      PyObject* id = PyTuple_GET_ITEM(parents, Py_ssize_t(i));
      if (!PyBytes_CheckExact(id) || PyBytes_GET_SIZE(id) != Py_ssize_t(hash_bytes)) return false;
      std::memcpy(parents_ + hash_bytes * i, bytes_at(id), hash_bytes);
    }
    uint64_t schema = 0;
    if (!number(event_slots.get(event, sequence_slot), fields.sequence) ||
        !number(event_slots.get(event, schema_slot), schema) || !number(event_slots.get(event, tick_slot), fields.tick))
      return false;
    if (schema >> 32) return false;
    fields.schema = uint32_t(schema);
    PyObject* wall = event_slots.get(event, wall_slot);
    fields.has_wall = wall != Py_None, fields.wall_ns = 0;
    if (!fields.has_wall) return true;
    if (!PyLong_CheckExact(wall)) return false;
    fields.wall_ns = PyLong_AsLongLong(wall);
    return no_error(fields.wall_ns == -1);
  }

  // Only the sequence number.
  static bool number(PyObject* value, uint64_t& out) {
    if (value == nullptr || !PyLong_CheckExact(value)) return false;
    out = PyLong_AsUnsignedLongLong(value);
    return no_error(out == uint64_t(-1));
  }

  EventFields fields{};

 private:
  static bool no_error(bool suspicious) {
    if (!suspicious || PyErr_Occurred() == nullptr) return true;
    PyErr_Clear();
    return false;
  }

  static bool name(PyObject* text, const uint8_t*& out, uint8_t& bytes) {
    if (!PyUnicode_CheckExact(text)) return false;
    Py_ssize_t size = 0;
    const char* utf8 = PyUnicode_AsUTF8AndSize(text, &size);
    if (!no_error(utf8 == nullptr)) return false;
    if (size < 1 || size > Py_ssize_t(name_bytes_max)) return false;
    out = reinterpret_cast<const uint8_t*>(utf8), bytes = uint8_t(size);
    return true;
  }

  uint8_t parents_[parents_max * hash_bytes];
};

// The text of a name; producers and kinds repeat, so the last one is kept.
class Names {
 public:
  PyObject* of(const uint8_t* p, size_t n) {
    if (!last_.is_valid() || n != bytes_ || std::memcmp(p, at_, n) != 0) {
      last_ = owned(PyUnicode_DecodeUTF8(reinterpret_cast<const char*>(p), Py_ssize_t(n), nullptr));
      at_ = p, bytes_ = n;
    }
    return nb::object(last_).release().ptr();
  }

 private:
  nb::object last_;
  const uint8_t* at_ = nullptr;
  size_t bytes_ = 0;
};

inline PyObject* bytes_of(const uint8_t* p, size_t n) {
  return owned(PyBytes_FromStringAndSize(reinterpret_cast<const char*>(p), Py_ssize_t(n))).release().ptr();
}

inline PyObject* number_of(uint64_t x) { return owned(PyLong_FromUnsignedLongLong(x)).release().ptr(); }

inline nb::object make_event(const EventFields& f, Names& producers, Names& kinds) {
  nb::object event = nb::steal(event_slots.blank());
  PyObject* e = event.ptr();
  event_slots.set(e, producer_slot, producers.of(f.producer, f.producer_bytes));
  event_slots.set(e, effect_slot, bytes_of(f.effect, f.effect_bytes));
  event_slots.set(e, kind_slot, kinds.of(f.kind, f.kind_bytes));
  nb::object parents = owned(PyTuple_New(f.parent_count));
  for (size_t i = 0; i < f.parent_count; ++i)
    PyTuple_SET_ITEM(parents.ptr(), Py_ssize_t(i), bytes_of(f.parents + f.parent_stride * i, hash_bytes));
  event_slots.set(e, parents_slot, parents.release().ptr());
  event_slots.set(e, sequence_slot, number_of(f.sequence));
  event_slots.set(e, schema_slot, number_of(f.schema));
  event_slots.set(e, tick_slot, number_of(f.tick));
  event_slots.set(e, wall_slot,
                  f.has_wall ? owned(PyLong_FromLongLong(f.wall_ns)).release().ptr() : nb::none().release().ptr());
  return event;
}

// The class of receipts, a tuple of four.
inline PyTypeObject* receipt_type = nullptr;

inline nb::object make_receipt(uint64_t rank, PyObject* id, PyObject* size, PyObject* root) {
  if (receipt_type == nullptr) throw std::runtime_error("learn_types was not called");
  nb::object receipt = owned(receipt_type->tp_alloc(receipt_type, 4));
  PyTuple_SET_ITEM(receipt.ptr(), 0, number_of(rank));
  PyTuple_SET_ITEM(receipt.ptr(), 1, nb::borrow(id).release().ptr());
  PyTuple_SET_ITEM(receipt.ptr(), 2, nb::borrow(size).release().ptr());
  PyTuple_SET_ITEM(receipt.ptr(), 3, nb::borrow(root).release().ptr());
  return receipt;
}

inline void store_big_u64(uint8_t* out, uint64_t x) {
  for (int i = 0; i < 8; ++i) out[i] = uint8_t(x >> (56 - 8 * i));
}

constexpr size_t leaf_bytes = 41;

// Ids, leaf hashes and fields of stored values (id, then event bytes): what the batch functions have in common.
struct Hashed {
  std::vector<const uint8_t*> data;
  std::vector<size_t> sizes;
  std::vector<uint8_t> ids, leaves, records, scratch;
  size_t bytes = 0, chunks = 0;

  void add(const uint8_t* event, size_t size) {
    data.push_back(event), sizes.push_back(size);
    bytes += size;
    if (size > blake3_chunk_bytes) chunks += (size + blake3_chunk_bytes - 1) / blake3_chunk_bytes;
  }

  void make_room() {
    const size_t n = data.size();
    ids.resize(n * hash_bytes + 1), leaves.resize(n * hash_bytes + 1);
    records.resize(n * leaf_bytes + 1), scratch.resize(chunks * hash_bytes + 1);
  }

  // No Python object is touched: may run without the interpreter's lock.
  void hash(const StorageTable& t, const uint8_t* context, size_t context_bytes) {
    const size_t n = data.size();
    if (n == 0) return;
    t.derive_hashes(context, context_bytes, data.data(), sizes.data(), n, scratch.data(), ids.data());
    for (size_t i = 0; i < n; ++i) {
      uint8_t* record = records.data() + leaf_bytes * i;
      record[0] = 1;
      std::memcpy(record + 1, ids.data() + hash_bytes * i, hash_bytes);
      store_big_u64(record + 33, sizes[i]);
    }
    t.leaf_hashes(records.data(), leaf_bytes, n, leaves.data(), 0);
  }
};

}  // namespace droveway
