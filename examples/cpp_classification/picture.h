// Pictures as the net wants them, read from PPM (colour) or PGM (gray) files.
#pragma once

#include <string>
#include <vector>

struct Picture {
  int channels = 0, height = 0, width = 0;
  std::vector<float> values;  // channel by channel, blue first as in Caffe; 0 to 255
};

// Binary PPM or PGM (P6, P5) of 8 bits. Throws carafe::DataError.
Picture ReadPicture(const std::string& path);

// Bilinear, with the pixels' centres aligned.
Picture Resize(const Picture& picture, int height, int width);

// 1 or 3 channels: gray is the usual weighting of red, green and blue; colour from gray repeats it.
Picture WithChannels(const Picture& picture, int channels);
