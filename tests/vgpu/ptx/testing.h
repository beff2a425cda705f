// Kernels of a few lines, and memory for them.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/vgpu/ptx/machine.h"

namespace carafe::vgpu::ptx {

// Allocations, by the name of vectors of the test.
class TestMemory final : public GlobalMemory {
 public:
  template <typename T>
  void Add(std::vector<T>& values) {
    allocations_[reinterpret_cast<uint64_t>(values.data())] = values.size() * sizeof(T);
  }
  void Check(uint64_t address, size_t bytes, const Instruction& by) const override {
    const auto next = allocations_.upper_bound(address);
    if (next != allocations_.begin()) {
      const auto& [begin, size] = *std::prev(next);
      if (address + bytes <= begin + size) return;
    }
    throw Error(Where(*by.function, by.line) + ": no allocation");
  }

 private:
  std::map<uint64_t, size_t> allocations_;
};

// A kernel "k" with parameters out and in, whose addresses are in %out and %in, and many registers.
inline std::string Kernel(const std::string& body, const std::string& before = "") {
  return ".version 9.0\n.target sm_80\n.address_size 64\n" + before +
         ".visible .entry k(.param .u64 k_out, .param .u64 k_in)\n{\n"
         ".reg .b64 %out, %in, %a, %b, %c, %d, %e, %x<20>;\n.reg .pred %p<10>;\n"
         "ld.param.u64 %out, [k_out];\nld.param.u64 %in, [k_in];\n" +
         body + "\nret;\n}\n";
}

// Runs it with `in` and `out` as its memory.
template <typename Out, typename In>
uint64_t RunKernel(const std::string& text, std::vector<Out>& out, std::vector<In>& in,
                   const Grid& grid = {}) {
  const auto module = Parse("test.ptx", text);
  TestMemory memory;
  memory.Add(out);
  memory.Add(in);
  const uint64_t params[] = {reinterpret_cast<uint64_t>(out.data()),
                             reinterpret_cast<uint64_t>(in.data())};
  return Execute(*module, *module->Entry("k"), grid, std::as_bytes(std::span(params)), memory);
}

// The bits of %d after one or more instructions on %a, %b and %c.
inline uint64_t Evaluate(const std::string& instructions, std::vector<uint64_t> operands) {
  operands.resize(3);
  std::vector<uint64_t> out(1);
  RunKernel(
      Kernel("ld.global.u64 %a, [%in];\nld.global.u64 %b, [%in+8];\nld.global.u64 %c, [%in+16];\n" +
             instructions + "\nst.global.u64 [%out], %d;"),
      out, operands);
  return out[0];
}

inline uint64_t Bits(float value) { return std::bit_cast<uint32_t>(value); }
inline uint64_t Bits(double value) { return std::bit_cast<uint64_t>(value); }
inline float AsFloat(uint64_t bits) { return std::bit_cast<float>(static_cast<uint32_t>(bits)); }
inline double AsDouble(uint64_t bits) { return std::bit_cast<double>(bits); }

// What Error says of the kernel.
template <typename Action>
std::string ErrorOf(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace carafe::vgpu::ptx
