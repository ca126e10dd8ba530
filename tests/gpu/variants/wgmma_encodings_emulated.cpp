// As attention_hopper_forward_emulated.cpp.
#include "tests/gpu/variants/wgmma_encodings.cu"
