#include "carafe/proto/dialects.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <google/protobuf/unknown_field_set.h>
#include <gtest/gtest.h>

#include <cstring>

#include "carafe/proto/text.h"
#include "carafe/proto/upgrade.h"
#include "tests/support/error_text.h"

namespace carafe {
namespace {

using ::testing::ElementsAre;

// Messages as a fork would write them, byte by byte.
std::string Varint(uint64_t value) {
  std::string bytes;
  for (; value >= 128; value >>= 7) bytes += static_cast<char>(value % 128 + 128);
  return bytes + static_cast<char>(value);
}
std::string Number(int field, uint64_t value) {
  return Varint(static_cast<uint64_t>(field) << 3) + Varint(value);
}
std::string Bytes(int field, const std::string& content) {
  return Varint(static_cast<uint64_t>(field) << 3 | 2) + Varint(content.size()) + content;
}
template <typename T>
std::string Raw(std::initializer_list<T> values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.begin(), bytes.size());
  return bytes;
}
std::string Layer(const std::string& type, const std::string& more) {
  return Bytes(100, Bytes(1, "l") + Bytes(2, type) + more);
}
std::string Shape(int dim) { return Bytes(7, Bytes(1, Varint(static_cast<uint64_t>(dim)))); }
std::string Blob(const std::string& content) { return Bytes(7, content); }

NetParameter Converted(const std::string& bytes, bool expect_change = true) {
  NetParameter net;
  EXPECT_TRUE(net.ParsePartialFromString(bytes));
  EXPECT_EQ(ConvertDialect(&net, "w.caffemodel"), expect_change);
  return net;
}
BlobProto ConvertedBlob(const std::string& content) {
  return Converted(Layer("InnerProduct", Blob(content))).layer(0).blobs(0);
}

TEST(NvcaffeBlobs, OfFloatsAndDoublesBecomeData) {
  const BlobProto floats =
      ConvertedBlob(Shape(2) + Number(10, 1) + Bytes(12, Raw<float>({1.5F, -2})));
  EXPECT_THAT(floats.data(), ElementsAre(1.5F, -2));
  EXPECT_THAT(floats.shape().dim(), ElementsAre(2));
  EXPECT_TRUE(floats.GetReflection()->GetUnknownFields(floats).empty());
  const BlobProto doubles =
      ConvertedBlob(Shape(2) + Number(10, 0) + Bytes(12, Raw<double>({0.1, 1e300})));
  EXPECT_THAT(doubles.double_data(), ElementsAre(0.1, 1e300));
  EXPECT_EQ(doubles.data_size(), 0);
}

TEST(NvcaffeBlobs, OfHalvesBecomeFloats) {
  const BlobProto blob = ConvertedBlob(
      Number(10, 2) +
      Bytes(12, Raw<uint16_t>({0x3C00, 0xC000, 0x7BFF, 0x0001, 0x03FF, 0x8000, 0x7C00, 0x3555})));
  EXPECT_THAT(blob.data(), ElementsAre(1.0F, -2.0F, 65504.0F, 0x1p-24F, 1023 * 0x1p-24F, -0.0F,
                                       std::numeric_limits<float>::infinity(), 0.333251953125F));
  EXPECT_TRUE(std::signbit(blob.data(5)));
}

TEST(NvcaffeBlobs, OfIntegersKeepEveryDigit) {
  EXPECT_THAT(ConvertedBlob(Number(10, 3) + Bytes(12, Raw<int32_t>({-16777217}))).double_data(),
              ElementsAre(-16777217));
  EXPECT_THAT(ConvertedBlob(Number(10, 4) + Bytes(12, Raw<uint32_t>({4294967295U}))).double_data(),
              ElementsAre(4294967295.0));
}

TEST(NvcaffeBlobs, KeepTheirGradients) {
  const BlobProto blob = ConvertedBlob(Number(10, 1) + Bytes(12, Raw<float>({1})) + Number(11, 2) +
                                       Bytes(13, Raw<uint16_t>({0x4000})));
  EXPECT_THAT(blob.data(), ElementsAre(1));
  EXPECT_THAT(blob.diff(), ElementsAre(2));
}

TEST(NvcaffeBlobs, ThatCannotBeRightAreRefused) {
  const auto error = [](const std::string& content) {
    return ErrorText<DataError>([&] { ConvertedBlob(content); });
  };
  EXPECT_EQ(error(Number(10, 1) + Bytes(12, "12345")),
            "w.caffemodel: error: layer \"l\", parameter 0: 5 bytes of raw_data, of type 1\n"
            "  fix: this is a blob of NVCaffe or Caffe-MPI, and damaged; fetch the file again");
  EXPECT_NE(error(Number(10, 9) + Bytes(12, "1234")), "no error");
  EXPECT_NE(error(Bytes(12, "1234")), "no error");
}

TEST(NvcaffeBlobs, AreReadInSolverStatesToo) {
  SolverState state;
  ASSERT_TRUE(
      state.ParseFromString(Number(1, 5) + Bytes(3, Number(10, 1) + Bytes(12, Raw<float>({3})))));
  Forks forks;
  ConvertDialect(state.mutable_history(0), "history blob 0", "s.solverstate", &forks);
  EXPECT_THAT(state.history(0).data(), ElementsAre(3));
  EXPECT_EQ(forks.size(), 1u);
}

TEST(NvcaffeLayers, LosePrecisionsThatHaveNumbersOfSettings) {
  const NetParameter net =
      Converted(Layer("ReLU", Number(145, 2) + Number(146, 2) + Number(147, 1) + Number(148, 1)));
  EXPECT_EQ(net.ShortDebugString(), "layer { name: \"l\" type: \"ReLU\" }");
}

TEST(NvcaffeLayers, OfBatchNormGetTheFactorThatCaffeDividesBy) {
  const auto blob = [](float value) { return Blob(Bytes(5, Raw<float>({value}))); };
  const NetParameter net = Converted(Layer("BatchNorm", blob(2) + blob(3) + blob(0)));
  EXPECT_THAT(net.layer(0).blobs(0).data(), ElementsAre(2));
  EXPECT_THAT(net.layer(0).blobs(2).data(), ElementsAre(1));
  // Caffe's own, before its first iteration; and after some.
  EXPECT_THAT(
      Converted(Layer("BatchNorm", blob(0) + blob(0) + blob(0)), false).layer(0).blobs(2).data(),
      ElementsAre(0));
  EXPECT_THAT(
      Converted(Layer("BatchNorm", blob(2) + blob(3) + blob(9)), false).layer(0).blobs(2).data(),
      ElementsAre(9));
}

TEST(PmlsNets, AreReadAsV1WithoutTheirOwnNumbers) {
  // layers { name: "l" type: INNER_PRODUCT blobs { num 1.. data 7  blob_mode 1  global_id 3 } }
  const std::string blob = Number(1, 1) + Number(2, 1) + Number(3, 1) + Number(4, 1) +
                           Bytes(5, Raw<float>({7})) + Number(7, 1) + Number(8, 3);
  const std::string layer = Bytes(4, "l") + Number(5, 14) + Bytes(6, blob);
  const std::string data =  // shared_file_system: true
      Bytes(4, "d") + Number(5, 5) + Bytes(11, Bytes(1, "db") + Number(9, 1));
  NetParameter net = Converted(Bytes(2, layer) + Bytes(2, data));
  UpgradeNet(&net, "w.caffemodel");
  EXPECT_EQ(net.ShortDebugString(),
            "layer { name: \"l\" type: \"InnerProduct\" blobs { num: 1 channels: 1 height: 1 "
            "width: 1 data: 7 } } layer { name: \"d\" type: \"Data\" data_param { source: \"db\" } "
            "}");
}

TEST(ForeignSettings, DoNotPassForThoseOfCaffe) {
  EXPECT_EQ(Converted(Layer("ParallelData", Bytes(147, Bytes(1, "raw")))).ShortDebugString(),
            "layer { name: \"l\" type: \"ParallelData\" }");
  EXPECT_EQ(Converted(Layer("ParallelInMemData", Bytes(148, Bytes(1, "raw")))).ShortDebugString(),
            "layer { name: \"l\" type: \"ParallelInMemData\" }");
  // intel's sigma has the number and kind of Clip's min
  const std::string sigma = Varint(1 << 3 | 5) + Raw<float>({3});
  EXPECT_EQ(Converted(Layer("SmoothL1Loss", Bytes(148, sigma))).ShortDebugString(),
            "layer { name: \"l\" type: \"SmoothL1Loss\" }");
}

TEST(Dialects, LeaveCaffesOwnFilesAlone) {
  NetParameter net;
  ParseText(
      "layer { name: 'c' type: 'Clip' clip_param { min: 0 max: 1 } blobs { data: 1 } } "
      "layer { name: 's' type: 'Swish' swish_param { beta: 2 } } "
      "layer { name: 'p' type: 'Parameter' parameter_param { shape { dim: 1 } } }",
      "n", &net);
  const std::string before = net.SerializeAsString();
  EXPECT_FALSE(ConvertDialect(&net, "n"));
  EXPECT_EQ(net.SerializeAsString(), before);
}

}  // namespace
}  // namespace carafe
