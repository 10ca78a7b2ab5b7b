#include "droveway/crc32c.hpp"

#include "kernels.hpp"

namespace DW_ISA {
uint32_t crc32c(const uint8_t* data, size_t size) { return crc32c_of(data, size); }
}  // namespace DW_ISA
