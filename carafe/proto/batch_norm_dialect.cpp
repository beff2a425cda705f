#include "carafe/proto/batch_norm_dialect.h"

#include <algorithm>

namespace carafe {
namespace {

enum { kMean, kVariance, kFactor, kScale, kBias, kBlobs };

int Values(const BlobProto& blob) { return std::max(blob.data_size(), blob.double_data_size()); }

bool AllZero(const BlobProto& blob) {
  return std::ranges::all_of(blob.data(), [](float v) { return v == 0; }) &&
         std::ranges::all_of(blob.double_data(), [](double v) { return v == 0; });
}

// The last three of five to the front.
template <typename Repeated>
void StatisticsFirst(Repeated* entries) {
  std::rotate(entries->pointer_begin(), entries->pointer_begin() + 2, entries->pointer_end());
}

}  // namespace

bool ReorderBatchNormParams(LayerParameter* layer) {
  if (layer->type() != "BatchNorm" || !ScalesAndShifts(layer->batch_norm_param())) return false;
  auto* params = layer->mutable_param();
  if (params->empty() || params->size() > kBlobs) return false;
  for (int i = 2; i < params->size(); ++i) {
    if (params->Get(i).lr_mult() != 0) return false;
  }
  const bool learned =
      params->Get(0).lr_mult() != 0 || (params->size() > 1 && params->Get(1).lr_mult() != 0);
  if (!learned) return false;
  while (params->size() < 2) params->Add();
  while (params->size() < kBlobs) params->Add()->set_lr_mult(0);
  StatisticsFirst(params);
  return true;
}

bool ReorderBatchNormBlobs(LayerParameter* layer) {
  if (layer->type() != "BatchNorm" || layer->blobs_size() != kBlobs) return false;
  auto* blobs = layer->mutable_blobs();
  bool changed = false;
  if (Values(blobs->Get(kBlobs - 1)) == 1 && Values(blobs->Get(kFactor)) > 1) {
    StatisticsFirst(blobs);
    changed = true;
  }
  const bool plain = AllZero(blobs->Get(kFactor)) && Values(blobs->Get(kFactor)) == 1 &&
                     !(AllZero(blobs->Get(kMean)) && AllZero(blobs->Get(kVariance)));
  if (plain) {
    BlobProto* factor = blobs->Mutable(kFactor);
    for (float& value : *factor->mutable_data()) value = 1;
    for (double& value : *factor->mutable_double_data()) value = 1;
    changed = true;
  }
  if (!changed) return false;
  for (BlobProto& blob : *blobs) {  // (1, C, 1, 1) in the forks
    const int values = Values(blob);
    blob.clear_num();
    blob.clear_channels();
    blob.clear_height();
    blob.clear_width();
    blob.clear_shape();
    blob.mutable_shape()->add_dim(values);
  }
  return true;
}

}  // namespace carafe
