// Checks the pages of an LMDB before the library follows them: it trusts every number in a page,
// and a damaged one ends the process by a signal. See
// docs/decisions/0089-lmdb-pages-are-checked.md.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace carafe {

// The tree of records in a data.mdb of LMDB 0.9. Used by one thread at a time.
class LmdbPages {
 public:
  // `path` is the database, for errors.
  LmdbPages(const std::string& path, const std::string& file);
  ~LmdbPages();
  LmdbPages(const LmdbPages&) = delete;
  LmdbPages& operator=(const LmdbPages&) = delete;

  // The first call, before LMDB opens the file. One that LMDB itself refuses is left to it. Throws
  // DataError.
  void ReadHeaders();
  // Every page on the way to the first record; every page of the tree. Values on pages of their own
  // are not read: see CheckValue. Throws DataError.
  void CheckFirst() const { Check(/*all=*/false); }
  uint64_t CheckAll() const { return Check(/*all=*/true); }  // returns the number of records

  // A value that does not fit into the tree begins on a page of its own, after that page's header.
  // Returns what is wrong with the page that holds these bytes, or "".
  std::string CheckValue(std::string_view value) const;

 private:
  struct Header {
    uint64_t page_size = 0, root = 0, entries = 0, last_page = 0, transaction = 0;
    int depth = 0;
    unsigned flags = 0;
  };
  bool ReadHeader(uint64_t offset, Header* header) const;
  struct Counts {
    uint64_t pages = 0, records = 0;
  };
  uint64_t Check(bool all) const;
  void CheckPage(uint64_t number, int level, bool all, Counts* counts) const;
  std::vector<uint64_t> Children(uint64_t number, const std::vector<unsigned char>& page) const;
  void CheckLeaf(uint64_t number, const std::vector<unsigned char>& page) const;
  [[noreturn]] void Fail(uint64_t page, const std::string& what) const;

  const std::string path_;
  int file_ = -1;
  Header header_;
  bool known_ = false;  // LMDB will accept the headers
};

}  // namespace carafe
