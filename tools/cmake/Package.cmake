# Files installed besides the programs, and the Debian package:  cpack -G DEB --config build/release/CPackConfig.cmake
include(GNUInstallDirs)

# Man page and completions are generated from the help text of the installed program.
install(CODE "
  execute_process(COMMAND \"${PROJECT_SOURCE_DIR}/tools/scripts/documents\" \"$<TARGET_FILE:tracecast>\" \"${PROJECT_BINARY_DIR}/documents\"
    COMMAND_ERROR_IS_FATAL ANY)")
install(FILES ${PROJECT_BINARY_DIR}/documents/tracecast.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${PROJECT_BINARY_DIR}/documents/tracecast.bash RENAME tracecast
  DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
install(FILES ${PROJECT_BINARY_DIR}/documents/_tracecast DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)
install(FILES ${PROJECT_BINARY_DIR}/documents/tracecast.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)

set(CPACK_GENERATOR DEB)
# Set this to your own name when you build packages for distribution.
set(TRACECAST_MAINTAINER "Tracecast maintainers <maintainers@users.noreply.a-seed-2f07c42f.example>"
  CACHE STRING "Maintainer field of the Debian package: name <address>")
set(CPACK_PACKAGE_CONTACT "${TRACECAST_MAINTAINER}")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
set(CPACK_PACKAGE_DESCRIPTION "A discrete-event simulator of data-, tensor-, pipeline- and expert-parallel training steps on modelled clusters,
with kernel and network costs fitted to published measurements: step time with its uncertainty, where the time goes,
memory, failures, cost, and the best layout. Comes with machines, models and published runs.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "openmpi-bin")
include(CPack)
