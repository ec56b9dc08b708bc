"""One token of one line by PyTorch alone: what its start and its memory are measured on.  translations_cold.py THREADS MODEL"""

import sys

import torch
import transformers

TOKENS = [[13959, 1566, 12, 2379, 10, 37, 1704, 4216, 3, 20400, 4418, 7, 147, 8, 19743, 1782, 1084, 8, 2137, 5, 1]]
torch.set_num_threads(int(sys.argv[1]))
with torch.inference_mode():
    model = transformers.T5ForConditionalGeneration.from_pretrained(sys.argv[2]).eval()
    print(model.generate(torch.tensor(TOKENS), max_new_tokens=1).tolist())
