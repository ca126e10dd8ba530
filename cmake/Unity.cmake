# Lets a unity build (LOCKSTEP_UNITY) compile up to sixteen files of a folder of the current directory at a time.
function(lockstep_unity_by_folder) # SOURCE...
  foreach(source ${ARGN})
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} OUTPUT_VARIABLE name)
    string(REGEX REPLACE "/.*" "" folder ${name})
    list(APPEND files_of_${folder} ${name})
    list(LENGTH files_of_${folder} count)
    math(EXPR part "(${count} + 15) / 16")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${part})
  endforeach()
endfunction()
