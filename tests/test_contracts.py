"""Every public name by the contracts of torch: derivatives in both modes, vmap, shapes without
values, torch.compile, empty and strided batches, half precision, ranges, inference mode."""

# pyright: reportArgumentType=false, reportCallIssue=false

import dataclasses
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor, func
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad
from torch.nn.functional import normalize

import resultant as rs

F64 = torch.float64
TINY = torch.finfo(F64).tiny


class Contract(NamedTuple):
    """A function of tensors that it takes by name, and what it promises about them."""

    call: Callable[..., Any]
    # Values just outside the ranges of the arguments.
    outside: dict[str, tuple[float, ...]] = {}  # noqa: RUF012
    # The arguments that may be empty together; None is all of them.
    rows: tuple[str, ...] | None = None
    # Arguments that have no derivative, as documented.
    constants: tuple[str, ...] = ()

    @property
    def inputs(self) -> list[str]:
        return list(inspect.signature(self.call).parameters)


torch.manual_seed(0)
INPUTS = {
    "x": torch.tensor([0.7, 3.0, 40.0], dtype=F64),
    "upper": torch.tensor([0.9, 2.0, 70.0], dtype=F64),
    "r": torch.tensor([0.1, 0.5, 0.95], dtype=F64),
    "rho": torch.tensor([-0.7, 0.1, 0.9], dtype=F64),
    "kappa": torch.tensor([0.4, 9.0, 60.0], dtype=F64),
    "tau": torch.tensor([0.7, 0.2, 0.05], dtype=F64),
    "n": torch.tensor([2.5, 7.0, 30.0], dtype=F64),
    "g": torch.tensor([0.5, 2.0, 6.0], dtype=F64),
    "z": normalize(torch.randn(3, 4, dtype=F64), dim=1),
    "mu": normalize(torch.randn(3, 4, dtype=F64), dim=1),
    "G": torch.randn(3, 4, dtype=F64),
    "l0": torch.randn(3, 5, dtype=F64),
    "B1": torch.randn(3, 5, dtype=F64),
}
Y, PAIRS = torch.tensor([0, 2, 1]), torch.tensor([[0, 1], [2, 0], [1, 2]])

NOT_NEGATIVE = (-TINY, math.inf, math.nan)
LENGTH = (-TINY, math.nextafter(1, 2), math.nan)
SCORE = {
    "rho": (-1.001, 1.001, math.nan),
    "kappa": (-TINY, math.nextafter(2.0**499, math.inf), math.nan),
    "tau": (0.0, math.nextafter(2.0**-54, 0), math.nextafter(2.0**499, math.inf), math.nan),
}
COMPARED = (0.0, math.nextafter(2.0**-46, 0), math.nextafter(2.0**499, math.inf), math.nan)
CONCENTRATION = (-TINY, math.nextafter(2.0**60, math.inf), math.nan)


def state(kappa: Tensor, mu: Tensor = INPUTS["mu"]) -> rs.ClassState:
    mu = mu.to(kappa.device, kappa.dtype)
    mu, kappa = torch.broadcast_tensors(mu, kappa.unsqueeze(-1))
    return rs.ClassState(mu, kappa[..., 0], torch.ones(len(mu), device=mu.device))


def scores(kappa: Tensor, tau: Any, name: str = "native", **options: Any) -> rs.ClassScores:
    dtype = torch.float64 if kappa.dtype == F64 else torch.float32
    return rs.realize(state(kappa), rs.Rule(tau, name, **options), dtype=dtype)


def of_scores(function: Callable[..., Any], **fixed: Tensor) -> Callable[..., Any]:
    """A function of z and of the scores of classes, as one of z, kappa and tau."""

    def call(z: Tensor, kappa: Tensor, tau: Tensor) -> Any:
        others = {n: a.to(z.device) + 0 for n, a in fixed.items()}  # fake in a fake mode
        return function(z=z, scores=scores(kappa, tau), **others)

    return call


def classes(name: str, beta: float = 0.3) -> Callable[..., Tensor]:
    return lambda z, kappa, tau: rs.class_scores(z, state(kappa), tau, name, beta)


def at_rho(name: str) -> Callable[..., Any]:
    return lambda rho, kappa, tau: getattr(rs, name)(rho, kappa, tau, 7)


def of_vectors(name: str) -> Callable[..., Any]:
    return lambda z, mu, kappa, tau: getattr(rs, name)(z, mu, kappa, tau)


E3 = ("rho", "kappa", "tau")
BELOW, R_OUT = {"x": NOT_NEGATIVE}, {"r": LENGTH}
BY_KAPPA, BY_TAU = {"kappa": NOT_NEGATIVE}, {"tau": COMPARED}
QUERY = {"z": (1.5, math.nan), "kappa": CONCENTRATION, **BY_TAU}
FUNCTIONS: dict[str, Contract] = {
    "bessel_ratio": Contract(lambda x: rs.bessel_ratio(2.5, x), BELOW),
    "log_bessel_i": Contract(lambda x: rs.log_bessel_i(2.5, x), BELOW),
    "log_bessel_ie": Contract(lambda x: rs.log_bessel_ie(2.5, x), BELOW),
    "bessel_ratio_inverse": Contract(
        lambda r: torch.stack(
            [rs.bessel_ratio_inverse(2.5, r), rs.bessel_ratio_inverse(2.5, complement=r)], -1
        ),
        R_OUT,
    ),
    "bessel_ratio_integral": Contract(
        lambda x, upper: rs.bessel_ratio_integral(2.5, x, upper), BELOW | {"upper": NOT_NEGATIVE}
    ),
    "log_normalizer": Contract(lambda kappa: rs.log_normalizer(7, kappa), BY_KAPPA),
    "mean_resultant": Contract(lambda kappa: rs.mean_resultant(7, kappa), BY_KAPPA),
    "concentration": Contract(
        lambda r, n: torch.stack([rs.concentration(7, r), rs.concentration(7, r, "loo", n=n)], -1),
        R_OUT | {"n": (0.999, math.nan)},
    ),
    **{
        name: Contract(at_rho(name), SCORE)
        for name in (
            *("vmf_score", "vmf_score_slope", "vmf_score_and_slope", "decompose"),
            *("decomposition_bounds", "mean_limit", "likelihood_limit", "joint_terms"),
            *("free_energy_expansion", "fixed_expansion"),
        )
    },
    "fixed_terms": Contract(at_rho("fixed_terms"), SCORE, constants=("kappa",)),
    "joint_expansion": Contract(
        lambda rho, kappa, tau: rs.joint_expansion(rho, kappa, tau, 200), SCORE
    ),
    "directional_cumulants": Contract(
        lambda rho, kappa: rs.directional_cumulants(rho, kappa, 7),
        {name: SCORE[name] for name in E3[:2]},
    ),
    **{
        name: Contract(of_vectors(name), {name: SCORE[name] for name in E3[1:]})
        for name in ("ambient_gradient", "tangent_gradient")
    },
    "expected_square_resultant": Contract(
        lambda r, n: rs.expected_square_resultant(r, n), R_OUT | {"n": (0.999,)}
    ),
    "unbiased_square_resultant": Contract(
        lambda r, n: rs.unbiased_square_resultant(r, n), R_OUT | {"n": (1.999,)}
    ),
    "self_inclusion": Contract(
        lambda r, tau, n: rs.self_inclusion(r, tau, n),
        R_OUT | {"tau": (0.0, math.nan), "n": (0.999,)},
    ),
    "angular_gain": Contract(
        lambda kappa, tau: rs.angular_gain(state(kappa), tau),
        BY_TAU | {"kappa": CONCENTRATION},
        rows=(),
    ),
    "target_gain": Contract(
        lambda g: rs.target_gain(g, 0.3, "power"), {"g": (-TINY, math.inf, math.nan)}, rows=()
    ),
    "target_temperature": Contract(
        lambda kappa, tau: rs.target_temperature(state(kappa), tau, 0.3),
        BY_TAU | {"kappa": (0.0,)},
        rows=(),
    ),
    **{
        "class_scores" + (f":{name}" if name else ""): Contract(
            classes(name or "native"), QUERY, rows=("z",)
        )
        for name in ("", "temperature", "preserve", "angular", "cosine")
    },
    "realize": Contract(
        lambda rho, kappa, tau: scores(kappa, tau, "angular").at(rho), BY_TAU, rows=()
    ),
    "joint_leading": Contract(
        lambda rho, kappa, tau: rs.joint_leading(state(kappa), rs.Rule(tau)).at(rho),
        BY_TAU,
        rows=(),
        constants=E3[1:],
    ),
    "pairwise_margins": Contract(of_scores(rs.pairwise_margins, pairs=PAIRS), QUERY, rows=("z",)),
    "centre_margins": Contract(
        lambda kappa, tau: rs.centre_margins(scores(kappa, tau)), BY_TAU, rows=()
    ),
    **{
        name: Contract(of_scores(getattr(rs, name), y=Y), QUERY, (), ("z", "kappa", "tau"))
        for name in ("loss_gradient", "gradient_coordinates")
    },
    "gradient_cosines": Contract(lambda G, z: rs.gradient_cosines(G, z)),
    "effective_competitors": Contract(lambda l0: rs.effective_competitors(l0)),
    "ratio_approximation": Contract(
        lambda n, x: rs.ratio_approximation(n, x), BELOW | {"n": (0.0,)}
    ),
    "ratio_bound": Contract(lambda n: rs.ratio_bound(n), {"n": (1.11,)}),
    "projection_variance": Contract(
        lambda kappa, x, rho: rs.projection_variance(kappa, x, rho), BY_KAPPA
    ),
    "rate_function": Contract(
        lambda r, kappa, rho: rs.rate_function(r, kappa, rho), BY_KAPPA | {"rho": (1.001, math.nan)}
    ),
    "propagate_probabilities": Contract(
        lambda l0, B1: rs.propagate_probabilities(l0, B1, 0.5 * B1, 64)
    ),
    "propagate_loss": Contract(lambda l0, B1: rs.propagate_loss(l0, B1, 0.5 * B1, 64, 1)),
}


# Names that are no functions of numbers and tensors, and the tests of what they promise.
OTHERS = {
    "tests/classes/test_statistics.py": ("ClassState", "ClassStatistics", "Metric"),
    "tests/classes/test_scores.py": ("ClassScores", "Rule"),
    "tests/classes/test_finite_sample.py": (
        *("cross_fit_temperature", "fold_statistics", "held_out_state", "leave_one_out_scores"),
    ),
    "tests/decisions/test_modes.py": (
        *("certificate", "disagreement_bound", "loss_bound", "gradient_bound", "margin_change"),
        *("residual_bound", "short_arc_roots", "displacement", "select_pairs"),
        *("mean_relative_error", "stacked_relative_error", "intercept_gradient_difference"),
    ),
    "tests/theory/test_binary_model.py": ("BinaryModel",),
    "tests/theory/test_score_expansion.py": ("posterior_thresholds",),
    "tests/score/test_exact.py": ("Decomposition",),
    "tests/score/test_bounds.py": ("DecompositionBounds", "ScoreLimit"),
    "tests/vmf/test_distribution.py": ("VonMisesFisher", "HypersphericalUniform"),
    "tests/losses/test_table.py": ("ProCoLoss", "ProCoBank"),
    "tests/losses/test_proco.py": ("LogitAdjustedCrossEntropy",),
    "tests/classifiers/test_vmf.py": ("VMFClassifier", "CosinePrototypeClassifier"),
    "tests/classifiers/test_cross_validated.py": ("VMFClassifierCV",),
    "tests/classifiers/test_mixture.py": ("VMFMixture", "expected_calibration_error"),
    "tests/classifiers/test_kmeans.py": ("SphericalKMeans",),
    "tests/cli/test_compare.py": ("compare",),
    "tests/analysis/test_rows.py": ("rows",),
    "tests/cli/test_predict.py": ("load_model", "predict"),
    "tests/analysis/test_analyze.py": ("analyze", "load_classifier", "__version__"),
    "tests/training/test_tune.py": ("tune",),
}


def tensors(result: Any) -> list[Tensor]:
    """Return the tensors of a result in order."""
    if isinstance(result, Tensor):
        return [result]
    if dataclasses.is_dataclass(result):
        result = [getattr(result, field.name) for field in dataclasses.fields(result)]
    return [a for part in result for a in tensors(part)]


def floats(result: Any) -> Tensor:
    """Return the numbers of a result, one row per tensor of it where they are of one shape."""
    return torch.cat([a.flatten() for a in tensors(result) if a.is_floating_point()])


def arguments(contract: Contract, dtype: torch.dtype = F64) -> dict[str, Tensor]:
    return {name: INPUTS[name].to(dtype) for name in contract.inputs}


ARGUMENTS = [
    pytest.param(contract, argument, id=f"{name}-{argument}")
    for name, contract in FUNCTIONS.items()
    for argument in contract.inputs
]
CONTRACTS = [pytest.param(contract, id=name) for name, contract in FUNCTIONS.items()]


def test_every_public_name_has_an_entry() -> None:
    entries = {name.partition(":")[0] for name in FUNCTIONS}
    others = [name for names in OTHERS.values() for name in names]
    assert sorted([*entries, *others]) == rs._public()
    for path in OTHERS:
        assert Path(__file__).parent.parent.joinpath(path).is_file(), path


def alone(contract: Contract, argument: str) -> tuple[Callable[[Tensor], Tensor], Tensor]:
    """The numbers of the result as a function of one argument."""
    rest = arguments(contract)
    at = rest.pop(argument)

    def function(a: Tensor) -> Tensor:
        return floats(contract.call(**rest, **{argument: on_sphere(argument, a)}))

    return function, at


def on_sphere(argument: str, a: Tensor) -> Tensor:
    return normalize(a, dim=-1) if argument in ("z", "mu") else a


@pytest.mark.parametrize(("contract", "argument"), ARGUMENTS)
def test_derivatives(contract: Contract, argument: str) -> None:
    """jvp, a dual level and reverse mode are differences; so is the gradient of the gradient."""
    function, at = alone(contract, argument)
    if argument in contract.constants:
        assert not function(at.clone().requires_grad_()).requires_grad
        return
    generator = torch.Generator().manual_seed(1)
    move = torch.randn(at.shape, dtype=F64, generator=generator) * at.abs().clamp(1e-2, 1)

    def difference(f: Callable[[Tensor], Tensor], step: float = 1e-3) -> Tensor:
        """Of sixth order."""
        weights = (45 / 60, -9 / 60, 1 / 60)
        moves = ((w, k * step * move) for k, w in enumerate(weights, 1))
        total: Any = sum(w * (f(at + d) - f(at - d)) for w, d in moves)
        return total / step

    def bar(size: Tensor) -> dict[str, float]:
        return {"rtol": 1e-6, "atol": 1e-7 * (1 + float(size.detach().abs().amax()))}

    expected, size = difference(function), 1 + function(at).abs().amax()
    torch.testing.assert_close(func.jvp(function, (at,), (move,))[1], expected, **bar(expected))
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(function(forward_ad.make_dual(at, move))).tangent
        torch.testing.assert_close(tangent, expected, **bar(expected))

    def along(a: Tensor, graph: bool = False) -> Tensor:
        """The gradient of a sum along the move."""
        inside = a if a.requires_grad else a.detach().requires_grad_()
        total = (function(inside) / size).sin().sum()
        return (torch.autograd.grad(total, inside, create_graph=graph)[0] * move).sum()

    inside = at.clone().requires_grad_()
    reverse = along(inside, graph=True)
    chain = ((function(at) / size).cos() * expected / size).sum()
    torch.testing.assert_close(reverse.detach(), chain, **bar(expected))
    (second,) = torch.autograd.grad(reverse, inside, allow_unused=True)
    second = torch.zeros(()) if second is None else (second * move).sum()
    bend = difference(along)
    torch.testing.assert_close(second.double(), bend, **bar(bend + expected.square().sum()))


@pytest.mark.parametrize(("contract", "argument"), ARGUMENTS)
def test_vmap(contract: Contract, argument: str) -> None:
    """Over a batch of one argument, as a loop."""
    function, at = alone(contract, argument)
    batch = torch.stack([at, at.flip(0), at])
    expected = torch.stack([function(a) for a in batch])
    torch.testing.assert_close(func.vmap(function)(batch), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("contract", CONTRACTS)
def test_shapes_without_values(contract: Contract) -> None:
    """On the meta device and of fake tensors."""
    given = arguments(contract)
    expected = [(a.shape, a.dtype) for a in tensors(contract.call(**given))]
    meta = tensors(contract.call(**{name: a.to("meta") for name, a in given.items()}))
    assert [(a.shape, a.dtype) for a in meta] == expected
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        fake = tensors(contract.call(**{n: mode.from_tensor(a) for n, a in given.items()}))
        assert [(a.shape, a.dtype) for a in fake] == expected


@pytest.mark.parametrize("contract", CONTRACTS)
def test_batches(contract: Contract) -> None:
    """Strided arguments, half precision, an empty batch, and inference mode before a gradient."""
    given = arguments(contract)
    expected = floats(contract.call(**given))
    strided = {n: torch.stack([a, a], -1)[..., 0] for n, a in given.items()}
    torch.testing.assert_close(floats(contract.call(**strided)), expected, rtol=1e-13, atol=1e-14)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        half = {n: on_sphere(n, a.to(dtype)) for n, a in given.items()}
        found = [a for a in tensors(contract.call(**half)) if a.is_floating_point()]
        assert all(a.isfinite().all() for a in found)
    empty = given | {n: given[n][:0] for n in contract.rows or given}
    if contract.rows != ():
        assert floats(contract.call(**empty)).numel() == 0
    with torch.inference_mode():
        inferred = floats(contract.call(**given))
    torch.testing.assert_close(inferred, expected, rtol=1e-13, atol=1e-14)
    learned = {n: a.clone().requires_grad_(n not in contract.constants) for n, a in given.items()}
    if leaves := [a for a in learned.values() if a.requires_grad]:
        total = floats(contract.call(**learned)).sum()
        assert all(g.isfinite().all() for g in torch.autograd.grad(total, leaves))


@pytest.mark.parametrize("contract", CONTRACTS)
def test_one_graph(contract: Contract) -> None:
    """torch.compile finds no break, and the graph computes the same."""
    given = arguments(contract)
    torch.compiler.reset()
    compiled = torch.compile(contract.call, fullgraph=True, backend="eager")
    expected = floats(contract.call(**given))
    torch.testing.assert_close(floats(compiled(**given)), expected, rtol=1e-12, atol=1e-13)


@pytest.mark.slow
def test_inductor() -> None:
    """Generated code computes values and gradients, in one graph of several functions."""
    few = {name: FUNCTIONS[name] for name in ("bessel_ratio", "vmf_score", "class_scores:angular")}

    def every(**given: Tensor) -> dict[str, Tensor]:
        return {name: c.call(**{n: given[n] for n in c.inputs}) for name, c in few.items()}

    torch.compiler.reset()
    results = []
    for call in (every, torch.compile(every, fullgraph=True)):
        names = {n: INPUTS[n].clone().requires_grad_() for c in few.values() for n in c.inputs}
        rows = {}
        for name, value in call(**names).items():
            own = [names[n] for n in few[name].inputs]
            rows[name] = [value, *torch.autograd.grad(value.sum(), own, retain_graph=True)]
        results.append(rows)
    for name, expected in results[0].items():
        for a, b in zip(results[1][name], expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-11, msg=lambda m: f"{name}: {m}")  # noqa: B023


@pytest.mark.parametrize(
    ("contract", "argument", "value"),
    [
        pytest.param(contract, argument, value, id=f"{name}-{argument}-{value:g}")
        for name, contract in FUNCTIONS.items()
        for argument, values in contract.outside.items()
        for value in values
    ],
)
def test_outside(contract: Contract, argument: str, value: float) -> None:
    """Values just outside a range are refused by name, with the index and the value."""
    given = arguments(contract)
    given[argument] = given[argument].clone()
    given[argument][1] = value
    with pytest.raises(ValueError, match=r"expected .*(got|not).*"):
        contract.call(**given)
