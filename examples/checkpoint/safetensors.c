/* Tensors by name from mapped safetensors: 8 bytes with the length of the header, the header, the data.  See checkpoint.h. */
#include "checkpoint.h"
#include "shard.h"

#include <inttypes.h>
#include <string.h>

enum { LENGTH_BYTES = 8 };
static const int64_t header_most = 100000000; /* the format's own limit */

void safetensors_open(struct shard *shard) {
    const int64_t most = shard->file_bytes - LENGTH_BYTES;
    uint64_t header_bytes = 0;
    for (int i = 0; i < LENGTH_BYTES; i++)
        header_bytes |= (uint64_t)shard->file[i] << 8 * i;
    if (header_bytes > (uint64_t)most || header_bytes > (uint64_t)header_most)
        fail("%s: a header of %" PRIu64 " bytes, in a file of %" PRId64, shard->path, header_bytes, shard->file_bytes);
    json_error_t error;
    shard->header = json_loadb((const char *)shard->file + LENGTH_BYTES, (size_t)header_bytes,
                               JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &error);
    if (!shard->header)
        fail("%s: the header, at byte %d: %s", shard->path, error.position, error.text);
    if (!json_is_object(shard->header))
        fail("%s: the header is not a JSON object", shard->path);
    shard->data = shard->file + LENGTH_BYTES + header_bytes;
    shard->bytes = most - (int64_t)header_bytes;
}

/* Element i of an array of integers, -1 if there is none: a double has all integers up to 2^53. */
static int64_t element(const json_t *array, size_t i) {
    const json_t *value = json_array_get(array, i);
    const double number = json_is_real(value) ? json_real_value(value) : -1;
    return number >= 0 && number <= 0x1p53 && number == (double)(int64_t)number ? (int64_t)number : -1;
}

static bool has_shape(const json_t *shape, int64_t rows, int64_t columns) {
    if (rows > 0)
        return json_array_size(shape) == 2 && element(shape, 0) == rows && element(shape, 1) == columns;
    return json_array_size(shape) == 1 && element(shape, 0) == columns;
}

struct tensor safetensors_tensor(const struct shard *shard, const char *name, int64_t rows, int64_t columns) {
    static const char *const types[] = {[HEED_F32] = "F32", [HEED_BF16] = "BF16", [HEED_F16] = "F16"};
    const char *path = shard->path;
    const json_t *entry = json_object_get(shard->header, name);
    if (!json_is_object(entry))
        fail("%s: there is no tensor %s", path, name);
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    unsigned type = HEED_F32;
    while (type <= HEED_F16 && !(dtype && strcmp(dtype, types[type]) == 0))
        type++;
    if (type > HEED_F16)
        fail("%s: %s: dtype is %s, must be F32, BF16 or F16", path, name, dtype ? dtype : "missing");
    const json_t *shape = json_object_get(entry, "shape"), *offsets = json_object_get(entry, "data_offsets");
    if (!has_shape(shape, rows, columns)) {
        char *found = json_dumps(shape, JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(15));
        fail("%s: %s: shape is %s, must be [%" PRId64 "%s%.0" PRId64 "]", path, name, found ? found : "missing",
             rows > 0 ? rows : columns, rows > 0 ? "," : "", rows > 0 ? columns : 0);
    }
    const int64_t begin = element(offsets, 0), end = element(offsets, 1), width = type == HEED_F32 ? 4 : 2;
    const int64_t count = rows > 0 ? rows : 1, room = shard->bytes / width / count;
    if (json_array_size(offsets) != 2 || begin < 0 || end < begin || end > shard->bytes || columns > room ||
        end - begin != count * columns * width)
        fail("%s: %s: data_offsets are %" PRId64 " and %" PRId64 ", which is not where its shape has room in %" PRId64
             " bytes of data",
             path, name, begin, end, shard->bytes);
    if ((uintptr_t)(shard->data + begin) % (uintptr_t)width != 0)
        fail("%s: %s: data_offsets begin at %" PRId64 ", where it is not aligned", path, name, begin);
    return (struct tensor){.data = shard->data + begin, .rows = count, .columns = columns, .type = type};
}
