// As attention_hopper_forward_emulated.cpp.
#include "tests/gpu/variants/layernorm_rows.cu"
