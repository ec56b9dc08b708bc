// See pieces.h.  No exception leaves these functions: what calls them is C.
#include "pieces.h"

#include <sentencepiece_processor.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

struct pieces {
    sentencepiece::SentencePieceProcessor processor;
};

struct pieces *pieces_open(const char *model, size_t bytes) {
    try {
        auto opened = std::make_unique<pieces>();
        return opened->processor.LoadFromSerializedProto({model, bytes}).ok() ? opened.release() : nullptr;
    } catch (...) {
        return nullptr;
    }
}

int64_t pieces_size(const struct pieces *pieces) { return pieces->processor.GetPieceSize(); }

int64_t pieces_encode(const struct pieces *pieces, const char *prefix, const char *text, size_t bytes, int32_t **ids) {
    try {
        std::vector<int> found;
        if (!pieces->processor.Encode(prefix + std::string(text, bytes), &found).ok())
            return -1;
        *ids = static_cast<int32_t *>(std::malloc((found.size() + 1) * sizeof **ids));
        if (!*ids)
            return -1;
        std::copy(found.begin(), found.end(), *ids);
        return static_cast<int64_t>(found.size());
    } catch (...) {
        return -1;
    }
}

char *pieces_decode(const struct pieces *pieces, const int32_t *ids, int64_t count) {
    try {
        const auto &processor = pieces->processor;
        std::vector<int> said;
        for (int64_t i = 0; i < count; i++)
            if (ids[i] < processor.GetPieceSize() && !processor.IsControl(ids[i]) && !processor.IsUnknown(ids[i]))
                said.push_back(ids[i]);
        std::string text;
        return processor.Decode(said, &text).ok() ? strdup(text.c_str()) : nullptr;
    } catch (...) {
        return nullptr;
    }
}
