"""Samples and moments under torch.func, from a generator, as a covariance; charts of the sphere."""

import pytest
import torch
from torch import Tensor, func
from torch.distributions import biject_to, transform_to

from resultant import VonMisesFisher
from resultant._core.arrays import unit_vector
from resultant.vmf.angle import angle, velocity
from vmf.directions import axis, direction, double


def test_generator() -> None:
    law = VonMisesFisher(direction(5), 3.0)
    state = torch.get_rng_state()
    first, second = (law.sample((7,), generator=torch.Generator().manual_seed(1)) for _ in range(2))
    assert torch.equal(first, second) and torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(first, law.sample((7,), generator=torch.Generator().manual_seed(2)))
    # The global generator gives the numbers of a generator of the same seed.
    torch.manual_seed(1)
    assert torch.equal(first, law.sample((7,)))


@pytest.mark.slow
@pytest.mark.parametrize("p", [2, 3, 16])
def test_second_derivative_of_an_angle(p: int) -> None:
    """Along the path on which an angle moves with kappa by its velocity."""
    kappa = double(4.0)

    def drawn_angle(kappa: Tensor) -> Tensor:
        return angle(kappa, p, torch.Generator().manual_seed(0))

    theta, speed = drawn_angle(kappa), func.grad(drawn_angle)(kappa)
    step = 1e-5
    ahead, behind = (velocity(kappa + h, theta + h * speed, p) for h in (step, -step))
    change = func.jvp(func.grad(drawn_angle), (kappa,), (torch.ones_like(kappa),))[1]
    torch.testing.assert_close(change, (ahead - behind) / (2 * step), rtol=1e-6, atol=1e-9)


def test_vmap_of_samples() -> None:
    loc, kappa = direction(3), double(0.5, 20.0, 3e4)

    def draw(kappa: Tensor, loc: Tensor) -> Tensor:
        return VonMisesFisher(loc, kappa, validate_args=False).sample((500,))

    samples = func.vmap(draw, in_dims=(0, None), randomness="different")(kappa, loc)
    assert samples.shape == (3, 500, 3)
    means = (samples @ loc).mean(1)
    law = VonMisesFisher(loc, kappa)
    spread = 5 * (law.variance_along / 500).sqrt()
    assert ((means - law.mean @ loc).abs() <= spread).all()
    # Also where only the direction is batched, or nothing.
    many = func.vmap(draw, in_dims=(None, 0), randomness="different")(kappa[0], loc.expand(2, 3))
    assert not torch.equal(many[0] @ loc, many[1] @ loc)
    with pytest.raises(RuntimeError, match="randomness"):
        func.vmap(draw, in_dims=(0, None))(kappa, loc)


def test_vmap_with_the_same_randomness() -> None:
    loc = direction(4)

    def draw(kappa: Tensor) -> Tensor:
        return VonMisesFisher(loc, kappa, validate_args=False).sample((6,))

    same = func.vmap(draw, randomness="same")(double(2.0, 2.0, 50.0))
    assert torch.equal(same[0], same[1])
    assert ((same[2] @ loc) > (same[0] @ loc)).all()


def test_covariance_matrix() -> None:
    law = VonMisesFisher(direction(4, 2), double(3.0, 40.0))
    covariance = law.covariance_matrix
    torch.testing.assert_close(covariance.diagonal(dim1=-2, dim2=-1), law.variance)
    x = law.sample((40000,)) - law.mean
    torch.testing.assert_close(
        torch.einsum("nbi,nbj->bij", x, x) / len(x), covariance, rtol=0, atol=4e-3
    )
    torch.testing.assert_close(
        VonMisesFisher(axis(3), 0.0).covariance_matrix, torch.eye(3, dtype=torch.float64) / 3
    )
    # The square of this concentration is infinite in float32.
    narrow = VonMisesFisher(axis(3).float(), 1e21).covariance_matrix
    torch.testing.assert_close(narrow.diagonal()[1:], torch.full((2,), 1e-21), rtol=1e-6, atol=0)


@pytest.mark.slow
def test_a_distribution_built_inside_a_compiled_function() -> None:
    loc = torch.stack([direction(128), direction(128).flip(0)])
    kappa = torch.tensor([3.0, 200.0], dtype=torch.float64, requires_grad=True)

    def moments(kappa: Tensor) -> tuple[Tensor, ...]:
        law = VonMisesFisher(loc, kappa)
        return law.log_prob(loc.flip(0)), law.entropy(), law.mean, law.covariance_matrix

    compiled = torch.compile(moments, fullgraph=True, backend="eager")
    ours, expected = compiled(kappa), moments(kappa)
    torch.testing.assert_close(ours, expected, rtol=1e-11, atol=1e-13)
    ours, expected = (
        torch.autograd.grad(sum(a.sum() for a in whole), kappa) for whole in (ours, expected)
    )
    torch.testing.assert_close(ours, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.slow
def test_samples_of_a_compiled_function() -> None:
    """Two draws differ, a seed repeats them, and the mean moves with kappa by the variance."""
    loc, kappa = direction(3), double(3.0).requires_grad_()

    def draw(kappa: Tensor, n: int = 4000) -> tuple[Tensor, Tensor]:
        law = VonMisesFisher(loc, kappa)
        return law.rsample((n,)) @ loc, law.rsample((n,)) @ loc

    compiled = torch.compile(draw, fullgraph=True, backend="aot_eager")
    torch.manual_seed(0)
    first, second = compiled(kappa)
    assert not torch.equal(first, second)
    torch.manual_seed(0)
    assert torch.equal(first, compiled(kappa)[0])
    assert compiled(kappa, 5)[0].shape == (5,)
    law = VonMisesFisher(loc, kappa.detach())
    spread = (law.variance_along / 4000).sqrt()
    assert (first.mean() - law.mean @ loc).abs() <= 5 * spread
    (moved,) = torch.autograd.grad(first.mean(), kappa)
    torch.testing.assert_close(moved, law.variance_along, rtol=0.05, atol=0)


def law(p: int) -> VonMisesFisher:
    return VonMisesFisher(torch.eye(p, dtype=torch.float64)[0], 3.0)


@pytest.mark.parametrize("p", [2, 3, 7])
def test_charts_of_the_sphere(p: int) -> None:
    torch.manual_seed(0)
    support = law(p).support
    for transform, dim in ((transform_to(support), p), (biject_to(support), p - 1)):
        x = torch.randn(5, dim, dtype=torch.float64)
        y = transform(x)
        assert y.shape == (5, p) == transform.forward_shape(x.shape)
        assert unit_vector.check(y).all()
        torch.testing.assert_close(transform(transform.inv(y)), y)
    assert biject_to(support).inverse_shape((5, p)) == (5, p - 1)
    assert biject_to(support) == biject_to(support) and transform_to(support) != biject_to(support)


@pytest.mark.parametrize("p", [2, 3, 7])
def test_area_of_the_chart(p: int) -> None:
    """The determinant of the metric, from the Jacobian."""
    torch.manual_seed(0)
    chart, u = biject_to(law(p).support), torch.randn(p - 1, dtype=torch.float64)
    jacobian = torch.func.jacrev(chart)(u)
    expected = torch.logdet(jacobian.T @ jacobian) / 2
    torch.testing.assert_close(chart.log_abs_det_jacobian(u, chart(u)), expected)
