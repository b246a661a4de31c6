"""Encoders of timm: layout, outputs, initial weights, and weights from files."""

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import Tensor, nn

from images.photos import photo
from resultant.images.vision import vision_module
from resultant.training import encoder as timm_encoder
from resultant.training.encoder import ImageNetwork, load_encoder, model_settings

P, C = 16, 7

pytest.importorskip("timm")


def test_outputs() -> None:
    network = ImageNetwork("test_resnet", P, C).eval()
    with torch.no_grad():
        encoder, projection, logits = network(torch.randn(2, 3, 64, 64))
    assert encoder.shape == (2, network.encoder.num_features)
    assert projection.shape == (2, P)
    torch.testing.assert_close(projection.norm(dim=-1), torch.ones(2))
    assert logits is not None and network.classifier is not None
    cosine = F.cosine_similarity(encoder[:, None], network.classifier.weight[None], dim=-1)
    torch.testing.assert_close(logits, 30 * cosine)


def test_start_is_that_of_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The weights that the global generator gives after the seed; all generators are unchanged."""
    import timm

    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(7)
        encoder = timm.create_model("test_resnet", num_classes=0)
        d: int = encoder.num_features  # type: ignore[assignment]
        heads = {"projector.0": nn.Linear(d, d), "projector.3": nn.Linear(d, P)}
        classifier = torch.empty(C, d).uniform_(-1, 1)
        classifier = classifier / classifier.norm(dim=1, keepdim=True)
    expected = {f"encoder.{n}": a for n, a in encoder.named_parameters()}
    for name, layer in heads.items():
        expected |= {f"{name}.{n}": a for n, a in layer.named_parameters()}
    seeded: list[int] = []
    monkeypatch.setattr(torch.cuda, "manual_seed_all", seeded.append)
    before = torch.get_rng_state()
    network = ImageNetwork("test_resnet", P, C, seed=7)
    assert seeded == [] and torch.equal(torch.get_rng_state(), before)
    for name, a in expected.items():
        assert torch.equal(network.get_parameter(name), a), name
    torch.testing.assert_close(network.get_parameter("classifier.weight").data, classifier)
    other, name = ImageNetwork("test_resnet", P, seed=8), "projector.0.weight"
    assert other.classifier is None
    assert not torch.equal(other.get_parameter(name), network.get_parameter(name))


@pytest.mark.parametrize("size", [0, 64])
@pytest.mark.parametrize("name", ["test_vit", "mobilenetv3_small_050", "test_convnext"])
def test_width_and_size_of_any_encoder(name: str, size: int) -> None:
    network = ImageNetwork(name, P, size=size).eval()
    size = size or model_settings(name).size
    with torch.no_grad():
        outputs = network(torch.zeros(1, 3, size, size))
    assert outputs.encoder.shape[-1] == network.projector[0].in_features
    assert outputs.projection.shape == (1, P)


def test_pretrained_without_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, whatever the hub raises."""
    import timm

    def create_model(*_: object, **options: object) -> None:
        assert options["pretrained"]
        raise kind(message)

    # No test asks the hub.
    answer = SimpleNamespace(head=lambda *_, **__: None)
    monkeypatch.setattr("huggingface_hub.utils.get_session", lambda: answer)
    kind, message = OSError, "cannot reach\nthe hub"
    monkeypatch.setattr(timm, "create_model", create_model)
    rule = "weights of resnet50, fetched by timm, got: cannot reach the hub; without internet, --w"
    with pytest.raises(ValueError, match=rule):
        timm_encoder.timm_encoder("resnet50", pretrained=True)
    # The middle of a long message is cut, not its end.
    message = "far " * 99 + "end"
    with pytest.raises(ValueError, match=r"got: far far .* \.\.\. .* end; without internet, --w"):
        timm_encoder.timm_encoder("resnet50", pretrained=True)
    # Without an answer the errors of the system are its; others stay.
    del answer.head
    with pytest.raises(ValueError, match="got: no answer of http"):
        timm_encoder.timm_encoder("resnet50", pretrained=True)
    kind, message = RuntimeError, "no weights exist"
    with pytest.raises(ValueError, match="got: no weights exist; without internet, --w"):
        timm_encoder.timm_encoder("resnet50", pretrained=True)
    with pytest.raises(ValueError, match=r"architecture of timm, .* got 'resnet51x'"):
        timm_encoder.timm_encoder("resnet51x")


def models() -> list[str]:
    """Return the smallest pretrained model of timm for every crop mode and filter."""
    timm: Any = vision_module("timm")
    kinds: dict[tuple[str, str], tuple[int, str]] = {}
    for name in timm.list_models(pretrained=True):
        about = timm.get_pretrained_cfg(name)
        kind, model = (about.crop_mode, about.interpolation), (about.input_size[-1], name)
        kinds[kind] = min(model, kinds.get(kind, model))
    assert {mode for mode, _ in kinds} >= {"center", "squash"}
    return [name for _, name in kinds.values()]


def test_equals_the_transform_of_timm() -> None:
    data: Any = vision_module("timm.data")
    for name in models():
        about = vision_module("timm").get_pretrained_cfg(name).to_dict()
        transform = data.create_transform(**data.resolve_data_config(pretrained_cfg=about))
        settings = model_settings(name)
        mean, std = (torch.tensor(a)[:, None, None] for a in (settings.mean, settings.std))
        for size in ((410, 300), (300, 411), (70, 50)):
            assert timm_encoder.EvaluationView(size[0]).short_side == size[0] * 256 // 224
            levels = settings(photo(3, size)).float() / 255
            expected = transform(photo(3, size))
            torch.testing.assert_close((levels - mean) / std, expected, rtol=0, atol=1e-5)


def network() -> nn.Sequential:
    return nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))


def weights(prefix: str = "") -> dict[str, Tensor]:
    torch.manual_seed(3)
    return {
        f"{prefix}{name}": torch.rand_like(a.float()) for name, a in network().state_dict().items()
    }


def written(path: Path, content: Any) -> str:
    save_file(content, path) if path.suffix == ".safetensors" else torch.save(content, path)
    return str(path)


@pytest.mark.parametrize("wrapper", [None, "state_dict", "model", "teacher"])
@pytest.mark.parametrize("prefix", ["", "module.", "encoder.", "module.backbone."])
def test_names_with_prefixes(prefix: str, wrapper: str | None, tmp_path: Path) -> None:
    """Counts of batches may be missing, and other parts are not read."""
    tensors, encoder = weights(prefix), network()
    del tensors[f"{prefix}1.num_batches_tracked"]
    tensors[f"{prefix}fc.weight"] = torch.ones(4, 3)
    if prefix:
        tensors["projector.0.weight"] = torch.ones(1)
    content = tensors if wrapper is None else {"epoch": 3, wrapper: tensors}
    path = tmp_path / ("w.pth" if wrapper else "w.safetensors")
    load_encoder(encoder, written(path, content), "tiny")
    for name, a in encoder.state_dict().items():
        if "num_batches" not in name:
            assert torch.equal(a, tensors[prefix + name]), name


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({"0.weight": torch.ones(3, 2)}, r"of tiny in .*w\.pth, got none for 0\.bias and 4"),
        (weights() | {"0.weight": torch.ones(2, 2)}, r"got 0\.weight of shape \(2, 2\), expected"),
        (weights() | {"2.weight": torch.ones(2)}, r"got 2\.weight of another network"),
        (weights() | {"0.bias": torch.full((3,), torch.nan)}, r"got 0\.bias with values that are"),
        ({"state_dict": Fraction(1)}, "alone, got: other objects .*, which are never loaded"),
        ([1, 2], "tensors by name alone, got: list"),
        ({}, "tensors by name alone, got: dict"),
    ],
)
def test_refused(content: Any, message: str, tmp_path: Path) -> None:
    encoder = network()
    before = {name: a.clone() for name, a in encoder.state_dict().items()}
    path = written(tmp_path / "w.pth", content)
    with pytest.raises(ValueError, match=message) as caught:
        load_encoder(encoder, path, "tiny")
    assert "\n" not in str(caught.value)
    assert all(torch.equal(a, before[name]) for name, a in encoder.state_dict().items())


@pytest.mark.parametrize("name", ["w.safetensors", "w.pth"])
def test_broken_and_missing_files(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    with pytest.raises(ValueError, match="expected a file of weights, got nothing at"):
        load_encoder(network(), str(path), "tiny")
    for content in (b"", b"hello", b"\x00" * 64):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=f"expected {path} to be a file of tensors .* got: "):
            load_encoder(network(), str(path), "tiny")
