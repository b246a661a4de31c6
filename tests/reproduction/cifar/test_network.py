"""The stacked ResNet-32 against plain networks."""

import math

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from plain_resnet import PlainResNet32
from resultant_reproduction.cifar import network as stacked
from resultant_reproduction.cifar.network import (
    StackedConv,
    StackedLinear,
    StackedResNet32,
    patches,
)
from resultant_reproduction.cifar.norm import channels_last

P, C = 16, 7
pytestmark = pytest.mark.usefixtures("all_blocks")


def plain(seed: int = 0) -> PlainResNet32:
    """Return a plain network whose norms are not the identity."""
    torch.manual_seed(seed)
    network = PlainResNet32(P, C).double()
    for module in network.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            nn.init.uniform_(module.weight, 0.5, 1.5)
            nn.init.normal_(module.bias, 0, 0.2)
    return network


def close(a: Tensor, b: Tensor, bar: float = 1e-10) -> bool:
    """Compare in float64; the gradient of a bias before a norm is rounding only."""
    assert a.dtype == b.dtype == torch.float64
    a, b = a.detach(), b.detach()
    return float((a - b).norm()) <= bar * max(float(b.norm()), 1e-3)


@pytest.mark.slow
@pytest.mark.parametrize(("groups", "size"), [(1, (14, 10)), (2, (14, 10)), (4, (32, 32))])
@pytest.mark.parametrize("training", [True, False])
def test_equals_the_plain_networks(groups: int, size: tuple[int, int], training: bool) -> None:
    """Outputs, gradients and moments of four runs that share images; later stages may have odd
    sides, and a shortcut into them has as many zero channels before as after."""
    networks = [plain(seed).train(training) for seed in range(4)]
    stack = StackedResNet32(range(4), P, C).double().train(training)
    parts = [network.named() for network in networks]
    stack.load_state_dict({name: torch.stack([p[name] for p in parts]) for name in parts[0]})
    images = torch.randn(groups, 4, 3, *size, dtype=torch.float64)
    outputs = stack(patches(images))
    weights = [torch.randn_like(a) for a in outputs]
    torch.autograd.backward(outputs, weights)
    gradients = {name: p.grad for name, p in stack.named_parameters()}
    for run, network in enumerate(networks):
        expected = network(images[run * groups // 4])
        torch.autograd.backward(expected, [w[run] for w in weights])
        for a, b in zip(outputs, expected, strict=True):
            assert close(a[run], b)
        for name, p in network.named(keep_vars=True).items():
            gradient = gradients.get(name)
            assert (gradient is None) == name.endswith(("running_mean", "running_var"))
            ours = stack.state_dict()[name] if gradient is None else gradient
            assert close(ours[run], p if p.grad is None else p.grad), name


def test_start() -> None:
    """A seed determines the weights, whatever the state of the global generator."""
    torch.manual_seed(1)
    a, b = (StackedResNet32(seeds, P, C) for seeds in ([0, 5], [5, 6]))
    for name, x in a.named_parameters():
        y = dict(b.named_parameters())[name]
        assert torch.equal(x[1], y[0])
        if "bn" not in name and "projector.1" not in name:
            assert not torch.equal(y[0], y[1]) and not torch.equal(x[0], x[1])
    for module in a.modules():
        if isinstance(module, StackedConv):
            # Kaiming: the variance is 2 over the number of inputs of an output.
            o, i = module.weight.shape[1:3]
            deviation = module.weight[0].detach().std() * math.sqrt(9 * i / 2)
            assert deviation == pytest.approx(1, abs=5 / math.sqrt(2 * o * i * 9))
        elif isinstance(module, StackedLinear):
            bound = module.weight.shape[2] ** -0.5
            for values in (module.weight, module.bias):
                assert 0.8 * bound < values.abs().max() <= bound


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("block", [1, 2, 4])
def test_block_convolution(block: int, stride: int) -> None:
    torch.manual_seed(0)
    runs, i, o = 4, 3, 5
    x = torch.randn(2, runs * i, 8, 6, dtype=torch.float64, requires_grad=True)
    weight = torch.randn(runs, o, i, 3, 3, requires_grad=True)
    # As in use: filled at each call, zero elsewhere.
    dense = channels_last(torch.zeros(runs * o, block * i, 3, 3, dtype=torch.float64))
    for _ in range(2):
        y = stacked._BlockConv.apply(x, weight, dense, stride)
        expected = F.conv2d(x, weight.flatten(0, 1).double(), None, stride, 1, 1, runs)
        torch.testing.assert_close(y, expected)
        g = torch.randn_like(y)
        ours, exact = (torch.autograd.grad(a, (x, weight), g) for a in (y, expected))
        torch.testing.assert_close(ours, exact)
        with torch.no_grad():
            weight.mul_(2)


def check_network(device: str, images: int, size: int) -> None:
    """The features agree with float64 more closely than those of TF32 would."""
    network = StackedResNet32([0, 0, 1, 1], 128, 10)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, images, 3, size, size, generator=generator)
    for _ in range(2):
        network(patches(x))  # norms that are not the identity
    network.eval()
    with torch.no_grad():
        expected = network.double()(patches(x.double()))
        outputs = network.float().to(device)(patches(x.to(device)))
    for a, b in zip(outputs, expected, strict=True):
        assert a.dtype is torch.float32
        assert (a.cpu() - b).norm() < 5e-6 * b.norm()


@pytest.mark.gpu
def test_network_gpu() -> None:
    check_network("cuda", 40, 32)
