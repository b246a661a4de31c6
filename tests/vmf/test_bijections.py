"""Unconstrained parameters of unit vectors: torch.distributions.transform_to and biject_to."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import biject_to, transform_to

from resultant import VonMisesFisher
from resultant._core.arrays import unit_vector


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
