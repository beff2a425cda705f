#include "carafe/data/hdf5_file.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <type_traits>
#include <utility>

#include "carafe/base/error.h"

namespace carafe {
namespace {

static_assert(std::is_same_v<hid_t, int64_t>);

constexpr char kDamaged[] = "the file is damaged; fetch or write it again";
constexpr char kFullDisk[] = "see whether the disk is full, or write elsewhere";
constexpr int64_t kChunkBytes = 1 << 20;       // of datasets that grow
constexpr int64_t kFreeBytes = 64 << 20;       // so much may be asked for without a doubt
constexpr int64_t kLargestCompression = 2048;  // deflate comes to 1032 at most

// The lock that every call into libhdf5 needs; keeps it from printing. Its error stack belongs to
// the thread in some builds, so it is silenced on every call. Its own clean-up at the end of the
// process is off: after a write that failed (a full disk) it crashes, and our files are closed.
class Session {
 public:
  Session() : lock_(Mutex()) {
    [[maybe_unused]] static const herr_t once = H5dont_atexit();
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
  }

 private:
  static std::mutex& Mutex() {
    static std::mutex mutex;
    return mutex;
  }
  const std::lock_guard<std::mutex> lock_;
};

// An identifier of libhdf5 and what gives it back. Made and destroyed within a Session.
class Handle {
 public:
  using Closer = herr_t (*)(hid_t);
  Handle(hid_t id, Closer closer) : id_(id), closer_(closer) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, -1)), closer_(other.closer_) {}
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() {
    if (id_ >= 0) closer_(id_);
  }
  hid_t id() const { return id_; }
  bool ok() const { return id_ >= 0; }

 private:
  hid_t id_;
  const Closer closer_;
};

// What the innermost call of libhdf5 that failed says of it.
std::string Reason() {
  std::string reason;
  const auto take = [](unsigned n, const H5E_error2_t* error, void* to) -> herr_t {
    if (n == 0 && error->desc != nullptr) *static_cast<std::string*>(to) = error->desc;
    return 0;
  };
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, take, &reason);
  // Of a failed system call: "..., errno = 28, error message = 'No space left on device', ...".
  constexpr std::string_view kSystem = "error message = '";
  if (const size_t at = reason.find(kSystem); at != std::string::npos) {
    reason = reason.substr(at + kSystem.size());
    reason = reason.substr(0, reason.find('\''));
  }
  return reason.empty() ? "libhdf5 gives no reason" : reason;
}

template <typename T>
hid_t NativeType() {
  if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
  if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
  if constexpr (std::is_same_v<T, uint8_t>) return H5T_NATIVE_UINT8;
  if constexpr (std::is_same_v<T, int32_t>) return H5T_NATIVE_INT32;
  if constexpr (std::is_same_v<T, int64_t>) return H5T_NATIVE_INT64;
  if constexpr (std::is_same_v<T, uint64_t>) return H5T_NATIVE_UINT64;
}

const char* ClassName(H5T_class_t type) {
  switch (type) {
    case H5T_STRING:
      return "strings";
    case H5T_COMPOUND:
      return "compound records";
    case H5T_ENUM:
      return "an enumeration (numpy's bool is one)";
    case H5T_VLEN:
      return "rows of varying length";
    case H5T_ARRAY:
      return "arrays as elements";
    default:
      return "something that is no number";
  }
}

std::vector<hsize_t> Dims(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

Handle MakeSpace(const Shape& shape) {
  if (shape.rank() == 0) return {H5Screate(H5S_SCALAR), H5Sclose};
  return {H5Screate_simple(shape.rank(), Dims(shape).data(), nullptr), H5Sclose};
}

// Without times, so that equal content makes equal files.
Handle CreationSettings(hid_t type) {
  Handle settings(H5Pcreate(type), H5Pclose);
  if (settings.ok()) H5Pset_obj_track_times(settings.id(), false);
  return settings;
}

// Every part of the path is asked for: libhdf5 wants to know of the last one only.
bool Exists(hid_t file, const std::string& name) {
  for (size_t slash = name.find('/');; slash = name.find('/', slash + 1)) {
    const std::string part = name.substr(0, slash);
    if (part.empty() || part.ends_with('/')) return false;
    if (H5Lexists(file, part.c_str(), H5P_DEFAULT) <= 0) return false;
    if (H5Oexists_by_name(file, part.c_str(), H5P_DEFAULT) <= 0) return false;  // a dead link
    if (slash == std::string::npos) return true;
    const Handle object(H5Oopen(file, part.c_str(), H5P_DEFAULT), H5Oclose);
    if (!object.ok() || H5Iget_type(object.id()) != H5I_GROUP) return false;
  }
}

bool HasObject(hid_t file, const std::string& name, H5I_type_t type) {
  if (!Exists(file, name)) return false;
  const Handle object(H5Oopen(file, name.c_str(), H5P_DEFAULT), H5Oclose);
  return object.ok() && H5Iget_type(object.id()) == type;
}

[[noreturn]] void Fail(const std::string& path, const std::string& name, const std::string& what,
                       const std::string& fix) {
  throw DataError(path, -1, fmt::format("dataset \"{}\" {}", name, what), fix);
}

// An opened dataset of numbers.
struct Dataset {
  Handle handle;
  Handle space;
  Shape shape;
};

Dataset OpenNumbers(hid_t file, const std::string& path, const std::string& name) {
  if (!HasObject(file, name, H5I_DATASET)) {
    Fail(path, name, "is not in the file", "use a file that has it; h5ls shows what a file has");
  }
  Handle handle(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose);
  Handle space(handle.ok() ? H5Dget_space(handle.id()) : -1, H5Sclose);
  const Handle type(handle.ok() ? H5Dget_type(handle.id()) : -1, H5Tclose);
  if (!space.ok() || !type.ok()) Fail(path, name, "cannot be opened: " + Reason(), kDamaged);
  const H5T_class_t what = H5Tget_class(type.id());
  if (what != H5T_INTEGER && what != H5T_FLOAT) {
    Fail(path, name, fmt::format("holds {}, not numbers", ClassName(what)),
         "store it as integers or floats of any width");
  }
  if (H5Sget_simple_extent_type(space.id()) == H5S_NULL) {
    Fail(path, name, "is empty: it has no shape", "store an array");
  }
  const int rank = H5Sget_simple_extent_ndims(space.id());
  std::vector<hsize_t> dims(static_cast<size_t>(std::max(rank, 0)));
  if (rank < 0 || (rank > 0 && H5Sget_simple_extent_dims(space.id(), dims.data(), nullptr) < 0)) {
    Fail(path, name, "has no shape: " + Reason(), kDamaged);
  }
  try {
    const std::vector<int64_t> sizes(dims.begin(), dims.end());  // beyond 2^63: negative, refused
    return {std::move(handle), std::move(space), Shape(sizes)};
  } catch (const ConfigError&) {
    Fail(path, name, fmt::format("has a shape that no memory could hold: {}", fmt::join(dims, " ")),
         kDamaged);
  }
}

void CheckHoldsValues(const Dataset& data, const std::string& path, const std::string& name,
                      int64_t values) {
  if (values <= kFreeBytes / static_cast<int64_t>(sizeof(double))) return;
  const Handle settings(H5Dget_create_plist(data.handle.id()), H5Pclose);
  if (settings.ok() &&
      (H5Pget_layout(settings.id()) == H5D_VIRTUAL || H5Pget_external_count(settings.id()) > 0)) {
    return;  // its values lie in other files
  }
  const Handle type(H5Dget_type(data.handle.id()), H5Tclose);
  std::error_code ignored;
  const auto file_bytes = static_cast<double>(std::filesystem::file_size(path, ignored));
  const double bytes = static_cast<double>(values) * static_cast<double>(H5Tget_size(type.id()));
  if (bytes <= file_bytes * kLargestCompression) return;
  Fail(path, name,
       fmt::format("has shape {}, but the whole file has {:.0f} bytes", data.shape.ToString(),
                   file_bytes),
       kDamaged);
}

}  // namespace

bool IsHdf5(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;
  const Session session;
  return H5Fis_hdf5(path.c_str()) > 0;
}

Hdf5File::Hdf5File(const std::string& path, Mode mode) : path_(path) {
  std::error_code error;
  if (mode != Mode::kCreate) {
    const auto status = std::filesystem::status(path, error);
    if (!std::filesystem::exists(status)) {
      const int code = error ? error.value() : ENOENT;
      throw DataError(path, -1, fmt::format("the file cannot be read: {}", std::strerror(code)),
                      fmt::format("check the path; it was looked for from {}",
                                  std::filesystem::current_path().string()));
    }
    if (std::filesystem::is_directory(status)) {
      throw DataError(path, -1, "this is a folder, not a file", "give the path of a file");
    }
  }
  const Session session;
  if (mode == Mode::kCreate) {
    file_ = H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
  } else {
    const unsigned access = mode == Mode::kRead ? H5F_ACC_RDONLY : H5F_ACC_RDWR;
    file_ = H5Fopen(path.c_str(), access, H5P_DEFAULT);
  }
  if (file_ >= 0) return;
  const std::string reason = Reason();
  if (mode == Mode::kCreate) {
    throw DataError(path, -1, fmt::format("the file cannot be written: {}", reason),
                    "check the path, and that its folder is there and may be written");
  }
  if (H5Fis_hdf5(path.c_str()) == 0) {
    throw DataError(path, -1, "this is not an HDF5 file", "give a file that was written as HDF5");
  }
  throw DataError(path, -1, fmt::format("the HDF5 file cannot be opened: {}", reason),
                  "the file is truncated, damaged or in use; fetch or write it again");
}

Hdf5File::~Hdf5File() {
  if (file_ < 0) return;
  const Session session;
  H5Fclose(file_);
}

void Hdf5File::Close() {
  if (file_ < 0) return;
  const Session session;
  const bool flushed = H5Fflush(file_, H5F_SCOPE_GLOBAL) >= 0;
  const std::string reason = flushed ? "" : Reason();
  const bool closed = H5Fclose(std::exchange(file_, -1)) >= 0;
  if (flushed && closed) return;
  throw DataError(path_, -1, fmt::format("writing failed: {}", reason.empty() ? Reason() : reason),
                  "see whether the disk is full, or write elsewhere");
}

bool Hdf5File::HasGroup(const std::string& name) const {
  const Session session;
  return HasObject(file_, name, H5I_GROUP);
}

bool Hdf5File::HasDataset(const std::string& name) const {
  const Session session;
  return HasObject(file_, name, H5I_DATASET);
}

std::vector<std::string> Hdf5File::Members(const std::string& group) const {
  const Session session;
  std::vector<std::string> names;
  const Handle handle(H5Gopen2(file_, group.c_str(), H5P_DEFAULT), H5Gclose);
  const auto take = [](hid_t, const char* name, const H5L_info_t*, void* to) -> herr_t {
    static_cast<std::vector<std::string>*>(to)->emplace_back(name);
    return 0;
  };
  if (!handle.ok() ||
      H5Literate(handle.id(), H5_INDEX_NAME, H5_ITER_INC, nullptr, take, &names) < 0) {
    throw DataError(path_, -1, fmt::format("group \"{}\" cannot be read: {}", group, Reason()),
                    "the file is damaged or of another kind; fetch or write it again");
  }
  return names;
}

Shape Hdf5File::DatasetShape(const std::string& name) const {
  const Session session;
  return OpenNumbers(file_, path_, name).shape;
}

void Hdf5File::CheckHolds(const std::string& name, int64_t values) const {
  const Session session;
  CheckHoldsValues(OpenNumbers(file_, path_, name), path_, name, values);
}

template <typename T>
std::vector<T> Hdf5File::Read(const std::string& name) const {
  const Session session;
  const Dataset data = OpenNumbers(file_, path_, name);
  CheckHoldsValues(data, path_, name, data.shape.Count());
  std::vector<T> values;
  try {
    values.resize(static_cast<size_t>(data.shape.Count()));
  } catch (const std::exception&) {  // bad_alloc, length_error
    Fail(path_, name, fmt::format("does not fit in memory: {}", data.shape.ToString()),
         "use a machine with more memory");
  }
  if (!values.empty() && H5Dread(data.handle.id(), NativeType<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT,
                                 values.data()) < 0) {
    Fail(path_, name, "cannot be read: " + Reason(), kDamaged);
  }
  return values;
}

template <typename T>
void Hdf5File::ReadRows(const std::string& name, int64_t first, int64_t rows,
                        std::span<T> to) const {
  const Session session;
  const Dataset data = OpenNumbers(file_, path_, name);
  Ensure(data.shape.rank() > 0 && first >= 0 && rows >= 0 && first <= data.shape[0] &&
             rows <= data.shape[0] - first,
         "rows beyond the dataset");
  const Shape part = data.shape.With(0, rows);
  Ensure(static_cast<int64_t>(to.size()) == part.Count(), "another number of values");
  if (to.empty()) return;
  CheckHoldsValues(data, path_, name, part.Count());
  std::vector<hsize_t> start(static_cast<size_t>(part.rank()), 0);
  start[0] = static_cast<hsize_t>(first);
  const Handle memory = MakeSpace(part);
  if (!memory.ok() ||
      H5Sselect_hyperslab(data.space.id(), H5S_SELECT_SET, start.data(), nullptr, Dims(part).data(),
                          nullptr) < 0 ||
      H5Dread(data.handle.id(), NativeType<T>(), memory.id(), data.space.id(), H5P_DEFAULT,
              to.data()) < 0) {
    Fail(path_, name, fmt::format("cannot be read from row {} on: {}", first, Reason()), kDamaged);
  }
}

std::string Hdf5File::ReadString(const std::string& name) const {
  const Session session;
  if (!HasObject(file_, name, H5I_DATASET)) {
    Fail(path_, name, "is not in the file", "use a file that has it; h5ls shows what a file has");
  }
  const Handle data(H5Dopen2(file_, name.c_str(), H5P_DEFAULT), H5Dclose);
  const Handle space(data.ok() ? H5Dget_space(data.id()) : -1, H5Sclose);
  const Handle type(data.ok() ? H5Dget_type(data.id()) : -1, H5Tclose);
  if (!space.ok() || !type.ok() || H5Tget_class(type.id()) != H5T_STRING ||
      H5Sget_simple_extent_npoints(space.id()) != 1) {
    Fail(path_, name, "is not one string", kDamaged);
  }
  if (H5Tis_variable_str(type.id()) > 0) {
    char* text = nullptr;
    const Handle memory(H5Tcopy(type.id()), H5Tclose);
    if (H5Dread(data.id(), memory.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, &text) < 0) {
      Fail(path_, name, "cannot be read: " + Reason(), kDamaged);
    }
    const std::string result = text == nullptr ? "" : text;
    H5free_memory(text);
    return result;
  }
  const size_t size = H5Tget_size(type.id());
  if (size > static_cast<size_t>(kFreeBytes)) {
    Fail(path_, name, fmt::format("is a string of {} bytes", size), kDamaged);
  }
  std::string text(size, '\0');
  if (H5Dread(data.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.data()) < 0) {
    Fail(path_, name, "cannot be read: " + Reason(), kDamaged);
  }
  return text.c_str();  // up to the first zero byte
}

void Hdf5File::CreateGroup(const std::string& name) {
  const Session session;
  const Handle settings = CreationSettings(H5P_GROUP_CREATE);
  const Handle group(H5Gcreate2(file_, name.c_str(), H5P_DEFAULT, settings.id(), H5P_DEFAULT),
                     H5Gclose);
  if (group.ok()) return;
  throw DataError(path_, -1, fmt::format("group \"{}\" cannot be written: {}", name, Reason()),
                  kFullDisk);
}

template <typename T>
void Hdf5File::Write(const std::string& name, const Shape& shape, std::span<const T> values) {
  Ensure(static_cast<int64_t>(values.size()) == shape.Count(), "values do not fill the shape");
  const Session session;
  const Handle space = MakeSpace(shape);
  const Handle settings = CreationSettings(H5P_DATASET_CREATE);
  const Handle data(H5Dcreate2(file_, name.c_str(), NativeType<T>(), space.id(), H5P_DEFAULT,
                               settings.id(), H5P_DEFAULT),
                    H5Dclose);
  if (!data.ok() || (!values.empty() && H5Dwrite(data.id(), NativeType<T>(), H5S_ALL, H5S_ALL,
                                                 H5P_DEFAULT, values.data()) < 0)) {
    Fail(path_, name, "cannot be written: " + Reason(), kFullDisk);
  }
}

void Hdf5File::WriteString(const std::string& name, const std::string& text) {
  const Session session;
  const Handle type(H5Tcopy(H5T_C_S1), H5Tclose);
  H5Tset_size(type.id(), text.size() + 1);
  const Handle space(H5Screate(H5S_SCALAR), H5Sclose);
  const Handle settings = CreationSettings(H5P_DATASET_CREATE);
  const Handle data(H5Dcreate2(file_, name.c_str(), type.id(), space.id(), H5P_DEFAULT,
                               settings.id(), H5P_DEFAULT),
                    H5Dclose);
  if (!data.ok() ||
      H5Dwrite(data.id(), type.id(), H5S_ALL, H5S_ALL, H5P_DEFAULT, text.c_str()) < 0) {
    Fail(path_, name, "cannot be written: " + Reason(), kFullDisk);
  }
}

template <typename T>
void Hdf5File::AppendRows(const std::string& name, const Shape& shape, std::span<const T> values) {
  Ensure(shape.rank() > 0, "rows need an axis");
  Ensure(static_cast<int64_t>(values.size()) == shape.Count(), "values do not fill the shape");
  const Session session;
  if (!Exists(file_, name)) {
    std::vector<hsize_t> dims = Dims(shape), limits = dims, chunk = dims;
    dims[0] = 0;
    limits[0] = H5S_UNLIMITED;
    const int64_t row_bytes =
        std::max<int64_t>(1, shape.Count(1) * static_cast<int64_t>(sizeof(T)));
    chunk[0] = static_cast<hsize_t>(
        std::clamp<int64_t>(kChunkBytes / row_bytes, 1, std::max<int64_t>(1, shape[0])));
    for (hsize_t& size : chunk) size = std::max<hsize_t>(1, size);
    const Handle space(H5Screate_simple(shape.rank(), dims.data(), limits.data()), H5Sclose);
    const Handle settings = CreationSettings(H5P_DATASET_CREATE);
    const bool chunked = H5Pset_chunk(settings.id(), shape.rank(), chunk.data()) >= 0;
    const Handle made(chunked ? H5Dcreate2(file_, name.c_str(), NativeType<T>(), space.id(),
                                           H5P_DEFAULT, settings.id(), H5P_DEFAULT)
                              : -1,
                      H5Dclose);
    if (!made.ok()) Fail(path_, name, "cannot be made: " + Reason(), kFullDisk);
  }
  const Dataset data = OpenNumbers(file_, path_, name);
  if (data.shape.rank() != shape.rank() || data.shape.With(0, shape[0]) != shape) {
    Fail(path_, name,
         fmt::format("has shape {}; rows of shape {} cannot follow", data.shape.ToString(),
                     shape.ToString()),
         "write rows of one shape, or to several files");
  }
  if (values.empty()) return;
  const Shape longer = data.shape.With(0, data.shape[0] + shape[0]);
  std::vector<hsize_t> start(static_cast<size_t>(shape.rank()), 0);
  start[0] = static_cast<hsize_t>(data.shape[0]);
  const Handle memory = MakeSpace(shape);
  const bool extended = H5Dset_extent(data.handle.id(), Dims(longer).data()) >= 0;
  const Handle space(extended ? H5Dget_space(data.handle.id()) : -1, H5Sclose);
  if (!space.ok() ||
      H5Sselect_hyperslab(space.id(), H5S_SELECT_SET, start.data(), nullptr, Dims(shape).data(),
                          nullptr) < 0 ||
      H5Dwrite(data.handle.id(), NativeType<T>(), memory.id(), space.id(), H5P_DEFAULT,
               values.data()) < 0) {
    Fail(path_, name, "cannot be written: " + Reason(), kFullDisk);
  }
}

#define CARAFE_INSTANTIATE(T)                                                                    \
  template std::vector<T> Hdf5File::Read<T>(const std::string&) const;                           \
  template void Hdf5File::ReadRows<T>(const std::string&, int64_t, int64_t, std::span<T>) const; \
  template void Hdf5File::Write<T>(const std::string&, const Shape&, std::span<const T>);        \
  template void Hdf5File::AppendRows<T>(const std::string&, const Shape&, std::span<const T>);
CARAFE_INSTANTIATE(float)
CARAFE_INSTANTIATE(double)
CARAFE_INSTANTIATE(uint8_t)
CARAFE_INSTANTIATE(int32_t)
CARAFE_INSTANTIATE(int64_t)
CARAFE_INSTANTIATE(uint64_t)
#undef CARAFE_INSTANTIATE

}  // namespace carafe
