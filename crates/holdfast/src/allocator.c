// Settings of glibc's allocator.
//
// glibc maps allocations of 128 KiB or more one by one, and returns each to the system when it is freed. When one is
// freed, though, glibc raises the threshold to its size, up to 32 MiB. Later allocations of large objects then come from
// heaps that many small allocations keep from shrinking. A threshold that is set stays as it is.

#include <malloc.h>

__attribute__((constructor)) static void set_allocator_up(void) {
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
}
