"""Names and shapes of the tensors in the networks of ProCo's authors."""

from __future__ import annotations

from collections.abc import Iterator

# Inner width of the blocks of the first stage.
BOTTLENECKS = {"resnet50": 64, "resnext50": 128}


def recognize(shapes: dict[str, tuple[int, ...]]) -> tuple[str, int, int, str]:
    """Return architecture, C, p and kind of classifier; raise unless all shapes fit."""
    for name, rank in (
        *(("encoder.conv1.weight", 4), ("encoder.layer1.0.conv1.weight", 4)),
        *(("head.0.weight", 2), ("head.3.weight", 2), ("fc.weight", 2)),
    ):
        if len(shapes.get(name, ())) != rank:
            got = f"shape {shapes[name]}" if name in shapes else f"none among {len(shapes)} tensors"
            raise ValueError(f"expected {name} of {rank} dimensions, got {got}")
    stem, first = shapes["encoder.conv1.weight"], shapes["encoder.layer1.0.conv1.weight"]
    bottlenecks = [arch for arch, width in BOTTLENECKS.items() if first == (width, 64, 1, 1)]
    if stem == (16, 3, 3, 3):
        arch, width = "resnet32", 64
    elif stem == (64, 3, 7, 7) and bottlenecks:
        arch, width = bottlenecks[0], 2048
    else:
        rule = "expected the first convolutions of resnet32, resnet50 or resnext50"
        raise ValueError(f"{rule}, got {stem} and {first}")
    hidden, dim = shapes["head.0.weight"][0], shapes["head.3.weight"][0]
    classifier = "linear" if "fc.bias" in shapes else "cosine"
    num_classes = shapes["fc.weight"][0 if classifier == "linear" else 1]
    expected = {f"encoder.{name}": shape for name, shape in _encoder_shapes(arch)}
    expected |= {"head.0.weight": (hidden, width), "head.0.bias": (hidden,)}
    expected |= dict(_norm("head.1", hidden))
    expected |= {"head.3.weight": (dim, hidden), "head.3.bias": (dim,)}
    if classifier == "linear":
        expected |= {"fc.weight": (num_classes, width), "fc.bias": (num_classes,)}
    else:
        expected |= {"fc.weight": (width, num_classes)}
    for name in sorted(expected.keys() | shapes.keys()):
        shape, got = expected.get(name, "no such tensor"), shapes.get(name, "none")
        if shape != got:
            raise ValueError(f"expected {name!r:.80} of {arch} to be {shape}, got {got}")
    return arch, num_classes, dim, classifier


def _norm(name: str, width: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for part in ("weight", "bias", "running_mean", "running_var"):
        yield f"{name}.{part}", (width,)
    yield f"{name}.num_batches_tracked", ()


def _encoder_shapes(arch: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    small = arch == "resnet32"
    width = 16 if small else 64
    yield "conv1.weight", (width, 3, 3, 3) if small else (width, 3, 7, 7)
    yield from _norm("bn1", width)
    into = width
    for s, blocks in enumerate((5, 5, 5) if small else (3, 4, 6, 3)):
        inner = (16 if small else BOTTLENECKS[arch]) << s
        # The 3 x 3 convolutions of ResNeXt have 32 groups.
        fan = inner // 32 if arch == "resnext50" else inner
        out = inner if small else 256 << s
        for i in range(blocks):
            if small:
                kernels = [(inner, into, 3, 3), (inner, inner, 3, 3)]
            else:
                kernels = [(inner, into, 1, 1), (inner, fan, 3, 3), (out, inner, 1, 1)]
            block = f"layer{s + 1}.{i}"
            for k, kernel in enumerate(kernels, 1):
                yield f"{block}.conv{k}.weight", kernel
                yield from _norm(f"{block}.bn{k}", kernel[0])
            if not small and i == 0:
                yield f"{block}.downsample.0.weight", (out, into, 1, 1)
                yield from _norm(f"{block}.downsample.1", out)
            into = out
