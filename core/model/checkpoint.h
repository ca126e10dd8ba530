#pragma once

#include <string>
#include <vector>

#include "core/model/config.h"
#include "core/model/parameter.h"

namespace lockstep {

// A checkpoint is a folder with model.safetensors and config.json, names and layout as Hugging
// Face's GPT2LMHeadModel.save_pretrained writes them, so that from_pretrained reads ours; or, where
// the path ends in .safetensors, that file alone.

/// Writes all parameters of the model as F32 (of narrow ones the masters, where an optimizer has
/// them), which must be here and in host memory (std::invalid_argument
/// where one is missing). Each file is written whole or not at all. Throws UsageError where it
/// can't be written.
void save_checkpoint(const std::string& path, const GptConfig& config,
                     const std::vector<Parameter*>& parameters);

/// Reads the values of `parameters`: all of a model's, those of one stage, or the parts of them
/// that one rank owns (Parameter::first). The file must be of
/// the whole model `config`: with a tensor missing, unknown, or of another dtype or shape, nothing
/// is read and UsageError names it. Names may come without `transformer.`; the buffers attn.bias
/// and attn.masked_bias, and lm_head.weight where tied, are ignored. Narrow values are
/// the file's, rounded, and masters that are there already the file's own. Nothing is read on the
/// meta device.
void load_checkpoint(const std::string& path, const GptConfig& config,
                     const std::vector<Parameter*>& parameters);

}  // namespace lockstep
