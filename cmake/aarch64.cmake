# Tool chain for the cross-compiled self-test:
#   cmake -S . -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64.cmake -DDROVEWAY_PYTHON=OFF -DDROVEWAY_SELFTEST=ON
# The program is static, so that qemu-aarch64-static runs it without an arm64 system.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
