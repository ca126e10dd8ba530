#pragma once

/// cuBLASLt's errors as exceptions, and owners of the objects that its API exposes as pointers.

#include <cublasLt.h>

#include <string>

#include "kernels/cuda/check.h"

namespace lockstep::cuda {

inline void check_cublas(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw GpuError(std::string(call) + ": " + cublasLtGetStatusName(status) + ": " +
                   cublasLtGetStatusString(status));
}

/// Evaluates a cuBLASLt call once and throws GpuError if it failed.
#define LOCKSTEP_CUBLAS(call) ::lockstep::cuda::check_cublas((call), #call)

/// Owns an object of cuBLASLt.
template <class Handle, cublasStatus_t (*destroy)(Handle)>
class CublasOwner {
 public:
  CublasOwner() = default;
  ~CublasOwner() {
    if (handle_ != nullptr) static_cast<void>(destroy(handle_));
  }
  CublasOwner(const CublasOwner&) = delete;
  CublasOwner& operator=(const CublasOwner&) = delete;

  Handle get() const { return handle_; }
  Handle* out() { return &handle_; }

 private:
  Handle handle_ = nullptr;
};
using CublasLibrary = CublasOwner<cublasLtHandle_t, cublasLtDestroy>;
using CublasOperation = CublasOwner<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using CublasLayout = CublasOwner<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using CublasPreference = CublasOwner<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// An algorithm that cuBLASLt proposes for a product.
using CublasAlgorithm = cublasLtMatmulHeuristicResult_t;

template <class Value>
void set(const CublasOperation& operation, cublasLtMatmulDescAttributes_t attribute, Value value) {
  LOCKSTEP_CUBLAS(cublasLtMatmulDescSetAttribute(operation.get(), attribute, &value, sizeof value));
}

template <class Value>
void set(const CublasPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  LOCKSTEP_CUBLAS(
      cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof value));
}

}  // namespace lockstep::cuda
