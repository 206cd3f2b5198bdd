# find_package(cxlab) makes cxlab::cxlab (shared) and cxlab::cxlab-static. Version numbers are those of the interface
# (CXLAB_ABI_MAJOR and CXLAB_ABI_MINOR of cxlab.h).
get_filename_component(cxlab_PREFIX "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

if(NOT TARGET cxlab::cxlab)
  add_library(cxlab::cxlab SHARED IMPORTED)
  set_target_properties(cxlab::cxlab PROPERTIES
    IMPORTED_LOCATION "${cxlab_PREFIX}/lib/libcxlab.so"
    IMPORTED_SONAME "libcxlab.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${cxlab_PREFIX}/include")
endif()

if(NOT TARGET cxlab::cxlab-static)
  add_library(cxlab::cxlab-static STATIC IMPORTED)
  set_target_properties(cxlab::cxlab-static PROPERTIES
    IMPORTED_LOCATION "${cxlab_PREFIX}/lib/libcxlab.a"
    INTERFACE_INCLUDE_DIRECTORIES "${cxlab_PREFIX}/include"
    INTERFACE_LINK_LIBRARIES "pthread;dl;m")
endif()
