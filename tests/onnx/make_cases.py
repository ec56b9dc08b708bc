"""Writes cases.txt and values.txt: the Attention cases of ONNX, opsets 23 to 25, with the results of ONNX's reference.

    python3 -m venv venv && venv/bin/pip install onnx==1.23.2 ml_dtypes && venv/bin/python make_cases.py

The cases are those of ONNX's backend test (onnx/backend/test/case/node/attention.py), with its inputs (NumPy's generator, seed 0
for each case unless it sets its own) and its reference implementation.  Release 1.23 is the first whose reference has all
corrections that were made without a new opset: softcap before mask, modes 1 and 2 of qk_matmul_output, the causal frontier of an
external cache at its last valid key, 0 for rows without a key, windows.  Older ones are refused.

Expected values are computed by that reference in double from the case's own inputs and attributes (float, as the node has them), so
that they carry no rounding but the last one.  Float16 and bfloat16 inputs are exact in float; so is the comparison with such a case
stricter than ONNX's.  softmax_precision names the precision of the reference's softmax: left out, all of it is in double.  The
outputs that the case itself lists must agree with ours within their own precision, or nothing is written.  present_key and
present_value are copies of inputs and left out.
"""

import pathlib
import sys
import textwrap

import numpy as np
import onnx
import onnx.backend.test.case.node as node_cases
from onnx.reference.ops.op_attention import _compute_attention as reference

FOLDER = pathlib.Path(__file__).parent
# rtol and atol of ONNX's runner for float; for the halves those of PyTorch's comparison of fused with plain attention.
TOLERANCE = {"float32": (1e-3, 1e-7), "float16": (1e-2, 1e-3), "bfloat16": (5e-2, 1e-2)}


def collect():
    """All cases as ONNX's test runner has them: (node, inputs by name, outputs by name, name, opset)."""
    found = []

    def expect(node, inputs, outputs, name, opset_imports):
        named_inputs = dict(zip(filter(None, node.input), inputs, strict=True))
        named_outputs = dict(zip(filter(None, node.output), outputs, strict=True))
        found.append((node, named_inputs, named_outputs, name, opset_imports[0].version))

    node_cases.expect = expect
    import onnx.backend.test.case.node.attention  # noqa: F401, PLC0415: the import runs the exports

    return found


def in_double(array):
    return array if array.dtype in (np.bool_, np.int64) else array.astype(np.float64)


def results(node, inputs, outputs, name):
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes.pop("softmax_precision", None)
    arguments = {key: in_double(array) for key, array in inputs.items()}
    y, _, _, qk = reference(**arguments, **attributes)
    ours = {key: array for key, array in (("Y", y), ("qk_matmul_output", qk)) if key in outputs}
    for key, array in ours.items():
        rtol, atol = TOLERANCE[str(outputs[key].dtype)]
        np.testing.assert_allclose(outputs[key].astype(np.float64), array, rtol, atol, err_msg=f"{name} {key}")
    # For error bounds: the largest number that a score is made of.
    raw = reference(**arguments, **(attributes | {"qk_matmul_output_mode": 0, "softcap": 0.0}))[3]
    mask = arguments.get("attn_mask", np.zeros(1))
    finite = np.abs(mask[np.isfinite(mask)]) if mask.dtype != np.bool_ else np.zeros(1)
    return attributes, ours, float(np.max(np.abs(raw)) + np.max(finite)) + 0.0005  # above what three decimals may round down to


class Values:
    """One list of floats in which a tensor that occurs again, or within another, is stored once."""

    def __init__(self):
        self.data = np.random.RandomState(0).rand(2472).astype(">f4").tobytes()  # what most cases begin with

    def add(self, array):
        wanted = array.astype(">f4").tobytes()
        at = self.data.find(wanted)
        while at >= 0 and at % 4 > 0:
            at = self.data.find(wanted, at + 1)
        if at < 0:
            at = len(self.data)
            self.data += wanted
        return at // 4

    def write(self, path):
        """24 floats a line; the bits of each as a number of five digits to base 85, from ( to ~ without ? and \\, so that C takes
        the lines for strings."""
        digits = [c for c in map(chr, range(ord("("), ord("~") + 1)) if c not in "?\\"]
        numbers = [int.from_bytes(self.data[i:i + 4]) for i in range(0, len(self.data), 4)]
        floats = ["".join(digits[n // 85**k % 85] for k in (4, 3, 2, 1, 0)) for n in numbers]
        path.write_text("".join(f'"{"".join(floats[i:i + 24])}",\n' for i in range(0, len(floats), 24)))


def entry(case, values):
    """The case as an initialiser of struct onnx_case; attributes that are not given stay 0 and mean ONNX's defaults."""
    node, inputs, outputs, name, opset = case
    attributes, ours, largest = results(node, inputs, outputs, name)
    fields = [f'.name = "{name}"', f".opset = {opset}", f'.type = "{inputs["Q"].dtype}"', f".largest_score = {largest:.3f}f"]
    if "left_window_size" in attributes or "right_window_size" in attributes:
        left, right = attributes.pop("left_window_size", -1), attributes.pop("right_window_size", -1)
        fields.append(f".window = {{true, {left}, {right}}}")
    for key, value in sorted(attributes.items()):
        fields.append(f".{key} = {np.float32(value)}f" if isinstance(value, float) else f".{key} = {value}")
    if "attn_mask" in inputs and inputs["attn_mask"].dtype == np.bool_:
        fields.append(".mask_is_bool = 1")
    if "nonpad_kv_seqlen" in inputs:
        fields.append(f".has_nonpad = 1, .nonpad_kv_seqlen = {{{', '.join(map(str, inputs['nonpad_kv_seqlen']))}}}")
    for key, array in (inputs | ours).items():
        if key != "nonpad_kv_seqlen":
            fields.append(f".{key} = {{{array.ndim}, {{{', '.join(map(str, array.shape))}}}, {values.add(array)}}}")
    unbroken = [field.replace(" ", "\xa0") for field in fields]
    return "{" + textwrap.fill(", ".join(unbroken), 130, subsequent_indent=" ").replace("\xa0", " ") + "},\n"


def main():
    if tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23):
        sys.exit(f"onnx {onnx.__version__} has an older reference; 1.23 or later is needed")
    values = Values()
    (FOLDER / "cases.txt").write_text("".join(entry(case, values) for case in collect()))
    values.write(FOLDER / "values.txt")


main()
