"""Every public function of tensors with arguments and ranges, and the tests of other public names;
`test_contracts` holds the contracts of all."""

# pyright: reportArgumentType=false, reportCallIssue=false

import inspect
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
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
        given = inspect.signature(self.call).parameters.values()
        return [a.name for a in given if a.default is a.empty]


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
        name: Contract(
            lambda rho, kappa, tau, f=name, p=p: getattr(rs, f)(rho, kappa, tau, p),
            SCORE,
            constants=("kappa",) * (name == "fixed_terms"),
        )
        for p, names in (
            (7, "vmf_score vmf_score_slope vmf_score_and_slope decompose decomposition_bounds"),
            (7, "mean_limit likelihood_limit free_energy_expansion fixed_expansion fixed_terms"),
            (7, "joint_terms"),
            (200, "joint_expansion"),
        )
        for name in names.split()
    },
    "directional_cumulants": Contract(
        lambda rho, kappa: rs.directional_cumulants(rho, kappa, 7),
        {name: SCORE[name] for name in E3[:2]},
    ),
    **{
        name: Contract(
            lambda z, mu, kappa, tau, f=name: getattr(rs, f)(z, mu, kappa, tau),
            {name: SCORE[name] for name in E3[1:]},
        )
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
            lambda z, kappa, tau, f=name or "native": rs.class_scores(z, state(kappa), tau, f, 0.3),
            QUERY,
            rows=("z",),
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
    "classes/test_statistics": "ClassState ClassStatistics Metric",
    "classes/test_scores": "ClassScores Rule",
    "classes/test_finite_sample": "cross_fit_temperature fold_statistics held_out_state "
    "leave_one_out_scores",
    "decisions/test_modes": "certificate disagreement_bound displacement gradient_bound "
    "intercept_gradient_difference loss_bound margin_change mean_relative_error residual_bound "
    "select_pairs short_arc_roots stacked_relative_error",
    "theory/test_binary_model": "BinaryModel",
    "theory/test_score_expansion": "posterior_thresholds",
    "score/test_exact": "Decomposition",
    "score/test_bounds": "DecompositionBounds ScoreLimit",
    "vmf/test_distribution": "VonMisesFisher HypersphericalUniform",
    "losses/test_table": "ProCoLoss ProCoBank",
    "losses/test_proco": "LogitAdjustedCrossEntropy",
    "classifiers/test_vmf": "VMFClassifier CosinePrototypeClassifier",
    "classifiers/test_cross_validated": "VMFClassifierCV",
    "classifiers/test_mixture": "VMFMixture expected_calibration_error",
    "classifiers/test_kmeans": "SphericalKMeans",
    "cli/test_compare": "compare",
    "analysis/test_rows": "rows",
    "cli/test_predict": "load_model predict",
    "analysis/test_analyze": "analyze load_classifier __version__",
    "training/test_tune": "tune",
}
