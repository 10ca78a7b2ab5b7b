/* Stands between a process and its files (LD_PRELOAD): records what is asked of the system, and lets calls fail.

   Recording: every call that changes a file below the root is written to the record in the order in which the calls
   took effect; a lock is held over the call and its record. A write to descriptor 1000 goes to the record only: that is
   how the process says what it has confirmed. Failing: the n-th matching call fails with a chosen error, once or for
   ever after.

   One record: u32 bytes of the whole record, u8 kind, u8 error, u16 length of the first name, i32 descriptor,
   i64 offset or flags, i64 length, first name, then the second name or the data. Native byte order: it is read by the
   same machine. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

#define PUBLIC __attribute__((visibility("default")))
enum { ACK_DESCRIPTOR = 1000, DESCRIPTORS_MAX = 4096 };
enum kind { OPEN = 1, WRITE, TRUNCATE, ALLOCATE, SYNC, RENAME, LINK, UNLINK, MKDIR, RMDIR, CLOSE, ACK };
enum group { WRITES = 1, SYNCS = 2, NAMES = 4, OPENS = 8 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int record = -1;
static unsigned char ours[DESCRIPTORS_MAX]; /* descriptors of files below the root */
static int fail_groups, fail_error, fail_forever;
static long fail_at, matched;

/* The calls of libc, found once. */
static __typeof__(open) *real_open;
static __typeof__(openat) *real_openat;
static __typeof__(write) *real_write;
static __typeof__(pwrite64) *real_pwrite;
static __typeof__(writev) *real_writev;
static __typeof__(pwritev64) *real_pwritev;
static __typeof__(ftruncate64) *real_ftruncate;
static __typeof__(truncate64) *real_truncate;
static __typeof__(posix_fallocate64) *real_posix_fallocate;
static __typeof__(fallocate64) *real_fallocate;
static __typeof__(fsync) *real_fsync;
static __typeof__(fdatasync) *real_fdatasync;
static __typeof__(msync) *real_msync;
static __typeof__(sync_file_range) *real_sync_file_range;
static __typeof__(rename) *real_rename;
static __typeof__(link) *real_link;
static __typeof__(unlink) *real_unlink;
static __typeof__(mkdir) *real_mkdir;
static __typeof__(rmdir) *real_rmdir;
static __typeof__(close) *real_close;

__attribute__((constructor)) static void find(void) {
#define FIND(name, symbol) *(void **)&real_##name = dlsym(RTLD_NEXT, symbol)
  FIND(open, "open64"), FIND(openat, "openat64"), FIND(write, "write"), FIND(pwrite, "pwrite64");
  FIND(writev, "writev"), FIND(pwritev, "pwritev64"), FIND(ftruncate, "ftruncate64"), FIND(truncate, "truncate64");
  FIND(posix_fallocate, "posix_fallocate64"), FIND(fallocate, "fallocate64"), FIND(fsync, "fsync");
  FIND(fdatasync, "fdatasync"), FIND(msync, "msync"), FIND(sync_file_range, "sync_file_range");
  FIND(rename, "rename"), FIND(link, "link"), FIND(unlink, "unlink"), FIND(mkdir, "mkdir"), FIND(rmdir, "rmdir");
  FIND(close, "close");
}

/* What the tests call. */
PUBLIC void shim_watch(const char *folder, const char *record_path) {
  strncpy(root, folder, sizeof root - 1);
  root_length = strlen(root);
  record = record_path == NULL ? -1 : (int)syscall(SYS_openat, AT_FDCWD, record_path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}
PUBLIC void shim_fail(int groups, long at, int error, int forever) {
  fail_groups = groups, fail_error = error, fail_forever = forever, fail_at = at, matched = 0;
}
PUBLIC long shim_matched(void) { return matched; }

static int below(const char *path, char *full) {
  if (root_length == 0) return 0;
  if (path[0] == '/') {
    strncpy(full, path, PATH_MAX - 1), full[PATH_MAX - 1] = 0;
  } else {
    if (syscall(SYS_getcwd, full, PATH_MAX) < 0) return 0;
    strncat(full, "/", PATH_MAX - strlen(full) - 1), strncat(full, path, PATH_MAX - strlen(full) - 1);
  }
  return strncmp(full, root, root_length) == 0 && (full[root_length] == '/' || full[root_length] == 0);
}

static int is_ours(int descriptor) { return descriptor >= 0 && descriptor < DESCRIPTORS_MAX && ours[descriptor]; }

static void append(enum kind kind, int error, int descriptor, int64_t offset, int64_t length, const char *name,
                   const void *data, size_t bytes) {
  if (record < 0) return;
  uint16_t name_length = name == NULL ? 0 : (uint16_t)strlen(name);
  struct __attribute__((packed)) {
    uint32_t bytes;
    uint8_t kind, error;
    uint16_t name;
    int32_t descriptor;
    int64_t offset, length;
  } head = {(uint32_t)(28 + name_length + bytes), kind, (uint8_t)error, name_length, descriptor, offset, length};
  struct iovec parts[3] = {{&head, 28}, {(void *)name, name_length}, {(void *)data, bytes}};
  real_writev(record, parts, 3);
}

/* Whether this call is to fail; errno is set then. Under the lock. */
static int failing(enum group group) {
  if (!(fail_groups & group)) return 0;
  long now = ++matched;
  if (now == fail_at || (fail_forever && now > fail_at)) {
    errno = fail_error;
    return 1;
  }
  return 0;
}

static int opened(const char *full, int flags, int descriptor) {
  if (descriptor >= 0 && descriptor < DESCRIPTORS_MAX) {
    ours[descriptor] = 1;
    append(OPEN, 0, descriptor, flags, 0, full, NULL, 0);
  }
  return descriptor;
}

static int open_any(int folder, const char *path, int flags, mode_t mode) {
  char full[PATH_MAX];
  if (folder != AT_FDCWD || !below(path, full)) return real_openat(folder, path, flags, mode);
  pthread_mutex_lock(&lock);
  int out = (flags & O_CREAT) && failing(OPENS) ? -1 : opened(full, flags, real_openat(folder, path, flags, mode));
  pthread_mutex_unlock(&lock);
  return out;
}

#define MODE(flags) \
  mode_t mode = 0; \
  if ((flags) & (O_CREAT | __O_TMPFILE)) { \
    va_list list; \
    va_start(list, flags), mode = va_arg(list, mode_t), va_end(list); \
  }

PUBLIC int open(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
PUBLIC int open64(const char *path, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, path, flags, mode); }
PUBLIC int openat(int folder, const char *path, int flags, ...) { MODE(flags) return open_any(folder, path, flags, mode); }
PUBLIC int openat64(int folder, const char *path, int flags, ...) { MODE(flags) return open_any(folder, path, flags, mode); }
PUBLIC int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC, mode); }
PUBLIC int creat64(const char *path, mode_t mode) { return creat(path, mode); }
PUBLIC int __open_2(const char *path, int flags) { return open_any(AT_FDCWD, path, flags, 0); }
PUBLIC int __open64_2(const char *path, int flags) { return open_any(AT_FDCWD, path, flags, 0); }

/* The position of a descriptor that a plain write starts at. */
static int64_t position(int descriptor) {
  if (fcntl(descriptor, F_GETFL) & O_APPEND) return lseek64(descriptor, 0, SEEK_END);
  return lseek64(descriptor, 0, SEEK_CUR);
}

static ssize_t written(int descriptor, int64_t offset, const struct iovec *parts, int count, ssize_t done) {
  ssize_t left = done;
  for (int i = 0; i < count && left > 0; i++) {
    size_t bytes = (size_t)left < parts[i].iov_len ? (size_t)left : parts[i].iov_len;
    append(WRITE, 0, descriptor, offset, (int64_t)bytes, NULL, parts[i].iov_base, bytes);
    offset += (int64_t)bytes, left -= (ssize_t)bytes;
  }
  return done;
}

PUBLIC ssize_t write(int descriptor, const void *data, size_t bytes) {
  if (descriptor == ACK_DESCRIPTOR) {
    pthread_mutex_lock(&lock);
    append(ACK, 0, descriptor, 0, (int64_t)bytes, NULL, data, bytes);
    pthread_mutex_unlock(&lock);
    return (ssize_t)bytes;
  }
  if (!is_ours(descriptor)) return real_write(descriptor, data, bytes);
  pthread_mutex_lock(&lock);
  ssize_t out = -1;
  if (!failing(WRITES)) {
    int64_t at = position(descriptor);
    struct iovec part = {(void *)data, bytes};
    out = written(descriptor, at, &part, 1, real_write(descriptor, data, bytes));
  }
  pthread_mutex_unlock(&lock);
  return out;
}

static ssize_t pwrite_any(int descriptor, const void *data, size_t bytes, off64_t offset) {
  if (!is_ours(descriptor)) return real_pwrite(descriptor, data, bytes, offset);
  pthread_mutex_lock(&lock);
  struct iovec part = {(void *)data, bytes};
  ssize_t out =
      failing(WRITES) ? -1 : written(descriptor, offset, &part, 1, real_pwrite(descriptor, data, bytes, offset));
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC ssize_t pwrite(int d, const void *data, size_t bytes, off_t offset) { return pwrite_any(d, data, bytes, offset); }
PUBLIC ssize_t pwrite64(int d, const void *data, size_t bytes, off64_t offset) { return pwrite_any(d, data, bytes, offset); }

PUBLIC ssize_t writev(int descriptor, const struct iovec *parts, int count) {
  if (!is_ours(descriptor)) return real_writev(descriptor, parts, count);
  pthread_mutex_lock(&lock);
  ssize_t out = -1;
  if (!failing(WRITES)) {
    int64_t at = position(descriptor);
    out = written(descriptor, at, parts, count, real_writev(descriptor, parts, count));
  }
  pthread_mutex_unlock(&lock);
  return out;
}

static ssize_t pwritev_any(int descriptor, const struct iovec *parts, int count, off64_t offset) {
  if (!is_ours(descriptor)) return real_pwritev(descriptor, parts, count, offset);
  pthread_mutex_lock(&lock);
  ssize_t out = failing(WRITES)
                    ? -1
                    : written(descriptor, offset, parts, count, real_pwritev(descriptor, parts, count, offset));
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC ssize_t pwritev(int d, const struct iovec *p, int n, off_t offset) { return pwritev_any(d, p, n, offset); }
PUBLIC ssize_t pwritev64(int d, const struct iovec *p, int n, off64_t offset) { return pwritev_any(d, p, n, offset); }

static int ftruncate_any(int descriptor, off64_t length) {
  if (!is_ours(descriptor)) return real_ftruncate(descriptor, length);
  pthread_mutex_lock(&lock);
  int out = failing(WRITES) ? -1 : real_ftruncate(descriptor, length);
  if (out == 0) append(TRUNCATE, 0, descriptor, 0, length, NULL, NULL, 0);
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC int ftruncate(int descriptor, off_t length) { return ftruncate_any(descriptor, length); }
PUBLIC int ftruncate64(int descriptor, off64_t length) { return ftruncate_any(descriptor, length); }

static int allocate(int descriptor, int mode, off64_t offset, off64_t length) {
  if (!is_ours(descriptor)) return real_fallocate(descriptor, mode, offset, length);
  pthread_mutex_lock(&lock);
  int out = failing(WRITES) ? -1 : real_fallocate(descriptor, mode, offset, length);
  if (out == 0 && !(mode & FALLOC_FL_KEEP_SIZE)) append(ALLOCATE, 0, descriptor, offset, length, NULL, NULL, 0);
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC int fallocate(int d, int mode, off_t offset, off_t length) { return allocate(d, mode, offset, length); }
PUBLIC int fallocate64(int d, int mode, off64_t offset, off64_t length) { return allocate(d, mode, offset, length); }
PUBLIC int posix_fallocate(int d, off_t offset, off_t length) { return allocate(d, 0, offset, length) == 0 ? 0 : errno; }
PUBLIC int posix_fallocate64(int d, off64_t offset, off64_t length) { return posix_fallocate(d, offset, length); }

static int synced(int descriptor, int (*real)(int)) {
  if (!is_ours(descriptor)) return real(descriptor);
  pthread_mutex_lock(&lock);
  int out = failing(SYNCS) ? -1 : real(descriptor);
  if (out == 0) append(SYNC, 0, descriptor, 0, 0, NULL, NULL, 0);
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC int fsync(int descriptor) { return synced(descriptor, real_fsync); }
PUBLIC int fdatasync(int descriptor) { return synced(descriptor, real_fdatasync); }
PUBLIC int sync_file_range(int d, off64_t offset, off64_t bytes, unsigned flags) { /* promises nothing about metadata */
  return real_sync_file_range(d, offset, bytes, flags);
}

static int renamed(enum kind kind, const char *from, const char *to, int (*real)(const char *, const char *)) {
  char a[PATH_MAX], b[PATH_MAX];
  int ours_a = below(from, a), ours_b = below(to, b);
  if (!ours_a && !ours_b) return real(from, to);
  pthread_mutex_lock(&lock);
  int out = failing(NAMES) ? -1 : real(from, to);
  if (out == 0) append(kind, 0, -1, 0, 0, a, b, strlen(b));
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC int rename(const char *from, const char *to) { return renamed(RENAME, from, to, real_rename); }
PUBLIC int link(const char *from, const char *to) { return renamed(LINK, from, to, real_link); }

static int named(enum kind kind, const char *path, int (*real)(const char *)) {
  char full[PATH_MAX];
  if (!below(path, full)) return real(path);
  pthread_mutex_lock(&lock);
  int out = failing(NAMES) ? -1 : real(path);
  if (out == 0) append(kind, 0, -1, 0, 0, full, NULL, 0);
  pthread_mutex_unlock(&lock);
  return out;
}
PUBLIC int unlink(const char *path) { return named(UNLINK, path, real_unlink); }
PUBLIC int rmdir(const char *path) { return named(RMDIR, path, real_rmdir); }
PUBLIC int mkdir(const char *path, mode_t mode) {
  char full[PATH_MAX];
  if (!below(path, full)) return real_mkdir(path, mode);
  pthread_mutex_lock(&lock);
  int out = failing(NAMES) ? -1 : real_mkdir(path, mode);
  if (out == 0) append(MKDIR, 0, -1, 0, 0, full, NULL, 0);
  pthread_mutex_unlock(&lock);
  return out;
}

PUBLIC int close(int descriptor) {
  if (!is_ours(descriptor)) return real_close(descriptor);
  pthread_mutex_lock(&lock);
  ours[descriptor] = 0;
  append(CLOSE, 0, descriptor, 0, 0, NULL, NULL, 0);
  int out = real_close(descriptor);
  pthread_mutex_unlock(&lock);
  return out;
}
