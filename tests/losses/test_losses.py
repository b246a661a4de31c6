"""The contrastive loss, beside a naive recomputation in the authors' order."""

# pyright: reportArgumentType=false
# Bad input is passed on purpose.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from scipy import special
from torch import Tensor, nn

from loss_batches import COUNTS, TAU, C, N, P, batch
from loss_batches import seeded as seeded
from resultant.classes.finite_sample import leave_one_out_scores
from resultant.classes.realization import class_scores
from resultant.classes.rule import REALIZATIONS
from resultant.classes.statistics import ClassStatistics
from resultant.losses.bank import ProCoBank
from resultant.losses.proco import LogitAdjustedCrossEntropy, ProCoLoss
from resultant.score.exact import vmf_score


class LogI(torch.autograd.Function):
    """log I_nu(x) by scipy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, nu: float) -> Tensor:
        a = x.detach().numpy()
        ctx.slope = torch.as_tensor(special.ive(nu + 1, a) / special.ive(nu, a) + nu / a)
        return torch.as_tensor(special.ive(nu, a)).log() + x

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return grad[0] * ctx.slope, None


class Naive:
    """The baseline in its own order: running means, N x C x p norms, differences of log I."""

    def __init__(self, old: Tensor, new: Tensor, counts: Tensor, tau: float = TAU) -> None:
        self.old, self.new = ([start, torch.zeros(len(start))] for start in (old, new))
        self.log_pi, self.tau = (counts.double() / counts.sum()).log(), tau

    @staticmethod
    def update(bank: list[Tensor], z: Tensor, y: Tensor) -> None:
        ave, amount = bank
        one_hot = nn.functional.one_hot(y, len(ave)).double()
        n = one_hot.sum(0)
        mean = (one_hot.T @ z) / n.clamp_min(1).unsqueeze(-1)
        w = torch.nan_to_num(n / (n + amount), nan=0.0).unsqueeze(-1)
        bank[:] = [(1 - w) * ave + w * mean, amount + n]

    def kappa(self) -> Tensor:
        R = self.old[0].norm(dim=-1)
        kappa = self.old[0].shape[1] * R / (1 - R**2)
        return torch.where((kappa > 1e5) | (kappa < 0), 1e5, kappa)

    def logits(self, z: Tensor) -> Tensor:
        ave, kappa = self.old[0], self.kappa()
        mu = ave / ave.norm(dim=-1, keepdim=True)
        kt = (kappa[:, None] * mu + z[:, None] / self.tau).norm(dim=-1)
        nu = z.shape[1] / 2 - 1
        log_i: Callable[..., Any] = LogI.apply
        return log_i(kt, nu) - nu * kt.log() - (log_i(kappa, nu) - nu * kappa.log())

    def loss(self, views: Tensor, y: Tensor) -> Tensor:
        losses = []
        for z in views:
            self.update(self.old, z.detach(), y)
            self.update(self.new, z.detach(), y)
            logits = self.logits(z) + self.log_pi
            losses.append(nn.functional.cross_entropy(logits, y))
        return torch.stack(losses).mean()


def starts(loss: ProCoLoss) -> list[Tensor]:
    return [0.9 * loss.bank.state(bank=b).mu for b in ("old", "new")]


def test_the_baseline_over_batches_views_and_epochs() -> None:
    loss = ProCoLoss(C, P, TAU, class_counts=COUNTS)
    old, new = starts(loss)
    naive = Naive(old, new, COUNTS)
    torch.testing.assert_close(loss.state().kappa, torch.full((C,), P * 90 / 19).double())
    for _ in range(3):
        naive.old = [a.clone() for a in naive.new]
        loss.start_epoch()
        naive.new = [starts(loss)[1], torch.zeros(C)]
        for _ in range(3):
            z, y = batch(2)
            z.requires_grad_()
            expected, got = naive.loss(z, y), loss(z, y)
            expected_grad, grad = (torch.autograd.grad(a, z)[0] for a in (expected, got))
            torch.testing.assert_close(got, expected, rtol=1e-10, atol=0)
            state = loss.state()
            torch.testing.assert_close(state.kappa, naive.kappa(), rtol=1e-9, atol=0)
            assert torch.equal(state.count, naive.old[1].long())
            torch.testing.assert_close(loss.scores(z[1]), naive.logits(z[1]), rtol=1e-8, atol=1e-9)
            # Along z the score is exact only on the sphere, where it is a function of rho.
            for a, x in zip(grad - expected_grad, z.detach(), strict=True):
                across = a - (a * x).sum(-1, keepdim=True) * x
                assert across.abs().max() <= 1e-9 * expected_grad.abs().max()


@pytest.mark.parametrize("family", ["linear", "power"])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_realizations_are_class_scores(realization: str, family: str) -> None:
    loss = ProCoLoss(C, P, 0.2, realization, 0.4, COUNTS, 0.7, family=family)
    z, y = batch()
    loss(z, y)
    x, y = batch()
    x.requires_grad_()
    (grad,) = torch.autograd.grad(got := loss(x, y), x)
    offset = 0.7 * (COUNTS.double() / COUNTS.sum()).log()
    arguments = (loss.state(), 0.2, realization, 0.4)
    expected = class_scores(x, *arguments, family=family)
    torch.testing.assert_close(loss.scores(x), expected, rtol=1e-11, atol=1e-11)
    expected = nn.functional.cross_entropy(expected + offset, y)
    (expected_grad,) = torch.autograd.grad(expected, x)
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(grad, expected_grad, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("own_labels", [False, True])
def test_runs_are_separate_losses(own_labels: bool, leave_out: bool) -> None:
    names, betas, priors = REALIZATIONS, (0.0, 0.2, 0.5, 1.5, 0.0), (1.0, 0.0, 0.5, 1.0, 1.0)
    seeds, runs = (3, 1, 4, 1, 5), len(REALIZATIONS)
    stack = ProCoLoss(
        *(C, P, TAU, names, betas, COUNTS, priors),
        runs=(runs,),
        seed=seeds,
        leave_out=leave_out,
    )
    alone = [
        ProCoLoss(C, P, TAU, name, beta, COUNTS, prior, seed=seed, leave_out=leave_out)
        for name, beta, prior, seed in zip(names, betas, priors, seeds, strict=True)
    ]
    for epoch in range(2):
        z, y = batch(2, runs)
        if own_labels:
            y = torch.stack([y.roll(i) for i in range(runs)])
        z.requires_grad_()
        losses = stack(z, y)
        assert losses.shape == (runs,)
        (grad,) = torch.autograd.grad(losses.sum(), z)
        for i, one in enumerate(alone):
            part = z[:, i].detach().requires_grad_()
            expected = one(part, y[i] if own_labels else y)
            torch.testing.assert_close(losses[i], expected, rtol=1e-12, atol=0)
            (expected_grad,) = torch.autograd.grad(expected, part)
            torch.testing.assert_close(grad[:, i], expected_grad, rtol=1e-10, atol=1e-13)
            torch.testing.assert_close(stack.scores(z[0])[i], one.scores(z[0, i]))
            torch.testing.assert_close(stack.state(i).kappa, one.state().kappa)
            one.start_epoch()
        if epoch == 0:
            stack.start_epoch()


def test_nested_runs() -> None:
    names = ("native", "angular", "native", "angular")
    nested, flat = (ProCoLoss(C, P, realization=names, runs=runs) for runs in ((2, 2), (4,)))
    z, y = batch(2, 4)
    losses = nested(z.unflatten(1, (2, 2)), y)
    torch.testing.assert_close(losses, flat(z, y).view(2, 2))
    assert torch.equal(nested.state((1, 0)).mu, flat.state(2).mu)


def test_gradient_only_to_queries() -> None:
    loss = ProCoLoss(C, P, realization="angular")
    z, y = batch(2)
    total = loss(z.requires_grad_(), y)
    total.backward()
    assert z.grad is not None and z.grad.abs().max() > 0
    assert not list(loss.parameters())
    assert not any(a.requires_grad for a in loss.buffers())


def test_leave_out_of_the_native_score() -> None:
    loss = ProCoLoss(C, P, TAU, class_counts=COUNTS, leave_out=True, estimator="mle")
    statistics = ClassStatistics(C, P)
    first, (z, y) = batch(), batch()
    statistics.update(*first).update(z, y)
    loss(*first)
    got = loss(z, y)
    scores = class_scores(z, loss.state(), TAU)
    left_out = leave_one_out_scores(z, y, statistics, TAU).left_out
    logits = scores.scatter(-1, y.unsqueeze(-1), left_out.unsqueeze(-1))
    expected = nn.functional.cross_entropy(logits + loss.log_prior, y)
    torch.testing.assert_close(got, expected, rtol=1e-8, atol=0)


@pytest.mark.parametrize("realization", REALIZATIONS)
def test_leave_out_of_every_realization(realization: str) -> None:
    """The own class is that of a bank without the query, with the whole's target gains."""
    loss = ProCoLoss(C, P, TAU, realization, 0.3, leave_out=True)
    z, y = batch()[0], torch.arange(N) % C
    got = loss(z, y)
    state = loss.state()
    scores = class_scores(z, state, TAU, realization, 0.3)
    g = state.resultant / TAU
    target = g.mean() + 0.3 * (g - g.mean())
    for i in range(N):
        rest = ProCoBank(C, P)
        keep = torch.arange(N) != i
        rest.update(z[keep], y[keep])
        own, c = rest.state(), int(y[i])
        mu, kappa, A = own.mu[c], own.kappa[c], own.resultant[c]
        rho = z[i] @ mu

        def q(rho: Tensor | float, tau: Any, kappa: Tensor = kappa) -> Tensor:
            nu, t = P / 2 - 1, 1 / tau
            kt = (kappa**2 + 2 * kappa * t * rho + t**2).sqrt()
            log_i: Callable[..., Any] = LogI.apply
            return log_i(kt, nu) - nu * kt.log() - log_i(kappa, nu) + nu * kappa.log()

        tau = A / target[c]
        scores[i, c] = {
            "native": lambda rho=rho: q(rho, TAU),
            "temperature": lambda rho=rho, tau=tau: q(rho, tau),
            "preserve": lambda rho=rho, tau=tau: q(rho, tau) - q(0.0, tau) + q(0.0, TAU),
            "angular": lambda rho=rho, c=c, A=A: q(rho, TAU) + (target[c] - A / TAU) * rho,
            "cosine": lambda rho=rho: g.mean() * rho,
        }[realization]()
    torch.testing.assert_close(got, nn.functional.cross_entropy(scores, y), rtol=1e-9, atol=0)


def test_leave_out_of_a_class_with_one_sample() -> None:
    for realization in REALIZATIONS:
        loss = ProCoLoss(C, P, realization=realization, leave_out=True)
        z = nn.functional.normalize(torch.randn(C, P).double(), dim=-1).requires_grad_()
        total = loss(z, torch.arange(C))
        total.backward()
        assert total.isfinite() and z.grad is not None and z.grad.isfinite().all()
        if realization == "native":
            # The own class has the length of the random start, and a direction across the query.
            start = torch.tensor(P * 0.9 / (1 - 0.9**2)).double()
            own = vmf_score(torch.zeros(C).double(), start, 0.1, P)
            q = vmf_score(z @ z.mT, torch.tensor(1e5).double(), 0.1, P)
            q = q.diagonal_scatter(own)
            torch.testing.assert_close(total, nn.functional.cross_entropy(q, torch.arange(C)))


def test_logit_adjusted_cross_entropy() -> None:
    logits, y = torch.randn(2, 3, N, C), torch.randint(0, C, (N,))
    offset = (COUNTS.double() / COUNTS.sum()).log()
    stack = LogitAdjustedCrossEntropy(COUNTS, (0.0, 1.0, 0.5), runs=(3,))
    got = stack(logits, y)
    for i, gamma in enumerate((0.0, 1.0, 0.5)):
        whole = (logits[:, i].double() + gamma * offset).flatten(0, 1)
        expected = nn.functional.cross_entropy(whole, y.repeat(2))
        torch.testing.assert_close(got[i].double(), expected, rtol=1e-6, atol=0)
        one = LogitAdjustedCrossEntropy(COUNTS, gamma)
        torch.testing.assert_close(one(logits[0, i], y), stack(logits[0], y)[i])
    assert stack(logits.bfloat16(), y).dtype == torch.float32
    absent = LogitAdjustedCrossEntropy([3, 0, 1], 0.0)
    assert absent.log_prior.tolist() == [0, 0, 0]
    assert LogitAdjustedCrossEntropy([3, 0, 1]).log_prior[1] == -math.inf


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_classes": 0}, r"expected num_classes to be an integer >= 1, got 0"),
        ({"dim": 1}, r"expected p >= 2, got 1"),
        ({"temperature": 0.0}, r"expected temperature > 0 and finite, got 0"),
        ({"temperature": None}, r"temperature to be a number, or one a run \(1\), got None"),
        ({"temperature": math.nan}, r"expected temperature to be finite, got nan"),
        ({"realization": "linear"}, r"expected realization to be of .*, got 'linear'"),
        ({"realization": ("native",) * 3, "runs": (2,)}, r"one a run \(2\), got \('native'"),
        ({"beta": (0.0, 1.0)}, r"expected beta to be a number, or one a run \(1\), got 2 numbers"),
        ({"beta": math.inf}, r"expected beta to be finite, got inf"),
        ({"class_counts": [1.0, math.nan, 1.0]}, r"expected class_counts >= 0 .*at index 1"),
        ({"class_counts": [1.0, -2.0, 1.0]}, r"expected class_counts >= 0 .*-2 at index 1"),
        ({"class_counts": [0.0, 0.0, 0.0]}, r"the sum of class_counts > 0 and finite, got 0"),
        ({"class_counts": [1.0, 1.0]}, r"expected class_counts \[3\], one a class, got 2"),
        ({"family": "cubic"}, r"expected family to be one of .*'cubic'"),
        ({"estimator": "sra"}, r"expected estimator to be one of .*'sra'"),
        ({"runs": (0,)}, r"expected runs to be a tuple of integers >= 1, got \(0,\)"),
        ({"runs": 3}, r"expected runs to be a tuple of integers >= 1, got 3"),
        ({"runs": (True,)}, r"expected runs to be a tuple of integers >= 1, got \(True,\)"),
        ({"num_classes": True}, r"expected num_classes to be an integer >= 1, got True"),
        ({"seed": -1}, r"expected seed >= 0, .*got -1"),
        ({"seed": (1, 2)}, r"one a run \(1\), got \(1, 2\)"),
    ],
)
def test_bad_settings(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ProCoLoss(**{"num_classes": 3, "dim": 4, **arguments})


def test_bad_batches() -> None:
    loss = ProCoLoss(C, P)
    stack = ProCoLoss(C, P, runs=(2,))
    z, y = batch()
    before = loss.bank.old.clone()
    cases: list[tuple[ProCoLoss, Tensor, Any, str]] = [
        (loss, z, y + C, r"expected y in \[0, 6\), got \d+ at index 0"),
        (loss, z, y[1:], r"expected y \[24\], one a row of z, got shape \(23,\)"),
        (loss, z, y.int(), r"expected y of dtype torch.int64, got torch.int32"),
        (loss, z, None, r"expected y \[24\], one a row of z, got NoneType"),
        (loss, z[:, 1:], y, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(24, 15\)"),
        (loss, z[0], y, r"expected z \[N, 16\] or \[V, N, 16\], got shape \(16,\)"),
        (loss, 2 * z, y, r"expected \|z\| - 1 within .* of zero, got 1 at index 0"),
        (loss, z * math.nan, y, r"expected \|z\| - 1 within .*, got nan"),
        (loss, z.long(), y, r"expected z of a floating dtype, got torch.int64"),
        (stack, z, y, r"expected z \[2, N, 16\] or \[V, 2, N, 16\], got shape \(24, 16\)"),
        (stack, torch.stack([z, z]), y[:-1], r"expected y \[24\] or \[2, 24\]"),
    ]
    for one, z, y, message in cases:
        with pytest.raises(ValueError, match=message):
            one(z, y)
    assert torch.equal(loss.bank.old, before)
    with pytest.raises(ValueError, match=r"expected the index of one run of \(2,\), got \(\)"):
        stack.state()
    with pytest.raises(ValueError, match=r"expected bank to be 'old' or 'new', got 'mean'"):
        loss.bank.state(bank="mean")
    with pytest.raises(ValueError, match=r"expected logits \[N, 6\] or \[V, N, 6\], got shape"):
        LogitAdjustedCrossEntropy(COUNTS)(torch.randn(4, 5), torch.zeros(4).long())


@pytest.mark.parametrize("runs", [(), (2,)])
@pytest.mark.parametrize("leave_out", [False, True])
def test_no_queries(runs: tuple[int, ...], leave_out: bool) -> None:
    loss = ProCoLoss(C, P, runs=runs, leave_out=leave_out)
    before = loss.bank.old.clone()
    y = torch.zeros(0, dtype=torch.int64)
    for views in ((), (2,)):
        z = torch.zeros(*views, *runs, 0, P, requires_grad=True)
        mean = loss(z, y)
        assert mean.shape == runs and mean.isnan().all()
        (gradient,) = torch.autograd.grad(mean.sum(), z)
        assert gradient.shape == z.shape
        assert loss.scores(z).shape == (*views, *runs, 0, C)
        logits = LogitAdjustedCrossEntropy(COUNTS, runs=runs)(loss.scores(z), y)
        assert logits.shape == runs and logits.isnan().all()
    assert torch.equal(loss.bank.old, before)


@pytest.mark.parametrize("leave_out", [False, True])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_eval_leaves_the_statistics(realization: str, leave_out: bool) -> None:
    """A loss of held-out features is that of `scores` and the prior, and leaves no trace."""
    options: dict[str, Any] = {"realization": realization, "leave_out": leave_out}
    loss = ProCoLoss(C, P, TAU, class_counts=COUNTS, **options)
    loss(*batch())
    before = {name: a.clone() for name, a in loss.state_dict().items()}
    z, y = batch(2)
    found = loss.eval()(z, y)
    assert all(torch.equal(a, before[name]) for name, a in loss.state_dict().items())
    logits = loss.scores(z) + loss.log_prior
    wanted = nn.functional.cross_entropy(logits.flatten(0, 1), y.repeat(2))
    torch.testing.assert_close(found, wanted, check_dtype=False)
    loss.train()(z, y)
    assert not torch.equal(loss.bank.old, before["bank.old"])


def test_labels_of_a_class_without_a_count() -> None:
    """Its log prior is -inf: an error that names it, before the statistics know of the batch."""
    z, _ = batch()
    y = torch.arange(len(z)) % C
    counts = [5.0] * (C - 1) + [0.0]
    loss = ProCoLoss(C, P, TAU, class_counts=counts)
    before = loss.bank.old.clone()
    message = rf"that class_counts has, got class {C - 1}, whose count is zero"
    with pytest.raises(ValueError, match=message):
        loss(z, y)
    assert torch.equal(loss.bank.old, before)
    with pytest.raises(ValueError, match=message):
        LogitAdjustedCrossEntropy(counts)(torch.zeros(len(y), C), y)
    assert ProCoLoss(C, P, TAU, class_counts=counts, prior=0.0)(z, y).isfinite()
    assert loss(z, y % (C - 1)).isfinite()


def test_compiles_for_any_batch() -> None:
    """As one graph whose sizes are symbols."""
    plain, twin = (ProCoLoss(C, P, TAU, "angular", class_counts=COUNTS) for _ in range(2))
    whole = torch.compile(twin, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (24, 36):
        z, y = batch(2, n=n)
        a, b = (z.clone().requires_grad_() for _ in range(2))
        found, wanted = whole(a, y), plain(b, y)
        torch.testing.assert_close(found, wanted)
        for loss in (found, wanted):
            loss.backward()
        torch.testing.assert_close(a.grad, b.grad)
