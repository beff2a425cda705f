#include "carafe/data/leveldb_store.h"

#include <leveldb/db.h>
#include <leveldb/write_batch.h>

#include <set>
#include <utility>

#include "carafe/data/leveldb_view.h"

namespace carafe {
namespace {

constexpr size_t kBlockBytes = size_t{64} << 10;  // as Caffe writes them
constexpr size_t kBufferBytes = size_t{64} << 20;
constexpr size_t kBatchBytes = size_t{4} << 20;

// LevelDB's own log (the file LOG) tells a user nothing.
class NoLog final : public leveldb::Logger {
 public:
  void Logv(const char* /*format*/, std::va_list /*arguments*/) override {}
};

std::string TextOf(const leveldb::Status& status) {
  return status.ok() ? std::string() : status.ToString();
}

leveldb::Slice SliceOf(std::string_view text) { return {text.data(), text.size()}; }

}  // namespace

struct LevelDbReader::Impl {
  NoLog log;
  LevelDbView view;
  std::unique_ptr<leveldb::DB> db;  // last: it uses the others until it is gone
};

LevelDbReader::LevelDbReader(const std::string& folder, std::string* error)
    : impl_(std::make_unique<Impl>()) {
  leveldb::Options options;
  options.env = &impl_->view;
  options.info_log = &impl_->log;
  options.paranoid_checks = true;
  options.write_buffer_size = kBufferBytes;
  leveldb::DB* db = nullptr;
  *error = TextOf(leveldb::DB::Open(options, folder, &db));
  impl_->db.reset(db);
  impl_->view.Seal();
}

LevelDbReader::~LevelDbReader() = default;

std::string LevelDbReader::Get(std::string_view key, std::string* value) const {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  return TextOf(impl_->db->Get(options, SliceOf(key), value));
}

std::string LevelDbReader::Scan(const std::function<bool(std::string_view key)>& visit) const {
  leveldb::ReadOptions options;
  options.verify_checksums = true;
  options.fill_cache = false;
  const std::unique_ptr<leveldb::Iterator> at(impl_->db->NewIterator(options));
  for (at->SeekToFirst(); at->Valid(); at->Next()) {
    if (!visit({at->key().data(), at->key().size()})) break;
  }
  return TextOf(at->status());
}

struct LevelDbAppender::Impl {
  std::string folder;
  NoLog log;
  std::unique_ptr<leveldb::DB> db;
  leveldb::WriteBatch batch;
  std::set<std::string, std::less<>> in_batch;

  leveldb::Status Open(bool create) {
    leveldb::Options options;
    options.create_if_missing = create;
    options.error_if_exists = create;
    options.info_log = &log;
    options.block_size = kBlockBytes;
    options.write_buffer_size = kBufferBytes;
    leveldb::DB* opened = nullptr;
    const leveldb::Status status = leveldb::DB::Open(options, folder, &opened);
    db.reset(opened);
    return status;
  }
  leveldb::Status Flush(bool sync) {
    leveldb::WriteOptions options;
    options.sync = sync;
    const leveldb::Status status = db->Write(options, &batch);
    batch.Clear();
    in_batch.clear();
    return status;
  }
};

LevelDbAppender::LevelDbAppender(const std::string& folder, std::string* error)
    : impl_(std::make_unique<Impl>()) {
  impl_->folder = folder;
  *error = TextOf(impl_->Open(/*create=*/true));
}

LevelDbAppender::~LevelDbAppender() = default;

std::string LevelDbAppender::Put(std::string_view key, std::string_view value) {
  impl_->batch.Put(SliceOf(key), SliceOf(value));
  impl_->in_batch.emplace(key);
  if (impl_->batch.ApproximateSize() < kBatchBytes) return "";
  return TextOf(impl_->Flush(/*sync=*/false));
}

bool LevelDbAppender::Has(std::string_view key) {
  std::string ignored;
  return impl_->in_batch.contains(key) ||
         impl_->db->Get(leveldb::ReadOptions(), SliceOf(key), &ignored).ok();
}

std::string LevelDbAppender::Close() {
  leveldb::Status status = impl_->Flush(/*sync=*/true);
  impl_->db.reset();
  if (status.ok()) status = impl_->Open(/*create=*/false);  // moves what the log holds into a table
  impl_->db.reset();
  return TextOf(status);
}

}  // namespace carafe
