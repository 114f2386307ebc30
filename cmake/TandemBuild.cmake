# Compiler settings, and the two functions with which every folder declares its library and tests.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

option(TANDEM_WERROR "Treat warnings as errors" ON)
set(TANDEM_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

add_library(tandem_settings INTERFACE)
target_include_directories(tandem_settings INTERFACE ${CMAKE_SOURCE_DIR}/src)
# Designated initialisers leave fields at their defaults on purpose; GCC 12's -Wrestrict misfires on std::string.
# -ffp-contract=off: a fused multiply-add would give other bits than the plain path (DESIGN: one truth).
target_compile_options(tandem_settings INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers -Wno-restrict
  -ffp-contract=off
  $<$<BOOL:${TANDEM_WERROR}>:-Werror>)
# A program loads only the libraries that it uses: `tandem` must start at once.
target_link_options(tandem_settings INTERFACE -Wl,--as-needed)
if(TANDEM_SANITIZE)
  target_compile_options(tandem_settings INTERFACE -fsanitize=${TANDEM_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(tandem_settings INTERFACE -fsanitize=${TANDEM_SANITIZE})
  if(TANDEM_SANITIZE MATCHES "undefined")
    target_compile_options(tandem_settings INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

find_package(Threads REQUIRED)
find_package(GTest REQUIRED)
find_package(fmt REQUIRED)

# Sources whose speed nobody notices are compiled quickly instead. With sanitizers that matters most.
set(quickly "$<$<CONFIG:Release>:-O1>")
if(TANDEM_SANITIZE)
  set(quickly -O0)
endif()
function(tandem_compile_quickly)
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS ${quickly})
  # Headers that were precompiled for optimised code cannot be read without optimisation.
  if(TANDEM_SANITIZE)
    tandem_read_headers(${ARGN})
  endif()
endfunction()

# tandem_precompile(TARGET OPTION HEADER...) makes a target with precompiled headers of its own and the usual ones, for
# other targets that have the same options to reuse.
set(TANDEM_COMMON_HEADERS fmt/format.h algorithm array chrono filesystem fstream functional map memory optional set span sstream
  string string_view thread utility variant vector)
function(tandem_precompile target option)
  list(TRANSFORM TANDEM_COMMON_HEADERS REPLACE "(.+)" "<\\1>" OUTPUT_VARIABLE usual)
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/${target}.cc CONTENT "")
  add_library(${target} OBJECT ${CMAKE_BINARY_DIR}/${target}.cc)
  target_compile_options(${target} PRIVATE ${option})
  target_link_libraries(${target} PRIVATE tandem_settings fmt::fmt Threads::Threads)
  target_precompile_headers(${target} PRIVATE ${ARGN} ${usual})
endfunction()
# For sources that have other flags, or in which GCC 12, when headers are precompiled, warns of std::string itself.
function(tandem_read_headers)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
endfunction()
tandem_precompile(tandem_hot_headers "")
tandem_precompile(tandem_cold_headers ${quickly})
tandem_precompile(tandem_test_headers -O0 <gtest/gtest.h>)
target_link_libraries(tandem_test_headers PRIVATE GTest::gtest)

# tandem_library(NAME [COLD] [TORCH] SOURCES a.cc b.cc [LINKS lib...] [PRIVATE_LINKS lib...])
# makes the static library tandem_NAME from this folder's sources. COLD: nothing in it takes long to run. TORCH: it has libtorch's
# flags, with which the usual precompiled headers cannot be read.
function(tandem_library name)
  cmake_parse_arguments(ARG "COLD;TORCH" "" "SOURCES;LINKS;PRIVATE_LINKS" ${ARGN})
  if(ARG_COLD)
    set_source_files_properties(${ARG_SOURCES} PROPERTIES COMPILE_OPTIONS ${quickly})
  endif()
  add_library(tandem_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(tandem_${name} PUBLIC tandem_settings fmt::fmt ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(ARG_COLD)
    target_precompile_headers(tandem_${name} REUSE_FROM tandem_cold_headers)
  elseif(NOT ARG_TORCH)
    target_precompile_headers(tandem_${name} REUSE_FROM tandem_hot_headers)
  endif()
endfunction()

# tandem_test(NAME SOURCES a_test.cc ... [LINKS lib...] [TIMEOUT seconds] [LABELS label...])
# makes one test program and one ctest entry of it. It carries the label "unit", and more if asked for.
function(tandem_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name}_test ${ARG_SOURCES})
  target_compile_options(${name}_test PRIVATE -O0)
  target_precompile_headers(${name}_test REUSE_FROM tandem_test_headers)
  target_link_libraries(${name}_test PRIVATE ${ARG_LINKS} GTest::gtest GTest::gtest_main Threads::Threads)
  set_target_properties(${name}_test PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${name} COMMAND ${name}_test WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS "unit;${ARG_LABELS}")
endfunction()
