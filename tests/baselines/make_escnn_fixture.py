"""Record filters and outputs of escnn layers: `python -m baselines.make_escnn_fixture` from the folder `tests`.

It needs torch and escnn. Writes `escnn.json` beside this file; the tests read that and need neither.
"""

import json
import warnings
from pathlib import Path

import numpy as np

warnings.filterwarnings("ignore")  # escnn's own

import escnn  # noqa: E402
import torch  # noqa: E402
from baselines.blobs import smooth_image  # noqa: E402
from escnn import gspaces, nn  # noqa: E402

FILTERS = [(4, 3, "lift"), (4, 3, "conv"), (8, 5, "lift"), (8, 7, "lift"), (16, 3, "lift")]
DEGREES = (0, 10, 22.5, 45, 67.5, 90, 135, 180, 270)
ORDER, SIDE, SIZE, FIELDS = 8, 5, 15, (2, 3)


def rounded(values) -> list:
    return np.round(np.asarray(values, np.float64), 7).tolist()


def field_type(space, fields):
    """`fields` regular fields, or one channel of an image for 0."""
    return nn.FieldType(space, fields * [space.regular_repr] if fields else [space.trivial_repr])


def filters_of(n, kernel_size, kind):
    """All turned copies of one filter at random weights, `[n, q, k, k]`."""
    space = gspaces.rot2dOnR2(N=n)
    conv = nn.R2Conv(field_type(space, kind == "conv"), field_type(space, 1), kernel_size=kernel_size, bias=False)
    filters, _ = conv.expand_parameters()
    sizes = {"n": n, "kernel_size": kernel_size, "kind": kind, "parameters": conv.weights.numel()}
    return {**sizes, "filters": rounded(filters.detach())}


def network():
    """Convolution, relu, convolution, relu, maximum over the group, mean over the pixels: its outputs by angle."""
    space = gspaces.rot2dOnR2(N=ORDER)
    types = [field_type(space, fields) for fields in (0, *FIELDS)]
    convs = [nn.R2Conv(a, b, kernel_size=SIDE, bias=False, padding=SIDE // 2) for a, b in zip(types, types[1:])]
    layers = [layer for conv, out in zip(convs, types[1:]) for layer in (conv, nn.ReLU(out))]
    net = nn.SequentialModule(*layers, nn.GroupPooling(types[-1])).eval()
    outputs = []
    for degrees in DEGREES:
        image = torch.tensor(smooth_image(SIZE, np.radians(degrees)), dtype=torch.float32)
        pooled = net(nn.GeometricTensor(image[None, None], types[0])).tensor
        outputs.append(rounded(pooled.mean((2, 3))[0].detach()))
    # Of each field the filters of the first element: the others are its turned copies.
    filters = [rounded(conv.expand_parameters()[0].detach()[::ORDER]) for conv in convs]
    sizes = {"n": ORDER, "kernel_size": SIDE, "size": SIZE, "degrees": DEGREES}
    return {**sizes, "filters": filters, "outputs": outputs}


if __name__ == "__main__":
    torch.manual_seed(0)
    provenance = {"escnn": escnn.__version__, "torch": torch.__version__.split("+")[0], "seed": 0, "dtype": "float32"}
    record = {"provenance": provenance, "layers": [filters_of(*case) for case in FILTERS], "network": network()}
    Path(__file__).with_name("escnn.json").write_text(json.dumps(record) + "\n")
