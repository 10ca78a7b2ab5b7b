// The CRC of decision frames. Twin: coord/frames/crc_ref.py.
#include "droveway/crc32c.hpp"

#include "kernels.hpp"

namespace DW_ISA {
uint32_t frame_crc(const uint8_t* data, size_t size) { return crc32c_of(data, size); }
}  // namespace DW_ISA
