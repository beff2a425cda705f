#include "carafe/net/weights_hdf5.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

#include "carafe/base/file.h"
#include "carafe/base/log.h"
#include "carafe/data/hdf5_file.h"

namespace carafe {
namespace {

constexpr std::pair<char, const char*> kEscapes[] = {{'/', "%2F"}, {'.', "%2E"}, {'%', "%25"}};
constexpr char kNoName[] = "%00";

bool IsEscape(std::string_view text) {
  return text.starts_with(kNoName) || std::ranges::any_of(kEscapes, [&](const auto& escape) {
           return text.starts_with(escape.second);
         });
}

// "" for a layer that the file does not have.
std::string GroupOf(const Hdf5File& file, const std::string& layer) {
  const std::string escaped = "data/" + Hdf5LayerName(layer);
  if (file.HasGroup(escaped)) return escaped;
  const std::string verbatim = "data/" + layer;  // slashes as groups in groups
  return file.HasGroup(verbatim) ? verbatim : "";
}

bool IsNumber(const std::string& name) {
  return !name.empty() &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); });
}

// One dataset and where its values go.
template <typename T>
struct Copy {
  std::string dataset;
  Blob<T>* blob;
};

template <typename T>
void PlanLayer(const Hdf5File& file, const std::string& group, const Net<T>& net, size_t index,
               std::vector<Copy<T>>* plan) {
  constexpr char kFix[] = "rename the layer in the net to train it from the start";
  Layer<T>& layer = *net.layers()[index];
  const auto stored = static_cast<size_t>(std::ranges::count_if(file.Members(group), IsNumber));
  size_t needed = 0, found = 0;
  for (size_t i = 0; i < layer.blobs().size(); ++i) {
    const Param<T>& owner = net.params()[static_cast<size_t>(
        net.OwnerOf(static_cast<int>(index), static_cast<int>(i)))];
    const bool shared =
        owner.layer != static_cast<int>(index) || owner.index != static_cast<int>(i);
    const std::string dataset = fmt::format("{}/{}", group, i);
    const bool there = file.HasDataset(dataset);
    needed += there || !shared;
    found += there;
    if (!there) continue;
    const Shape shape = file.DatasetShape(dataset);
    if (shape != layer.blobs()[i]->shape()) {
      throw DataError(
          file.path(), -1,
          fmt::format("layer \"{}\", parameter {}: the file has shape {}, the net {}", layer.name(),
                      i, shape.ToString(), layer.blobs()[i]->shape().ToString()),
          kFix);
    }
    plan->push_back({dataset, layer.blobs()[i].get()});
  }
  if (stored != found || found != needed) {
    throw DataError(file.path(), -1,
                    fmt::format("layer \"{}\" has {} parameters in the file and {} in the net",
                                layer.name(), stored, needed),
                    kFix);
  }
}

[[noreturn]] void FailKind(const std::string& path) {
  throw DataError(path, -1, "this HDF5 file holds no weights: it has no group \"data\"",
                  "give a .caffemodel.h5");
}

}  // namespace

std::string Hdf5LayerName(const std::string& layer) {
  if (layer.empty()) return kNoName;
  if (layer == ".") return "%2E";
  std::string group;
  for (size_t i = 0; i < layer.size(); ++i) {
    if (layer[i] == '/') {
      group += "%2F";
    } else if (layer[i] == '%' && IsEscape(std::string_view(layer).substr(i))) {
      group += "%25";
    } else {
      group += layer[i];
    }
  }
  return group;
}

std::string LayerNameOfHdf5(const std::string& group) {
  if (group == kNoName) return "";
  std::string layer;
  for (size_t i = 0; i < group.size();) {
    const auto escape = std::ranges::find_if(kEscapes, [&](const auto& each) {
      return std::string_view(group).substr(i).starts_with(each.second);
    });
    const bool found = escape != std::end(kEscapes);
    layer += found ? escape->first : group[i];
    i += found ? 3 : 1;
  }
  return layer;
}

template <typename T>
void CheckHdf5Names(const Net<T>& net) {
  std::set<std::string> names;
  for (const auto& layer : net.layers()) {
    layer->spec().Check(names.insert(layer->name()).second, "name",
                        "another layer has this name, too, and HDF5 keeps weights by name",
                        "give each layer its own name, or use snapshot_format: BINARYPROTO");
  }
}

template <typename T>
void WriteWeightsHdf5(Stream& stream, const Net<T>& net, bool with_diff, const std::string& path) {
  CheckHdf5Names(net);
  WriteAtomically(path, [&](const std::string& temporary) {
    Hdf5File file(temporary, Hdf5File::Mode::kCreate);
    file.CreateGroup("data");
    if (with_diff) file.CreateGroup("diff");
    for (size_t l = 0; l < net.layers().size(); ++l) {
      Layer<T>& layer = *net.layers()[l];
      const std::string data = "data/" + Hdf5LayerName(layer.name());
      const std::string diff = "diff/" + Hdf5LayerName(layer.name());
      file.CreateGroup(data);
      if (with_diff) file.CreateGroup(diff);
      for (size_t i = 0; i < layer.blobs().size(); ++i) {
        const Blob<T>& blob = *layer.blobs()[i];
        const Param<T>& owner = net.params()[static_cast<size_t>(
            net.OwnerOf(static_cast<int>(l), static_cast<int>(i)))];
        if (owner.layer == static_cast<int>(l) && owner.index == static_cast<int>(i)) {
          file.Write<T>(fmt::format("{}/{}", data, i), blob.shape(), blob.DataToHost(stream));
        }
        if (with_diff) {  // of every layer, as in the original
          file.Write<T>(fmt::format("{}/{}", diff, i), blob.shape(), blob.DiffToHost(stream));
        }
      }
    }
    file.Close();
  });
}

template <typename T>
void LoadWeightsHdf5(Stream& stream, const std::string& path, Net<T>& net) {
  const Hdf5File file(path);
  if (!file.HasGroup("data")) FailKind(path);
  std::vector<Copy<T>> plan;
  std::set<std::string> used;
  for (size_t l = 0; l < net.layers().size(); ++l) {
    Layer<T>& layer = *net.layers()[l];
    if (net.FindLayerNamed(layer.name()) != &layer) continue;  // the first of one name
    const std::string group = GroupOf(file, layer.name());
    if (group.empty()) continue;
    used.insert(group.substr(0, group.find('/', sizeof("data/") - 1)));
    PlanLayer(file, group, net, l, &plan);
  }
  for (const std::string& group : file.Members("data")) {
    if (!used.contains("data/" + group))
      LogInfo("Ignoring source layer {}", LayerNameOfHdf5(group));
  }
  for (const Copy<T>& copy : plan) copy.blob->SetData(stream, file.Read<T>(copy.dataset));
}

void CheckWeightsHdf5(const std::string& path) {
  if (!Hdf5File(path).HasGroup("data")) FailKind(path);
}

#define CARAFE_INSTANTIATE(T)                                                          \
  template void CheckHdf5Names<T>(const Net<T>&);                                      \
  template void WriteWeightsHdf5<T>(Stream&, const Net<T>&, bool, const std::string&); \
  template void LoadWeightsHdf5<T>(Stream&, const std::string&, Net<T>&);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
