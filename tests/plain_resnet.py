"""Networks written down plainly, with the tensor names and shortcuts of ProCo's authors."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from resultant_reproduction.cifar import network


def conv(i: int, o: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(i, o, 3, stride, 1, bias=False)


def shortcut(x: Tensor, o: int) -> Tensor:
    """x itself, or every other pixel with a quarter of zero channels on either side."""
    if x.shape[1] == o:
        return x
    return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, o // 4, o // 4))


class PlainBlock(nn.Module):
    def __init__(self, i: int, o: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(i, o, 1 if i == o else 2), nn.BatchNorm2d(o)
        self.conv2, self.bn2 = conv(o, o), nn.BatchNorm2d(o)

    def forward(self, x: Tensor) -> Tensor:
        y = F.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return F.relu(y + shortcut(x, y.shape[1]))


class PlainEncoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, 16), nn.BatchNorm2d(16)
        i = 16
        for s, o in enumerate((16, 32, 64), 1):
            blocks = (PlainBlock(o if k else i, o) for k in range(network.BLOCKS))
            setattr(self, f"layer{s}", nn.Sequential(*blocks))
            i = o

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.bn1(self.conv1(x)))
        for s in (1, 2, 3):
            x = getattr(self, f"layer{s}")(x)
        return x.mean((2, 3))


class PlainCosine(nn.Module):
    """Logits 30 cos(w_c, x), with the w_c as the columns of a matrix."""

    def __init__(self, width: int, num_classes: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, num_classes))

    def forward(self, x: Tensor) -> Tensor:
        return 30 * F.normalize(x, dim=1) @ F.normalize(self.weight, dim=0)


class PlainNetwork(nn.Module):
    """Images to encoder [N, d], unit projection [N, p] and logits [N, C]."""

    def __init__(
        self,
        encoder: nn.Module,
        width: int,
        hidden: int,
        dim: int,
        num_classes: int,
        *,
        cosine: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.head = nn.Sequential(
            nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.ReLU(), nn.Linear(hidden, dim)
        )
        self.fc = (PlainCosine if cosine else nn.Linear)(width, num_classes)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = self.encoder(x)
        return h, F.normalize(self.head(h), dim=-1), self.fc(h)

    def named(self, keep_vars: bool = False) -> dict[str, Tensor]:
        """The tensors under the names of this package, batch counters aside."""
        names = {"head": "projector", "fc": "classifier", "encoder": "encoder"}
        result = {}
        for name, a in self.state_dict(keep_vars=keep_vars).items():
            first, _, rest = name.partition(".")
            if not rest.endswith("num_batches_tracked"):
                result[f"{names[first]}.{rest}"] = a
        return result


class PlainResNet32(PlainNetwork):
    """That of images [N, 3, 32, 32], with d = 64."""

    def __init__(
        self, dim: int, num_classes: int, hidden: int = 512, *, cosine: bool = False
    ) -> None:
        super().__init__(PlainEncoder(), 64, hidden, dim, num_classes, cosine=cosine)
