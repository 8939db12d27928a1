# Compiler settings that every target shares, on one interface target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# -O3 takes a tenth longer to compile.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

find_program(TRACECAST_CCACHE ccache)
if(TRACECAST_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache requires the sloppiness to cache code that uses precompiled headers (its manual, "Precompiled headers"). DEPEND: it
  # takes the list of headers from the compiler, so that a file not in the cache is preprocessed once, not twice.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_DEPEND=1
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${TRACECAST_CCACHE})
endif()

# Parses headers of other libraries once per target instead of once per file. Every file still includes what it uses, so
# TRACECAST_PRECOMPILE=OFF builds the same program.
#   precompile(TARGET HEADER...)              precompile(TARGET REUSE_FROM OTHER)  where both compile with the same options
# Few headers: each costs a file that does not need it. With nlohmann/json.hpp among them, files of `graph` or `report` take a
# fifth longer with GCC; clang, which keeps its instances in the precompiled header, is a sixth faster where it is used.
set(TRACECAST_USUAL_HEADERS <fmt/format.h> <algorithm> <filesystem> <functional> <map> <optional> <set> <string> <variant> <vector>)
set(TRACECAST_TEXT_HEADERS ${TRACECAST_USUAL_HEADERS})
if(TRACECAST_SANITIZE)
  list(APPEND TRACECAST_TEXT_HEADERS <nlohmann/json.hpp>)
endif()
function(precompile target)
  if(TRACECAST_PRECOMPILE)
    if(ARGV1 STREQUAL REUSE_FROM)
      target_precompile_headers(${target} REUSE_FROM ${ARGV2})
    else()
      target_precompile_headers(${target} PRIVATE ${ARGN})
    endif()
    # GCC 12 reports resize(), replace() and copies of std::string when its headers are precompiled.
    target_compile_options(${target} PRIVATE
      $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds>)
    if(TRACECAST_CCACHE)
      target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:Clang>:SHELL:-Xclang -fno-pch-timestamp>)
    endif()
  endif()
endfunction()

# For targets that read and print and do little work: a third less to compile, and what they do takes a few milliseconds.
function(compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-Og> $<$<BOOL:${TRACECAST_SANITIZE}>:-O0>)
endfunction()

# mimalloc in place of glibc's allocator, which took an eighth of a simulated step; sanitizers have their own.
find_package(mimalloc 2.0 QUIET)
function(use_mimalloc target)
  if(TARGET mimalloc AND NOT TRACECAST_SANITIZE)
    target_link_libraries(${target} PRIVATE mimalloc)
  endif()
endfunction()

# Of duplicate template instances mold keeps the first: here those of `library`, which are optimised more than the target's own.
function(link_first target library)
  target_link_options(${target} PRIVATE $<TARGET_FILE:${library}>)
endfunction()

add_library(tracecast_options INTERFACE)
target_compile_features(tracecast_options INTERFACE cxx_std_20)
target_compile_options(tracecast_options INTERFACE
  -Wall -Wextra -Wconversion -Wshadow -Wnon-virtual-dtor -Wold-style-cast
  # GCC keeps up to 1 GiB before it looks for memory that it could free: 6 to 10 % less time to compile, a fifth more memory.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1048576>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>  # GCC 12 reports std::string's operator+ (GCC bug 105651)
  # Identical results on every machine: no fused multiply-add, which compilers use differently.
  -ffp-contract=off)
# Only the release build treats warnings as errors: with sanitizers GCC 12 has many false warnings (GCC bug 105562 among
# others), and clang, which is used only there, only prints its warnings.
if(TRACECAST_WARNINGS_AS_ERRORS AND NOT TRACECAST_SANITIZE)
  target_compile_options(tracecast_options INTERFACE -Werror)
endif()
if(TRACECAST_SANITIZE)
  target_compile_options(tracecast_options INTERFACE $<$<CXX_COMPILER_ID:GNU>:-w>)
endif()
if(TRACECAST_SANITIZE STREQUAL "address")
  # Without the UBSan checks that ASan or the unmapped page at address zero already cover: they take 10 to 30 % of the compile time.
  # Fuzzed readers, which compute addresses from foreign bytes, keep those of pointer arithmetic and alignment.
  set(covered_checks null,object-size,vptr)
  if(NOT TRACECAST_FUZZ)
    string(APPEND covered_checks ",pointer-overflow,alignment")
  endif()
  target_compile_options(tracecast_options INTERFACE -fsanitize=address,undefined -fno-sanitize=${covered_checks}
    -fno-sanitize-recover=all -fno-omit-frame-pointer
    # Locals stay on the stack, as with GCC: use after scope is found, use after return not. Code that could decide when it runs takes
    # 5 % longer to compile and to run.
    $<$<CXX_COMPILER_ID:Clang>:-fsanitize-address-use-after-return=never>)
  target_link_options(tracecast_options INTERFACE -fsanitize=address,undefined)
elseif(TRACECAST_SANITIZE STREQUAL "thread")
  target_compile_options(tracecast_options INTERFACE -fsanitize=thread)
  target_link_options(tracecast_options INTERFACE -fsanitize=thread)
endif()
if(TRACECAST_FUZZ)
  target_compile_options(tracecast_options INTERFACE -fsanitize=fuzzer-no-link)
endif()
find_program(TRACECAST_MOLD mold)
if(TRACECAST_MOLD)
  target_link_options(tracecast_options INTERFACE -fuse-ld=mold)
endif()
