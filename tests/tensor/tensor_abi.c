/* Reads a header of docs/formats/tensor-abi.md, checks it, and prints the elements in C order.
   As a program: the first argument is a file of header and storage, `base` then stands for the place behind the header.
   As a library: droveway_print(header, bytes, out, room) on a header of this process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "droveway_tensor.h"

static const int sizes[] = {1, 1, 2, 4, 8, 1, 2, 4, 8, 2, 2, 4, 8, 8, 16};

static const char *wrong(const struct droveway_tensor *t, uint64_t bytes) {
  if (bytes < 40 || memcmp(t->magic, "DWT1", 4) != 0 || t->version != 1) return "not a tensor of version 1";
  if (t->dtype > 14 || t->ndim > 16 || t->device > 1 || t->memory_space > 5 || t->flags > 7 || t->reserved != 0)
    return "a field is out of range";
  if (bytes < 40 + 16 * (uint64_t)t->ndim) return "the header is too short";
  __int128 low = t->offset, high = t->offset;
  for (int d = 0; d < t->ndim; ++d) {
    if (t->dims[d] < 0) return "a length is negative";
    if (t->dims[d] == 0) return NULL;
  }
  for (int d = 0; d < t->ndim; ++d) {
    const __int128 reach = (__int128)(t->dims[d] - 1) * t->dims[t->ndim + d];
    if (reach < 0) low += reach;
    else high += reach;
    if (low < -((__int128)1 << 100) || high > (__int128)1 << 100) return "an element is outside the storage";
  }
  if (low < 0 || (high + 1) * sizes[t->dtype] > (__int128)t->nbytes) return "an element is outside the storage";
  return NULL;
}

static int print_one(const char *p, int dtype, char *out, size_t room) {
  switch (dtype) {
    case 0: return snprintf(out, room, "%d ", *p);
    case 1: return snprintf(out, room, "%d ", *(const int8_t *)p);
    case 2: return snprintf(out, room, "%d ", *(const int16_t *)p);
    case 3: return snprintf(out, room, "%d ", *(const int32_t *)p);
    case 4: return snprintf(out, room, "%lld ", (long long)*(const int64_t *)p);
    case 5: return snprintf(out, room, "%u ", *(const uint8_t *)p);
    case 6:
    case 9:
    case 10: return snprintf(out, room, "%u ", *(const uint16_t *)p); /* 16-bit floats: their bits */
    case 7: return snprintf(out, room, "%u ", *(const uint32_t *)p);
    case 8: return snprintf(out, room, "%llu ", (unsigned long long)*(const uint64_t *)p);
    case 11: return snprintf(out, room, "%.9g ", (double)*(const float *)p);
    case 12: return snprintf(out, room, "%.17g ", *(const double *)p);
    case 13: return snprintf(out, room, "%.9g %.9g ", (double)((const float *)p)[0], (double)((const float *)p)[1]);
    default: return snprintf(out, room, "%.17g %.17g ", ((const double *)p)[0], ((const double *)p)[1]);
  }
}

int droveway_print(const struct droveway_tensor *t, uint64_t bytes, char *out, size_t room) {
  const char *reason = wrong(t, bytes);
  if (reason != NULL) {
    snprintf(out, room, "%s", reason);
    return 1;
  }
  int64_t index[16] = {0};
  out[0] = 0;
  for (int d = 0; d < t->ndim; ++d)
    if (t->dims[d] == 0) return 0;
  for (;;) {
    int64_t at = t->offset;
    for (int d = 0; d < t->ndim; ++d) at += index[d] * t->dims[t->ndim + d];
    const int n = print_one((const char *)(uintptr_t)t->base + at * sizes[t->dtype], t->dtype, out, room);
    if (n < 0 || (size_t)n >= room) return 2;
    out += n;
    room -= (size_t)n;
    int d = t->ndim - 1;
    for (; d >= 0 && ++index[d] == t->dims[d]; --d) index[d] = 0;
    if (d < 0) return 0;
  }
}

int main(int argc, char **argv) {
  FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
  if (file == NULL) return 3;
  static _Alignas(16) char content[1 << 16], out[1 << 16];
  const size_t read = fread(content, 1, sizeof content, file);
  fclose(file);
  struct droveway_tensor *t = (struct droveway_tensor *)content;
  const size_t header = read < 40 ? read : 40 + 16 * (size_t)t->ndim;
  if (read >= 40) {
    if (header + t->nbytes != read) return 3;
    static _Alignas(64) char storage[1 << 16];
    memcpy(storage, content + header, read - header);
    t->base = (uint64_t)(uintptr_t)storage;
  }
  const int result = droveway_print(t, header, out, sizeof out);
  puts(out);
  return result;
}
