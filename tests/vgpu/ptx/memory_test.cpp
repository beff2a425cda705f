// Spaces of memory, accesses that are refused, and functions.
#include "tests/vgpu/ptx/testing.h"

namespace carafe::vgpu::ptx {
namespace {

using testing::HasSubstr;

std::string ErrorOfBody(const std::string& body, const std::string& before = "") {
  std::vector<uint32_t> out(4), in(4);
  return ErrorOf([&] { RunKernel(Kernel(body, before), out, in); });
}

TEST(PtxMemory, LoadsAndStoresAllWidths) {
  std::vector<uint8_t> in = {0x80, 0xff, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14};
  std::vector<uint64_t> out(8);
  RunKernel(Kernel(R"(
    ld.global.s8 %a, [%in];        st.global.u64 [%out], %a;
    ld.global.u8 %a, [%in];        st.global.u64 [%out+8], %a;
    ld.global.s16 %a, [%in];       st.global.u64 [%out+16], %a;
    ld.global.s32 %a, [%in];       st.global.u64 [%out+24], %a;
    ld.global.nc.v2.u32 {%a, %b}, [%in+8]; st.global.v2.u32 [%out+32], {%b, %a};
    ld.global.v4.u8 {%a, %b, %c, %d}, [%in+4]; st.global.v4.u8 [%out+40], {%d, %c, %b, %a};
    ld.u64 %a, [%in+8];            st.volatile.global.u16 [%out+48], %a;
  )"),
            out, in);
  EXPECT_EQ(out[0], 0xffffffffffffff80u);
  EXPECT_EQ(out[1], 0x80u);
  EXPECT_EQ(out[2], 0xffffffffffffff80u);
  EXPECT_EQ(out[3], 0x0201ff80u);
  EXPECT_EQ(out[4], 0x0a0908070e0d0c0bu);
  EXPECT_EQ(out[5], 0x03040506u);
  EXPECT_EQ(out[6], 0x0807u);
}

TEST(PtxMemory, RefusesWhatLiesOutsideOfTheAllocation) {
  EXPECT_THAT(ErrorOfBody("ld.global.u32 %a, [%in+16];"),
              HasSubstr("\"ld.global.u32 %a, [%in+16];\" in k: no allocation"));
  EXPECT_THAT(ErrorOfBody("ld.global.v4.u32 {%a, %b, %c, %d}, [%in+-16];"),
              HasSubstr("no allocation"));
  EXPECT_THAT(ErrorOfBody("st.global.u8 [%out+-1], %a;"), HasSubstr("no allocation"));
  EXPECT_THAT(ErrorOfBody("mov.u64 %a, 0; ld.u32 %b, [%a];"), HasSubstr("no allocation"));
}

TEST(PtxMemory, RefusesAddressesThatAreNotAligned) {
  EXPECT_THAT(ErrorOfBody("ld.global.u32 %a, [%in+2];"), HasSubstr("is no multiple of 4"));
  EXPECT_THAT(ErrorOfBody("ld.global.v2.u32 {%a, %b}, [%in+4];"), HasSubstr("is no multiple of 8"));
}

TEST(PtxMemory, KeepsLocalMemoryInsideItsVariables) {
  const std::string depot = ".local .align 8 .b8 depot[16];\n";
  EXPECT_EQ(Evaluate(depot + "mov.u64 %x0, depot; st.local.u64 [%x0+8], %a; cvta.local.u64 %x1, "
                             "%x0; ld.u64 %d, [%x1+8];",
                     {77}),
            77u);
  // Nobody has written it.
  EXPECT_EQ(Evaluate(depot + "mov.u64 %x0, depot; ld.local.u64 %d, [%x0];", {}), ~uint64_t{0});
  EXPECT_THAT(ErrorOfBody(depot + "mov.u64 %x0, depot; ld.local.u32 %a, [%x0+16];"),
              HasSubstr("16 bytes of local memory"));
  EXPECT_THAT(
      ErrorOfBody(depot + "mov.u64 %x0, depot; cvta.local.u64 %x0, %x0; st.u32 [%x0+-4], %a;"),
      HasSubstr("16 bytes of local memory"));
  EXPECT_THAT(
      ErrorOfBody(depot + "mov.u64 %x0, depot; cvta.local.u64 %x0, %x0; ld.global.u32 %a, [%x0];"),
      HasSubstr("no allocation"));
}

TEST(PtxMemory, ReadsParametersAndOnlyThem) {
  EXPECT_EQ(
      Evaluate("mov.b64 %x0, k_out; ld.param.u64 %x1, [%x0+8]; ld.global.u64 %d, [%x1];", {5}), 5u);
  EXPECT_THAT(ErrorOfBody("ld.param.u64 %a, [k_in+8];"), HasSubstr("lie in no parameter"));
  EXPECT_THAT(ErrorOfBody("ld.param.u64 %a, [k_out+4];"), HasSubstr("is no multiple of 8"));
  EXPECT_THAT(ErrorOfBody("st.param.u64 [k_in], %a;"), HasSubstr("parameter is written"));
}

TEST(PtxMemory, ReadsConstants) {
  const std::string table = ".const .align 4 .b32 table[3] = {1, 0f40490FDB, 0xffffffff};\n";
  std::vector<uint32_t> out(2), in(1);
  RunKernel(Kernel("mov.u64 %a, table; ld.const.u32 %b, [%a+4]; st.global.u32 [%out], %b;"
                   "cvta.const.u64 %a, %a; ld.u32 %b, [%a+8]; st.global.u32 [%out+4], %b;",
                   table),
            out, in);
  EXPECT_THAT(out, testing::ElementsAre(0x40490fdb, 0xffffffff));
  EXPECT_THAT(ErrorOfBody("ld.const.u32 %a, [table+12];", table),
              HasSubstr("no variable of the module"));
  EXPECT_THAT(ErrorOfBody("st.const.u32 [table], %a;", table),
              HasSubstr("constant memory is written"));
}

// As nvcc calls __internal_accurate_pow, here 2 a + b with local memory in both functions.
constexpr const char* kFunction = R"(
  .func (.param .b64 func_retval0) twice_plus(.param .b64 p0, .param .b64 p1);
  .func (.param .b64 func_retval0) twice_plus(.param .b64 p0, .param .b64 p1) {
    .local .align 8 .b8 own[8];
    .reg .b64 %a<4>;
    ld.param.u64 %a0, [p0];
    ld.param.u64 %a1, [p1];
    mov.u64 %a2, own;
    st.local.u64 [%a2], %a0;
    add.s64 %a1, %a1, %a0;
    ld.local.u64 %a3, [%a2];
    add.s64 %a1, %a1, %a3;
    st.param.u64 [func_retval0+0], %a1;
    ret;
  }
)";

TEST(PtxMemory, CallsFunctions) {
  std::vector<uint64_t> out(3), in = {5, 7};
  RunKernel(Kernel(R"(
    .local .align 8 .b8 depot[8];
    ld.global.u64 %a, [%in];
    ld.global.u64 %b, [%in+8];
    mov.u64 %e, depot;
    st.local.u64 [%e], %b;
    { .reg .b32 temp_param_reg;
      .param .b64 param0; st.param.b64 [param0+0], %a;
      .param .b64 param1; st.param.b64 [param1+0], %b;
      .param .b64 retval0;
      call.uni (retval0), twice_plus, ( param0, param1 );
      ld.param.b64 %d, [retval0+0]; }
    st.global.u64 [%out], %d;
    ld.local.u64 %c, [%e];
    st.global.u64 [%out+8], %c;
    st.global.u64 [%out+16], %a;)",
                   kFunction),
            out, in);
  EXPECT_THAT(out, testing::ElementsAre(17, 7, 5));
}

}  // namespace
}  // namespace carafe::vgpu::ptx
