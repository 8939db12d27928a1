# What was found and what was not, said once at the end of configuration.
message(STATUS "Tracecast ${PROJECT_VERSION} (${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})")
message(STATUS "  sanitizers:  ${TRACECAST_SANITIZE}")
message(STATUS "  tests:       ${TRACECAST_TESTS}")
message(STATUS "  benchmarks:  ${TRACECAST_BENCH}")
