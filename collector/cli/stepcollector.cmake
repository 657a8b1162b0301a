# stepcollector: the receiving process, linked statically against all but libc.
add_executable(stepcollector ${CMAKE_CURRENT_LIST_DIR}/stepcollector_main.cc
               ${CMAKE_CURRENT_LIST_DIR}/collector_log.cc)
target_link_libraries(stepcollector PRIVATE stepagent_collector stepagent_static_runtime)
target_link_options(stepcollector PRIVATE -Wl,--build-id)
