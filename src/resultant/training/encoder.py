"""Image encoders of timm with a projector and a cosine classifier, and their weights from a file:
safetensors, or a .pth that holds only tensors."""

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant._core.tensor_files import load_tensors, load_torch
from resultant._core.text import listed, one_line, shortened
from resultant.features.rows import reading
from resultant.images.evaluation import EvaluationView
from resultant.images.vision import vision_module
from resultant.training.config import TrainConfig, TuneConfig

# Scale of the cosine classifier, a constant of the code of ProCo's authors.
SCALE = 30.0

# Entries under which training programs store the weights.
WRAPPERS = ("state_dict", "state_dict_ema", "model", "model_ema", "teacher", "encoder")
# Prefixes of the names of weights inside larger networks.
PREFIXES = ("", "module.", "encoder.", "backbone.", "model.", "module.encoder.", "module.backbone.")

# Seconds in which the Hugging Face hub has to answer.
ANSWER = 5
T = TypeVar("T")


class Outputs(NamedTuple):
    """Encoder features [N, d], unit projections [N, p] and logits [N, C] of images; projections of
    an encoder alone have width 0, and logits may be None."""

    encoder: Tensor
    projection: Tensor
    logits: Tensor | None


def model_settings(architecture: str) -> EvaluationView:
    """Return the images that a timm model expects, by its own configuration."""
    resolve = vision_module("timm.data").resolve_data_config
    settings = resolve(pretrained_cfg=configuration_of(architecture))
    names = ("crop_pct", "crop_mode", "interpolation", "mean", "std")
    # Lists of numbers in the files of the hub.
    values = (settings[name] for name in names)
    own: list[Any] = [tuple(v) if isinstance(v, list) else v for v in values]
    return EvaluationView(settings["input_size"][-1], *own)


def timm_encoder(
    architecture: str,
    *,
    pretrained: bool = False,
    weights: str | None = None,
    size: int = 0,
    drop_path: float = 0.0,
) -> nn.Module:
    """Build a timm encoder, images [N, 3, S, S] to features [N, d]; size 0 is the model's own."""
    timm, configuration = vision_module("timm"), configuration_of(architecture)
    options: dict[str, Any] = {"num_classes": 0}
    expected = configuration.get("input_size", (3, size, size))[-1]
    if configuration.get("fixed_input_size") and size not in (0, expected):
        # Transformers have a position per patch; timm resizes pretrained positions.
        options["img_size"] = size
    create = partial(timm.create_model, architecture, pretrained=pretrained, **options)

    def build() -> nn.Module:
        try:
            return create(drop_path_rate=drop_path) if drop_path else create()
        except TypeError:
            # A network without stochastic depth.
            return create()

    if pretrained:
        rule = f"expected the pretrained weights of {architecture}, fetched by timm"
        encoder = _fetched(build, rule, "--weights takes a file")
    else:
        encoder = build()
    if weights is not None:
        load_encoder(encoder, weights, architecture, configuration.get("classifier") or "")
    return encoder


def _fetched(read: Callable[[], T], rule: str, remedy: str) -> T:
    """Call timm, which may fetch from the Hugging Face hub; of a hub that does not answer, only the
    cache is read, for it retries every file for half a minute."""
    constants, http = (vision_module(f"huggingface_hub.{n}") for n in ("constants", "utils"))
    offline, silence = constants.HF_HUB_OFFLINE, ""
    try:
        http.get_session().head(constants.ENDPOINT, timeout=ANSWER)
    except Exception as error:
        constants.HF_HUB_OFFLINE = True
        silence = f"no answer of {constants.ENDPOINT}, and nothing in its cache: "
        silence += shortened(one_line(error), 120)
    try:
        return read()
    except Exception as error:
        # The hub, the web, the cache and the disk each have their own errors, of the system.
        got = silence if isinstance(error, OSError) else ""
        got = got or shortened(one_line(error), 120)
        raise ValueError(f"{rule}, got: {got}; without internet, {remedy}") from None
    finally:
        constants.HF_HUB_OFFLINE = offline


@cache
def configuration_of(architecture: str) -> dict[str, Any]:
    """Return the configuration of the pretrained weights of a network by its name in timm, of the
    Hugging Face hub (``hf_hub:timm/...``) or of a folder (``local-dir:...``)."""
    timm = vision_module("timm")
    if (other := elsewhere(architecture)) is not None:
        return other[0]
    if not timm.is_model(architecture) or timm.get_pretrained_cfg(architecture) is None:
        rule = "expected an architecture of timm, such as resnet50, or hf_hub:NAME"
        raise ValueError(f"{rule}, got {architecture!r}")
    return timm.get_pretrained_cfg(architecture).to_dict()


def elsewhere(architecture: str) -> tuple[dict[str, Any], str, Any] | None:
    """Return the configuration, the name in timm and the arguments of a network of the hub or of a
    folder; None for one of timm."""
    hub, (source, _, name) = vision_module("timm.models._hub"), architecture.partition(":")
    rule, kind = f"expected the network {name} of {source}", source.lower().replace("_", "-")
    if kind == "hf-hub":
        read = partial(hub.load_model_config_from_hf, name)
        return _fetched(read, rule, "local-dir:FOLDER is one that timm saved")
    if kind != "local-dir":
        return None
    try:
        return hub.load_model_config_from_path(name)
    except Exception as error:
        raise ValueError(f"{rule}, got: {one_line(error)[:200]}") from None


@torch.no_grad()
def name_in_timm(architecture: str, encoder: nn.Module, size: int) -> str:
    """Return the name by which timm builds an encoder without its folder or the hub; the given name
    if that is another function, by arguments that the folder or the hub has."""
    if (other := elsewhere(architecture)) is None:
        return architecture
    device = next(encoder.parameters()).device
    built = timm_encoder(other[1], size=size).to(device).eval()
    x = torch.randn(1, 3, size, size, device=device)
    try:
        built.load_state_dict(encoder.state_dict())
        same = torch.allclose(built(x), encoder.eval()(x), rtol=1e-3, atol=1e-5)
    except RuntimeError:
        # Other shapes.
        same = False
    return other[1] if same else architecture


class CosineClassifier(nn.Module):
    """Logits ``30 cos(w_c, x)`` without bias: x [N, i] to [N, C]."""

    def __init__(self, i: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(F.normalize(torch.empty(num_classes, i).uniform_(-1, 1), dim=-1))

    def forward(self, x: Tensor) -> Tensor:
        return SCALE * F.linear(F.normalize(x, dim=-1), F.normalize(self.weight, dim=-1))


class ImageNetwork(nn.Module):
    """A timm encoder with a projector d -> d -> p to the unit sphere and an optional classifier."""

    def __init__(
        self, architecture: str, dim: int, classes: int | None = None, seed: int = 0, **options: Any
    ) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            # Not torch.manual_seed, which would seed the devices too.
            torch.default_generator.manual_seed(seed)
            self.encoder: Any = timm_encoder(architecture, **options)
            d = int(getattr(self.encoder, "head_hidden_size", None) or self.encoder.num_features)
            self.projector = nn.Sequential(
                nn.Linear(d, d), nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, dim)
            )
            self.classifier = None if classes is None else CosineClassifier(d, classes)

    def forward(self, x: Tensor) -> Outputs:
        encoder = self.encoder(x).float()
        with torch.autocast(x.device.type, enabled=False):
            projection = F.normalize(self.projector(encoder), dim=-1)
            logits = None if self.classifier is None else self.classifier(encoder)
        return Outputs(encoder, projection, logits)

    def no_weight_decay(self) -> set[str]:
        """Return the names of weights without decay, such as positions, for timm's optimizers."""
        own = getattr(self.encoder, "no_weight_decay", set)()
        return {f"encoder.{name}" for name in own}


class EncoderNetwork(nn.Module):
    """A timm encoder without a head: outputs as of `ImageNetwork`, with a projection of width 0."""

    def __init__(self, architecture: str, **options: Any) -> None:
        super().__init__()
        self.encoder = timm_encoder(architecture, **options)

    def forward(self, x: Tensor) -> Outputs:
        encoder = self.encoder(x).float()
        return Outputs(encoder, encoder[:, :0], None)


def build(
    config: TrainConfig, seed: int, num_classes: int | None, *, initial_weights: bool = False
) -> ImageNetwork:
    """Build the network of a configuration, with a classifier if ``num_classes`` is not None."""
    options: dict[str, Any] = {"size": config.size}
    if isinstance(config, TuneConfig):
        options["drop_path"] = config.drop_path
    if initial_weights:
        options |= {"pretrained": config.pretrained, "weights": config.weights}
    network = ImageNetwork(config.architecture, config.dim, num_classes, seed, **options)
    # The layout of the images, so that no convolution transposes its weights.
    return network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]


def load_encoder(encoder: nn.Module, path: str, architecture: str, classifier: str = "") -> None:
    """Load the weights of a file into an encoder."""
    tensors, expected = read_weights(path), encoder.state_dict()
    # BatchNorm works without the number of its batches, which older files lack.
    needed = {name for name in expected if not name.endswith("num_batches_tracked")}
    prefix = max(PREFIXES, key=lambda p: sum(p + name in tensors for name in needed))
    missing = sorted(name for name in needed if prefix + name not in tensors)
    rule = f"expected the weights of {architecture} in {path}"
    if missing:
        raise ValueError(f"{rule}, got none for {prefix}{listed(missing, 1)}")
    heads = tuple(f"{prefix}{name}." for name in ("fc", "head", "classifier", classifier) if name)
    for name, a in tensors.items():
        own = name.startswith(prefix) and not name.startswith(heads)
        # A deeper network has all these weights, and more; tables of indices may be stored or not.
        stored = name.removeprefix(prefix) in expected or "attn_mask" in name
        if own and not stored and a.is_floating_point():
            raise ValueError(f"{rule}, got {name} of another network")
    chosen = {name: tensors[prefix + name] for name in expected if prefix + name in tensors}
    for name, value in chosen.items():
        if value.shape != expected[name].shape:
            got = f"{tuple(value.shape)}, expected {tuple(expected[name].shape)}"
            raise ValueError(f"{rule}, got {prefix}{name} of shape {got}")
        if not value.isfinite().all():
            raise ValueError(f"{rule}, got {prefix}{name} with values that are not finite")
    encoder.load_state_dict(chosen, strict=False)


def read_weights(path: str) -> dict[str, Tensor]:
    """Read the tensors of a file by name; pickled objects are refused."""
    file = Path(path)
    if not file.exists():
        raise ValueError(f"expected a file of weights, got nothing at {file}")
    with reading(file, "a file of tensors by name alone"):
        content = load_tensors(file)[0] if file.suffix == ".safetensors" else load_torch(file)
        parts = [content.get(name) for name in WRAPPERS] if isinstance(content, dict) else []
        for part in (*parts, content):
            tensors = part.items() if isinstance(part, dict) else ()
            found = {str(name): a for name, a in tensors if isinstance(a, Tensor)}
            if found:
                return found
        raise ValueError(type(content).__name__)
