// Grids, barriers, warps and atomic operations.
#include "tests/vgpu/ptx/testing.h"

namespace carafe::vgpu::ptx {
namespace {

using testing::HasSubstr;

// The thread's number in the whole grid (one axis) in %x0, the address of its word of `out` in %x1.
constexpr const char* kIndex = R"(
  mov.u32 %x2, %ctaid.x; mov.u32 %x3, %ntid.x; mov.u32 %x4, %tid.x;
  mad.lo.u32 %x0, %x2, %x3, %x4;
  mul.wide.u32 %x1, %x0, 4;
  add.s64 %x1, %out, %x1;
)";

std::vector<uint32_t> RunGrid(const std::string& body, uint32_t blocks, uint32_t threads,
                              const std::string& before = "") {
  std::vector<uint32_t> out(size_t{blocks} * threads), in(1);
  Grid grid;
  grid.blocks[0] = blocks;
  grid.threads[0] = threads;
  RunKernel(Kernel(kIndex + body, before), out, in, grid);
  return out;
}

TEST(PtxThreads, RunAllThreadsOfAllBlocks) {
  EXPECT_THAT(
      RunGrid("mov.u32 %a, %nctaid.x; mad.lo.u32 %a, %a, 100, %x0; st.global.u32 [%x1], %a;", 3, 2),
      testing::ElementsAre(300, 301, 302, 303, 304, 305));
}

TEST(PtxThreads, NumberThreadsOnThreeAxes) {
  std::vector<uint32_t> out(24 * 2), in(1);
  Grid grid{.blocks = {1, 2, 1}, .threads = {2, 3, 4}};
  RunKernel(Kernel(R"(
    mov.u32 %a, %tid.z; mad.lo.u32 %a, %a, 3, 0; mov.u32 %b, %tid.y; add.u32 %a, %a, %b;
    mov.u32 %b, %tid.x; mad.lo.u32 %a, %a, 2, %b; mov.u32 %c, %ctaid.y; mad.lo.u32 %a, %c, 24, %a;
    mul.wide.u32 %d, %a, 4; add.s64 %d, %d, %out; mov.u32 %e, %laneid; add.u32 %e, %e, 1; st.global.u32 [%d], %e;)"),
            out, in, grid);
  for (uint32_t i = 0; i < out.size(); ++i) EXPECT_EQ(out[i], i % 24 + 1);
}

constexpr const char* kShared = ".shared .align 4 .b8 shared[256];\n";

// Each thread reads what its neighbour wrote before the barrier; blocks have their own.
TEST(PtxThreads, WaitForEachOtherAtBarriers) {
  const std::string body = R"(
    mov.u64 %e, shared; mul.wide.u32 %a, %x4, 4; add.s64 %a, %a, %e;
    st.shared.u32 [%a], %x0;
    bar.sync 0;
    add.u32 %b, %x4, 1; rem.u32 %b, %b, %x3; mul.wide.u32 %b, %b, 4; add.s64 %b, %b, %e;
    ld.shared.u32 %c, [%b];
    st.global.u32 [%x1], %c;)";
  EXPECT_THAT(RunGrid(body, 2, 3, kShared), testing::ElementsAre(1, 2, 0, 4, 5, 3));
  // Without the barrier the first threads read what nobody has written.
  std::string broken = body;
  broken.erase(broken.find("bar.sync 0;"), 11);
  EXPECT_EQ(RunGrid(broken, 2, 3, kShared)[0], 0xffffffffu);
}

TEST(PtxThreads, ReportBarriersThatPartOfABlockReaches) {
  const auto error = [](const char* body) { return ErrorOf([&] { RunGrid(body, 1, 4); }); };
  const std::string ended = error("setp.eq.u32 %p1, %x4, 2; @%p1 bra END; bar.sync 0; END:");
  EXPECT_THAT(ended, HasSubstr("bar.sync 0"));
  EXPECT_THAT(ended, HasSubstr("only 3 of 4 threads have reached this barrier, 1 have ended"));
  EXPECT_THAT(error("setp.eq.u32 %p1, %x4, 2; @%p1 bra B; bar.sync 0; ret; B: bar.sync 0;"),
              HasSubstr("only 3 of 4 threads have reached this barrier, 0 have ended"));
}

TEST(PtxThreads, HaveDynamicSharedMemoryBehindTheStatic) {
  std::vector<uint32_t> out(2), in(1);
  const std::string text = Kernel(
      "mov.u64 %a, dynamic; mov.u64 %b, shared; sub.s64 %c, %a, %b; st.global.u32 [%out], %c;"
      "st.shared.u32 [%a+12], 9; ld.shared.u32 %d, [%a+12]; st.global.u32 [%out+4], %d;",
      ".extern .shared .align 16 .b8 dynamic[];\n.shared .align 4 .b8 shared[20];\n");
  RunKernel(text, out, in, {.shared_bytes = 16});
  EXPECT_THAT(out, testing::ElementsAre(32, 9));
  EXPECT_THAT(ErrorOf([&] { RunKernel(text, out, in, {.shared_bytes = 12}); }),
              HasSubstr("shared memory"));
}

// The sum of a warp, as reductions do it.
TEST(PtxThreads, ShuffleWithinAWarp) {
  std::string body = "mov.u32 %a, %x4;\n";
  for (const char* by : {"16", "8", "4", "2", "1"}) {
    body +=
        std::string("shfl.sync.bfly.b32 %b, %a, ") + by + ", 31, 0xffffffff; add.s32 %a, %a, %b;\n";
  }
  const std::vector<uint32_t> sums = RunGrid(body + "st.global.u32 [%x1], %a;", 1, 64);
  for (uint32_t i = 0; i < 64; ++i) EXPECT_EQ(sums[i], i < 32 ? 31 * 16 : 31 * 16 + 32 * 32);
}

TEST(PtxThreads, ShuffleInsideSegments) {
  const auto run = [](const std::string& how) {
    return RunGrid(
        "shfl.sync." + how +
            ", 0xffffffff; selp.u32 %b, 100, 0, %p1; add.u32 %a, %a, %b; st.global.u32 [%x1], %a;",
        1, 32);
  };
  // Segments of 16 lanes: bit 12 of the last operand but one.
  const std::vector<uint32_t> down = run("down.b32 %a|%p1, %x4, 2, 0x101f");
  EXPECT_EQ(down[0], 102u);
  EXPECT_EQ(down[13], 115u);
  EXPECT_EQ(down[14], 14u);  // its own: 16 is in the next segment
  EXPECT_EQ(down[16], 118u);
  const std::vector<uint32_t> up = run("up.b32 %a|%p1, %x4, 1, 0x1000");
  EXPECT_EQ(up[0], 0u);
  EXPECT_EQ(up[16], 16u);
  EXPECT_EQ(up[17], 116u);
  EXPECT_EQ(run("idx.b32 %a|%p1, %x4, 3, 31")[20], 103u);
}

TEST(PtxThreads, ReportShufflesThatPartOfAWarpReaches) {
  const auto error = [](const char* body) { return ErrorOf([&] { RunGrid(body, 1, 32); }); };
  EXPECT_THAT(error("setp.lt.u32 %p1, %x4, 8; @%p1 bra END; shfl.sync.down.b32 %a, %x4, 1, 31, "
                    "0xffffffff; END:"),
              HasSubstr("only 24 of 32 threads have reached this operation of a warp"));
  EXPECT_THAT(error("setp.lt.u32 %p1, %x4, 8; @%p1 bra END; shfl.sync.bfly.b32 %a, %x4, 16, 31, "
                    "0xffffff00; END:"),
              HasSubstr("reads lane 0, which takes no part"));
}

TEST(PtxThreads, Vote) {
  const auto run = [](const std::string& text) {
    return RunGrid("setp.lt.u32 %p1, %x4, 3;" + text + "st.global.u32 [%x1], %a;", 1, 32)[5];
  };
  EXPECT_EQ(run("vote.sync.ballot.b32 %a, %p1, 0xffffffff;"), 7u);
  EXPECT_EQ(run("vote.sync.any.pred %p2, %p1, 0xffffffff; selp.u32 %a, 1, 0, %p2;"), 1u);
  EXPECT_EQ(run("vote.sync.all.pred %p2, %p1, 0xffffffff; selp.u32 %a, 1, 0, %p2;"), 0u);
  EXPECT_EQ(run("vote.sync.uni.pred %p2, %p1, 0xffffffff; selp.u32 %a, 1, 0, %p2;"), 0u);
  EXPECT_EQ(run("redux.sync.max.u32 %a, %x4, 0xffffffff;"), 31u);
  EXPECT_EQ(run("bar.warp.sync 0xffffffff; redux.sync.add.s32 %a, 2, 0xffffffff;"), 64u);
}

TEST(PtxThreads, AddAtomically) {
  std::vector<float> out(3), in(1);
  Grid grid{.blocks = {3, 1, 1}, .threads = {4, 1, 1}};
  RunKernel(Kernel(R"(
    red.global.add.f32 [%out], 0f3F000000;
    atom.global.add.f32 %a, [%out+4], 0f3F800000;
    st.global.f32 [%out+8], %a;)"),
            out, in, grid);
  EXPECT_THAT(out, testing::ElementsAre(6, 12, 11));
  std::vector<uint32_t> words = {5, 6, 7};
  RunKernel(Kernel(R"(
    atom.global.cas.b32 %a, [%out], 5, 50;
    atom.cas.b32 %b, [%out+4], 5, 50;
    atom.global.exch.b32 %c, [%out+8], %b;
    atom.global.max.s32 %d, [%out+4], %a;
    atom.global.and.b32 %d, [%out], 0x12;)"),
            words, in);
  EXPECT_THAT(words, testing::ElementsAre(50 & 0x12, 6, 6));
}

}  // namespace
}  // namespace carafe::vgpu::ptx
