// What is read, and what is refused.
#include "tests/vgpu/ptx/testing.h"

namespace carafe::vgpu::ptx {
namespace {

using testing::HasSubstr;

TEST(PtxParser, RefusesUnknownInstructionsByLineAndText) {
  const std::string text = Kernel("tex.2d.v4.f32.f32 %d, %a;");
  const std::string error = ErrorOf([&] { Parse("kernel.ptx", text); });
  EXPECT_THAT(error, HasSubstr("kernel.ptx:10: \"tex.2d.v4.f32.f32 %d, %a;\""));
  EXPECT_THAT(error, HasSubstr("the instruction 'tex.2d.v4.f32.f32' is not known"));
}

// Each differs from a known one by a modifier, a type or an operand.
TEST(PtxParser, RefusesWhatItWouldExecuteWrongly) {
  for (const char* text : {"add.cc.s32 %d, %a, %b;",
                           "add.f16 %d, %a, %b;",
                           "fma.f32 %d, %a, %b, %c;",
                           "div.f32 %d, %a, %b;",
                           "cvt.f32.f64 %d, %a;",
                           "cvt.rn.f64.f32 %d, %a;",
                           "cvt.s32.f32 %d, %a;",
                           "setp.lt.b32 %p1, %a, %b;",
                           "setp.lo.s32 %p1, %a, %b;",
                           "ld.global.v2.f32 %d, [%a];",
                           "mov.b64 {%a, %b, %c}, %d;",
                           "add.s32 %d, %a;",
                           "add.s32 5, %a, %b;",
                           "add.s32 %d, [%a], %b;",
                           "ld.global.u32 %d, %a;",
                           "bar.sync 0, 64;",
                           "atom.add.b32 %d, [%a], %b;",
                           "shfl.down.b32 %d, %a, 1, 31;",
                           "add.s32 %d, %a, %undeclared;",
                           "add.f32 %d, %a, 1.5;",
                           "bra nowhere;"}) {
    EXPECT_THAT(ErrorOf([&] { Parse("k.ptx", Kernel(text)); }), HasSubstr(text)) << text;
  }
}

TEST(PtxParser, RefusesBrokenTexts) {
  EXPECT_THAT(ErrorOf([] { Parse("k", ".entry k() {"); }), HasSubstr("no end"));
  EXPECT_THAT(ErrorOf([] { Parse("k", ".alias k, j;"); }), HasSubstr("'.alias' is not known"));
  EXPECT_THAT(ErrorOf([] { Parse("k", Kernel("call.uni missing;")); }),
              HasSubstr("no function 'missing'"));
  EXPECT_THAT(ErrorOf([] { Parse("k", Kernel("L: L: mov.u64 %d, 1;")); }), HasSubstr("twice"));
  EXPECT_THAT(ErrorOf([] { Parse("k", ".pragma \"x\n"); }), HasSubstr("string without an end"));
}

TEST(PtxParser, ReadsCommentsScopesAndBranches) {
  // Sums 1 .. a; %t is another register in the inner scope.
  const char* body = R"(
    .reg .u64 %t; // the sum
    mov.u64 %t, 0;
    /* the loop:
       downwards */
    bra.uni $check;
    $loop: { .reg .b64 %t; mov.u64 %t, 99; }
    .loc 1 20 3
    add.s64 %t, %t, %a; add.s64 %a, %a, -1;
    $check:
    setp.ne.s64 %p1, %a, 0;
    @%p1 bra $loop;
    mov.u64 %d, %t;
    @!%p1 add.u64 %d, %d, 1000;
    @%p1 add.u64 %d, %d, 1000;)";
  EXPECT_EQ(Evaluate(body, {10}), 1055u);
}

TEST(PtxParser, FindsEntriesByName) {
  const auto module = Parse("k", Kernel("") + ".func f() { ret; }");
  EXPECT_NE(module->Entry("k"), nullptr);
  EXPECT_EQ(module->Entry("f"), nullptr);
  EXPECT_EQ(module->Entry("other"), nullptr);
}

}  // namespace
}  // namespace carafe::vgpu::ptx
