# droveway_kernels(AREA SOURCES a.cpp b.cpp … [SELFTEST selftest.cpp …])
#
# Builds AREA/kernels/*.cpp once for each instruction set and AREA/kernels/module.cpp once, as AREA/_kernels; so are all of
# AREA/kernels/array/*.cpp (the tensor object) and AREA/kernels/bindings/*.cpp (bindings that have no place in module.cpp).
# Sources named here, and table.cpp, are compiled with DW_ISA set to the namespace (isa_v3, isa_v4, isa_neon).
# The SELFTEST sources (selftest.cpp if none are named) are compiled once; they run the kernels of one table and reports a digest for each.

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(DROVEWAY_ISAS v3 v4)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(DROVEWAY_ISAS neon)
else()
  message(FATAL_ERROR "droveway has kernels for x86-64 and arm64, not for ${CMAKE_SYSTEM_PROCESSOR}")
endif()

set(DROVEWAY_FLAGS_v3 -march=x86-64-v3)
set(DROVEWAY_FLAGS_v4 -march=x86-64-v4 -mprefer-vector-width=512)
set(DROVEWAY_FLAGS_neon -march=armv8-a)

# No contraction: only the fused multiply-adds that the code writes. No weak library symbols: a copy compiled for
# AVX-512 could be the one the linker keeps.
set(DROVEWAY_KERNEL_FLAGS -O3 -ffp-contract=off -fno-fast-math -fno-math-errno -fno-trapping-math
    -fno-exceptions -fno-rtti -fno-threadsafe-statics -Wall -Wextra -Wno-psabi
    -Wno-uninitialized)  # g++ 12 warns about its own AVX-512 headers
if(DROVEWAY_SANITIZE)
  list(REMOVE_ITEM DROVEWAY_KERNEL_FLAGS -O3)
  # A check for every register that is named, and poison around every temporary: minutes for a file.
  list(APPEND DROVEWAY_KERNEL_FLAGS -fno-sanitize=null,object-size,alignment,pointer-overflow -fno-sanitize-address-use-after-scope)
endif()

set_property(GLOBAL PROPERTY DROVEWAY_AREAS "")

function(droveway_kernels area)
  cmake_parse_arguments(ARG "" "" "SOURCES;SELFTEST" ${ARGN})
  set(dir ${CMAKE_SOURCE_DIR}/${area}/kernels)
  list(TRANSFORM ARG_SOURCES PREPEND ${dir}/)
  if(NOT ARG_SELFTEST)
    set(ARG_SELFTEST selftest.cpp)
  endif()
  list(TRANSFORM ARG_SELFTEST PREPEND ${dir}/)
  set(objects "")
  foreach(isa IN LISTS DROVEWAY_ISAS)
    set(target ${area}_${isa})
    add_library(${target} OBJECT ${ARG_SOURCES} ${dir}/table.cpp)
    target_compile_options(${target} PRIVATE ${DROVEWAY_KERNEL_FLAGS} ${DROVEWAY_FLAGS_${isa}})
    string(TOUPPER ${isa} upper)
    target_compile_definitions(${target} PRIVATE DW_ISA=isa_${isa} DW_ISA_${upper}=1)
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/tensor/kernels/include)
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()

  add_library(${area}_selftest OBJECT ${ARG_SELFTEST})
  target_include_directories(${area}_selftest PRIVATE ${CMAKE_SOURCE_DIR}/tensor/kernels/include)
  target_compile_options(${area}_selftest PRIVATE -O1 -ffp-contract=off -fno-exceptions -fno-rtti)
  set_property(GLOBAL APPEND PROPERTY DROVEWAY_AREAS ${area})
  set_property(GLOBAL PROPERTY DROVEWAY_OBJECTS_${area} ${objects} $<TARGET_OBJECTS:${area}_selftest>)

  if(DROVEWAY_PYTHON)
    file(GLOB once CONFIGURE_DEPENDS ${dir}/array/*.cpp ${dir}/bindings/*.cpp)
    nanobind_add_module(${area}_kernels NB_STATIC NB_DOMAIN droveway NOMINSIZE
                        ${dir}/module.cpp ${once} ${objects} $<TARGET_OBJECTS:${area}_selftest>)
    set_target_properties(${area}_kernels PROPERTIES OUTPUT_NAME _kernels
                          LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${area}
                          INSTALL_RPATH "$ORIGIN/../tensor" BUILD_WITH_INSTALL_RPATH OFF)
    target_include_directories(${area}_kernels PRIVATE ${CMAKE_SOURCE_DIR}/tensor/kernels/include ${dir})
    target_compile_options(${area}_kernels PRIVATE -O2 -ffp-contract=off)
    target_compile_definitions(${area}_kernels PRIVATE "DW_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")
    target_link_libraries(${area}_kernels PRIVATE droveway_pool)
    install(TARGETS ${area}_kernels LIBRARY DESTINATION ${area})
    if(DROVEWAY_SANITIZE)
      return()  # a sanitized module cannot be imported to describe itself
    endif()
    # What the generator cannot see, types made by the C API and functions without annotations, is written by hand.
    set(patterns "")
    if(EXISTS ${dir}/stub_patterns.txt)
      set(patterns PATTERN_FILE ${dir}/stub_patterns.txt)
    endif()
    nanobind_add_stub(${area}_stub MODULE _kernels ${patterns} PYTHON_PATH ${CMAKE_BINARY_DIR}/${area}
                      OUTPUT ${CMAKE_BINARY_DIR}/${area}/_kernels.pyi DEPENDS ${area}_kernels)
    install(FILES ${CMAKE_BINARY_DIR}/${area}/_kernels.pyi DESTINATION ${area})
  endif()
endfunction()

# One program for all areas: droveway_selftest [--threads N] [--isa v3|v4] prints `area.kernel hash` lines.
function(droveway_selftest)
  get_property(areas GLOBAL PROPERTY DROVEWAY_AREAS)
  add_executable(droveway_selftest ${CMAKE_SOURCE_DIR}/tensor/kernels/runtime/selftest_main.cpp)
  target_include_directories(droveway_selftest PRIVATE ${CMAKE_SOURCE_DIR}/tensor/kernels/include)
  foreach(area IN LISTS areas)
    get_property(objects GLOBAL PROPERTY DROVEWAY_OBJECTS_${area})
    target_sources(droveway_selftest PRIVATE ${objects})
    string(TOUPPER ${area} upper)
    target_compile_definitions(droveway_selftest PRIVATE DW_AREA_${upper}=1)
  endforeach()
  target_link_libraries(droveway_selftest PRIVATE droveway_pool)
endfunction()
