# droveway_build_id(PACKAGE …)
#
# Installs PACKAGE/_build_id in each package: one id for the whole build, then the SHA-256 of that package's __init__.py.
# Other projects own the names tensor, vector, splat and storage on PyPI, and pip merges folders silently: the command
# line compares these files before it runs anything (droveway/buildcheck.py). The id is a hash of all sources, so the
# same tree always gives the same id.

function(droveway_build_id)
  set(all "")
  foreach(package IN LISTS ARGN)
    file(GLOB_RECURSE sources RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
         ${CMAKE_SOURCE_DIR}/${package}/*.py ${CMAKE_SOURCE_DIR}/${package}/*.cpp ${CMAKE_SOURCE_DIR}/${package}/*.hpp)
    list(SORT sources)
    foreach(source IN LISTS sources)
      file(SHA256 ${CMAKE_SOURCE_DIR}/${source} hash)
      string(APPEND all "${source} ${hash}\n")
    endforeach()
  endforeach()
  string(SHA256 id "${all}")
  string(SUBSTRING ${id} 0 32 id)
  foreach(package IN LISTS ARGN)
    if(EXISTS ${CMAKE_SOURCE_DIR}/${package}/__init__.py)
      file(SHA256 ${CMAKE_SOURCE_DIR}/${package}/__init__.py init)
      file(WRITE ${CMAKE_BINARY_DIR}/${package}/_build_id "${id}\n${init}\n")
      install(FILES ${CMAKE_BINARY_DIR}/${package}/_build_id DESTINATION ${package})
    endif()
  endforeach()
endfunction()
