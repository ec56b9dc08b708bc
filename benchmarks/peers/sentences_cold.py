"""One sentence by a peer alone: what its start and its memory are measured on.  sentences_cold.py PEER THREADS MODEL"""

import sys

peer, threads, path = sys.argv[1:]
TOKENS = [[101, 1996, 4248, 2829, 4419, 14523, 2058, 1996, 13971, 3899, 2379, 1996, 2924, 1012, 102]]
if peer == "torch":
    import torch
    from transformers import BertModel

    torch.set_num_threads(int(threads))
    with torch.inference_mode():
        model = BertModel.from_pretrained(path, attn_implementation="sdpa", add_pooling_layer=False).eval()
        hidden = model(input_ids=torch.tensor(TOKENS)).last_hidden_state
        print(torch.nn.functional.normalize(hidden.mean(dim=1), dim=-1).tolist())
else:
    import numpy
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = int(threads)
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    print(session.run(None, {"tokens": numpy.array(TOKENS)})[0].tolist())
