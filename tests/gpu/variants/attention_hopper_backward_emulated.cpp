// As attention_hopper_forward_emulated.cpp.
#include "tests/gpu/variants/attention_hopper_backward.cu"
