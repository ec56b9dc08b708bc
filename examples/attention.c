/* The smallest program that embeds heed; the README shows this text. */
#include <heed.h>
#include <stdio.h>

int main(void) {
    float query[3][3] = {{1, 0, 2}, {2, 2, 2}, {2, 1, 3}}, key[3][3] = {{0, 1, 1}, {4, 4, 0}, {2, 3, 1}};
    float value[3][3] = {{1, 2, 3}, {2, 8, 0}, {2, 6, 3}}, output[3][3];
    struct heed_attention self = {.batch = 1, .num_heads = 1, .num_kv_heads = 1, .scale = 1};
    self.query_tokens = self.key_tokens = self.head_dim = self.value_dim = 3;
    self.query = (struct heed_input){.data = query[0], .token_stride = 3};
    self.key = (struct heed_input){.data = key[0], .token_stride = 3};
    self.value = (struct heed_input){.data = value[0], .token_stride = 3};
    self.output = (struct heed_output){.data = output[0], .token_stride = 3};
    if (heed_attention(&self, NULL) != HEED_OK)
        return fprintf(stderr, "%s\n", heed_error_message()), 1;
    for (int i = 0; i < 3; i++)
        printf("%.4f %.4f %.4f\n", output[i][0], output[i][1], output[i][2]);
}
