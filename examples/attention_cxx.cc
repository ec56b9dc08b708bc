/* The program of attention.c in C++17, which has no designated initialisers: a descriptor begins as {}, all zero, and what is
 * wanted is assigned.  The word struct is needed where a function has the same name. */
#include <array>
#include <cstdio>
#include <heed.h>

using Matrix = std::array<std::array<float, 3>, 3>;

static heed_input view(const Matrix &matrix) {
    heed_input input{};
    input.data = matrix.data();
    input.token_stride = 3;
    return input;
}

int main() {
    const Matrix query{{{1, 0, 2}, {2, 2, 2}, {2, 1, 3}}}, key{{{0, 1, 1}, {4, 4, 0}, {2, 3, 1}}};
    const Matrix value{{{1, 2, 3}, {2, 8, 0}, {2, 6, 3}}};
    Matrix output;
    struct heed_attention self {};
    self.batch = self.num_heads = self.num_kv_heads = 1;
    self.query_tokens = self.key_tokens = self.head_dim = self.value_dim = 3;
    self.scale = 1;
    self.query = view(query);
    self.key = view(key);
    self.value = view(value);
    self.output.data = output.data();
    self.output.token_stride = 3;
    if (heed_attention(&self, nullptr) != HEED_OK) {
        std::fprintf(stderr, "%s\n", heed_error_message());
        return 1;
    }
    for (const auto &row : output)
        std::printf("%.4f %.4f %.4f\n", static_cast<double>(row[0]), static_cast<double>(row[1]), static_cast<double>(row[2]));
}
