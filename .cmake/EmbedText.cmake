# cmake -DOUTPUT=x.cc -DHEADER=path.h -DNAMESPACE=a::b -DTEXTS="kName=file[,file...]|..." -P EmbedText.cmake
#
# Writes a source file with one std::string_view constant per name: the files' text, one after the
# other, in pieces of 12,000 bytes.
set(_out "// Made by .cmake/EmbedText.cmake.\n#include \"${HEADER}\"\n\nnamespace ${NAMESPACE} {\n")
string(REPLACE "|" ";" TEXTS "${TEXTS}")
foreach(_entry IN LISTS TEXTS)
  string(FIND "${_entry}" "=" _at)
  string(SUBSTRING "${_entry}" 0 ${_at} _name)
  math(EXPR _at "${_at} + 1")
  string(SUBSTRING "${_entry}" ${_at} -1 _files)
  string(REPLACE "," ";" _files "${_files}")
  string(APPEND _out "const std::string_view ${_name}(\n")
  foreach(_file IN LISTS _files)
    file(SIZE "${_file}" _bytes)
    set(_from 0)
    while(_from LESS _bytes)
      # Bytes, not characters: a piece may end inside a character, the pieces are joined again.
      file(READ "${_file}" _hex OFFSET ${_from} LIMIT 12000 HEX)
      string(REGEX REPLACE "(..)" "\\\\x\\1" _hex "${_hex}")
      string(APPEND _out "    \"${_hex}\"\n")
      math(EXPR _from "${_from} + 12000")
    endwhile()
  endforeach()
  string(APPEND _out "    );\n")
endforeach()
file(WRITE "${OUTPUT}" "${_out}}  // namespace ${NAMESPACE}\n")
