// A net as its file describes it, before any layer exists: read from text or binary, filtered by
// state rules, with the Split layers that let one blob feed several layers.
#pragma once

#include <string>
#include <vector>

#include "carafe/proto/messages.h"
#include "carafe/proto/text.h"

namespace carafe {

// One layer's settings and where they were written.
struct LayerText {
  LayerParameter param;
  Place place;
};

struct NetSpec {
  NetParameter param;  // `layer` entries included
  Place place;
  // Where each `layer` was written, if that is not number i of the text: the net had an old form.
  std::vector<Place> layer_places = {};

  std::vector<LayerText> Layers() const;
};

// Brings a net of an old form up to date, in place; says so in the log.
void Upgrade(NetSpec* spec, const std::string& file);

// Reads a prototxt. Throws ConfigError with position.
NetSpec LoadNetSpec(const std::string& path);
NetSpec ParseNetSpec(const std::string& text, const std::string& file);

// The layers that `state` includes. A layer without rules is in; with include rules it is in if any
// is met, with exclude rules it is out if any is met; both kinds at once are refused.
std::vector<LayerText> FilterLayers(const std::vector<LayerText>& layers, const NetState& state);
bool StateMeetsRule(const NetState& state, const NetStateRule& rule);

// Adds a Split named <blob>_<layer>_<top>_split after each top that is used more than once, or used
// and weighed as a loss. A list that has its splits already comes back unchanged.
std::vector<LayerText> InsertSplits(const std::vector<LayerText>& layers);

}  // namespace carafe
