// A data set as numbered pictures with labels: what the data layers of pictures read. One file per
// kind implements it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "carafe/data/datum.h"
#include "carafe/data/owner.h"
#include "carafe/data/source.h"
#include "carafe/proto/messages.h"

namespace carafe {

// Constant after construction; Read may be called by any number of threads at once, each with a
// storage of its own.
class Pictures {
 public:
  virtual ~Pictures() = default;
  virtual const std::string& name() const = 0;  // the path, as it was given
  virtual int64_t size() const = 0;             // at least 1; may take long the first time
  // Picture `index`, decoded. The view points into `storage`, which may be used again. DataError.
  virtual DatumView Read(int64_t index, Datum* storage) const = 0;
  virtual std::string Describe(int64_t index) const = 0;  // for errors: (key "..") or the like
};

// The Datum records of a database.
std::unique_ptr<const Pictures> MakeDatumPictures(std::unique_ptr<const Source> source,
                                                  PictureMode mode);

// The picture files of the list that image_data_param names.
std::unique_ptr<const Pictures> OpenListedPictures(const ImageDataParameter& param,
                                                   const SettingsOwner& owner);

// Pictures of one size in one file, each behind a header that is left out: R G B bytes of a pixel
// together (as in PPM), or gray. Labels are the numbers of a text file. `path` is the name of the
// message in the layer, for errors.
std::unique_ptr<const Pictures> OpenRawPictures(const CarafeParallelDataParameter& param,
                                                const std::string& path,
                                                const SettingsOwner& owner);

// One line of a list of pictures: "path label", split at the last blank, so that paths may hold
// some.
struct ListedPicture {
  std::string path;
  int label = 0;
};
ListedPicture ReadListedPicture(const Source& list, int64_t index);

}  // namespace carafe
