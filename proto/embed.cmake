# Turns the file IN into C source OUT: NAME and NAME_len, declared in proto/baton_desc.h.
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" digits)
math(EXPR len "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)"
       "\\1\n" bytes "${bytes}")
file(WRITE ${OUT} "#include \"proto/baton_desc.h\"\n"
     "const uint8_t ${NAME}[] = {\n${bytes}};\nconst size_t ${NAME}_len = ${len};\n")
