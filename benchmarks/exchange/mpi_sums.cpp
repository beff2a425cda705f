// The peer of `exchange_bench sums`: MPI_Allreduce, built by each MPI's own compiler. One JSON line
// per size.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const long min_bytes = argc > 1 ? std::atol(argv[1]) : 4096;
  const long max_bytes = argc > 2 ? std::atol(argv[2]) : 16 << 20;
  const double limit = argc > 3 ? std::atof(argv[3]) : 0.5;
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  for (long bytes = min_bytes; bytes <= max_bytes; bytes *= 2) {
    const int count = static_cast<int>(bytes / static_cast<long>(sizeof(float)));
    std::vector<float> part(count), sum(count);
    for (int i = 0; i < count; ++i) part[i] = static_cast<float>((i * 7L + rank * 13) % 32);
    const auto step = [&] {
      MPI_Allreduce(part.data(), sum.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    };
    step();
    long wrong = 0;
    for (int i = 0; i < count; ++i) {
      float expected = 0;
      for (int r = 0; r < size; ++r) expected += static_cast<float>((i * 7L + r * 13) % 32);
      wrong += sum[i] != expected;
    }
    const double begin = MPI_Wtime();
    for (int i = 0; i < 3; ++i) step();
    long rounds = std::clamp(static_cast<long>(limit * 3 / (MPI_Wtime() - begin)), 7L, 2000L);
    MPI_Bcast(&rounds, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    std::vector<double> seconds;
    for (long i = 0; i < rounds; ++i) {
      const double start = MPI_Wtime();
      step();
      seconds.push_back(MPI_Wtime() - start);
    }
    std::sort(seconds.begin(), seconds.end());
    if (rank != 0) continue;
    std::printf(
        "{\"bytes\": %ld, \"best\": %.9f, \"median\": %.9f, \"rounds\": %ld, \"wrong\": %ld}\n",
        bytes, seconds.front(), seconds[seconds.size() / 2], rounds, wrong);
    std::fflush(stdout);
  }
  MPI_Finalize();
  return 0;
}
