"""The ProCo loss against a naive recomputation in the authors' order, and its steps: settings,
precision, transforms, errors that are noticed later."""

# pyright: reportArgumentType=false
# Settings of other kinds are passed on purpose.

import copy
import math
import pickle
from typing import Any

import numpy as np
import pytest
import torch
from scipy import special
from torch import Tensor, nn

import resultant as rs
from loss_batches import COUNTS, TAU, C, N, P, batch
from resultant._core import validation
from resultant.classes.rule import REALIZATIONS
from resultant.losses import LogitAdjustedCrossEntropy, ProCoBank, ProCoLoss

# A bank of the authors: mean vectors [C, p] and numbers of samples [C].
Bank = tuple[Tensor, Tensor]


class LogI(torch.autograd.Function):
    """log I_nu(x) from scipy."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, nu: float) -> Tensor:
        a = x.detach().numpy()
        ctx.slope = torch.as_tensor(special.ive(nu + 1, a) / special.ive(nu, a) + nu / a)
        return torch.as_tensor(special.ive(nu, a)).log() + x

    @staticmethod
    def backward(ctx: Any, *grad: Tensor) -> tuple[Tensor, None]:
        return grad[0] * ctx.slope, None


def start(loss: ProCoLoss, name: str) -> Bank:
    return 0.9 * loss.bank.state(bank=name).mu, torch.zeros(C)


def naive_update(bank: Bank, z: Tensor, y: Tensor) -> Bank:
    """Add a view to running means."""
    ave, amount = bank
    one_hot = nn.functional.one_hot(y, len(ave)).double()
    n = one_hot.sum(0)
    mean = (one_hot.T @ z) / n.clamp_min(1).unsqueeze(-1)
    w = torch.nan_to_num(n / (n + amount), nan=0.0).unsqueeze(-1)
    return (1 - w) * ave + w * mean, amount + n


def naive_kappa(ave: Tensor) -> Tensor:
    R = ave.norm(dim=-1)
    kappa = P * R / (1 - R**2)
    return torch.where((kappa > 1e5) | (kappa < 0), 1e5, kappa)


def naive_score(kappa: Tensor, tilted: Tensor) -> Any:
    """Subtract log I at concentrations and at the lengths |kappa mu + z/tau|."""
    nu = P / 2 - 1
    high, low = (LogI.apply(k, nu) - nu * k.log() for k in (tilted, kappa))  # type: ignore[operator]
    return high - low


def naive_logits(ave: Tensor, z: Tensor) -> Tensor:
    """Compute scores by N x C x p norms."""
    mu, kappa = nn.functional.normalize(ave, dim=-1), naive_kappa(ave)
    return naive_score(kappa, (kappa[:, None] * mu + z[:, None] / TAU).norm(dim=-1))


def test_equals_the_naive_loss_over_batches_views_and_epochs() -> None:
    """The loss in the authors' order."""
    loss = ProCoLoss(C, P, TAU, class_counts=COUNTS)
    new, log_pi = start(loss, "new"), (COUNTS.double() / COUNTS.sum()).log()
    torch.testing.assert_close(loss.state().kappa, torch.full((C,), P * 90 / 19).double())
    for _ in range(3):
        loss.start_epoch()
        old, new = new, start(loss, "new")
        for _ in range(3):
            z, y = batch(2)
            z.requires_grad_()
            losses = []
            for view in z:
                old, new = (naive_update(bank, view.detach(), y) for bank in (old, new))
                losses.append(nn.functional.cross_entropy(naive_logits(old[0], view) + log_pi, y))
            expected, got = torch.stack(losses).mean(), loss(z, y)
            expected_grad, grad = (torch.autograd.grad(a, z)[0] for a in (expected, got))
            torch.testing.assert_close(got, expected, rtol=1e-10, atol=0)
            state = loss.state()
            torch.testing.assert_close(state.kappa, naive_kappa(old[0]), rtol=1e-9, atol=0)
            assert torch.equal(state.count, old[1].long())
            logits = naive_logits(old[0], z[1])
            torch.testing.assert_close(loss.scores(z[1]), logits, rtol=1e-8, atol=1e-9)
            # Along z the score is exact only on the sphere, where it is a function of rho.
            for a, x in zip(grad - expected_grad, z.detach(), strict=True):
                across = a - (a * x).sum(-1, keepdim=True) * x
                assert across.abs().max() <= 1e-9 * expected_grad.abs().max()


@pytest.mark.parametrize("family", ["linear", "power"])
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_equals_cross_entropy_of_class_scores(realization: str, family: str) -> None:
    loss = ProCoLoss(C, P, 0.2, realization, 0.4, COUNTS, 0.7, family=family)
    z, y = batch()
    loss(z, y)
    x, y = batch()
    x.requires_grad_()
    (grad,) = torch.autograd.grad(got := loss(x, y), x)
    offset = 0.7 * (COUNTS.double() / COUNTS.sum()).log()
    arguments = (loss.state(), 0.2, realization, 0.4)
    expected = rs.class_scores(x, *arguments, family=family)
    torch.testing.assert_close(loss.scores(x), expected, rtol=1e-11, atol=1e-11)
    expected = nn.functional.cross_entropy(expected + offset, y)
    (expected_grad,) = torch.autograd.grad(expected, x)
    # The loss is a function of directions.
    expected_grad -= (expected_grad * x).sum(-1, keepdim=True) * x.detach()
    torch.testing.assert_close(got, expected, rtol=1e-11, atol=0)
    torch.testing.assert_close(grad, expected_grad, rtol=1e-9, atol=1e-12)
    # The batch is in the statistics already, and does not enter them in eval mode.
    before = {name: a.clone() for name, a in loss.state_dict().items()}
    torch.testing.assert_close(loss.eval()(x, y), got, rtol=1e-11, atol=0)
    assert all(torch.equal(a, before[name]) for name, a in loss.state_dict().items())


def test_indices_of_a_miner_are_weights() -> None:
    z, y = batch(2)
    triplets = tuple(torch.randint(0, N, (30,)) for _ in range(3))
    weights = torch.bincount(torch.cat(triplets), minlength=N).double()
    a, b, c, d = (ProCoLoss(C, P, class_counts=COUNTS) for _ in range(4))
    torch.testing.assert_close(a(z, y, triplets), b(z, y, weights=weights))
    assert torch.equal(c(z, y, tuple(index[:0] for index in triplets)), d(z, y, None))


@pytest.mark.slow
@pytest.mark.parametrize("realization", REALIZATIONS)
def test_leave_out_of_every_realization(realization: str) -> None:
    """The own class is that of a bank without the query, with the target gains of the whole."""
    loss = ProCoLoss(C, P, TAU, realization, 0.3, leave_out=True)
    z, y = batch()[0], torch.arange(N) % C
    got = loss(z, y)
    state = loss.state()
    scores = rs.class_scores(z, state, TAU, realization, 0.3)
    g = state.resultant / TAU
    target = g.mean() + 0.3 * (g - g.mean())
    for i in range(N):
        rest = ProCoBank(C, P)
        keep = torch.arange(N) != i
        rest.update(z[keep], y[keep])
        own, c = rest.state(), int(y[i])
        rho, kappa, A = z[i] @ own.mu[c], own.kappa[c], own.resultant[c]
        at = torch.stack([rho, 0 * rho])
        q, q_star = (
            naive_score(kappa, (kappa**2 + 2 * kappa * at / tau + tau**-2).sqrt())
            for tau in (TAU, A / target[c])
        )
        scores[i, c] = {
            "native": q[0],
            "temperature": q_star[0],
            "preserve": q_star[0] - q_star[1] + q[1],
            "angular": q[0] + (target[c] - A / TAU) * rho,
            "cosine": g.mean() * rho,
        }[realization]
    torch.testing.assert_close(got, nn.functional.cross_entropy(scores, y), rtol=1e-9, atol=0)


def test_leave_out_of_a_class_with_one_sample() -> None:
    for realization in REALIZATIONS:
        loss = ProCoLoss(C, P, realization=realization, leave_out=True)
        z = nn.functional.normalize(torch.randn(C, P).double(), dim=-1).requires_grad_()
        total = loss(z, torch.arange(C))
        total.backward()
        assert total.isfinite() and z.grad is not None and z.grad.isfinite().all()
        if realization == "native":
            # The own class has the length of the random start, orthogonal to the query.
            start = torch.tensor(P * 0.9 / (1 - 0.9**2)).double()
            own = rs.vmf_score(torch.zeros(C).double(), start, 0.1, P)
            q = rs.vmf_score(z @ z.mT, torch.tensor(1e5).double(), 0.1, P)
            q = q.diagonal_scatter(own)
            torch.testing.assert_close(total, nn.functional.cross_entropy(q, torch.arange(C)))


def test_numbers_of_any_kind() -> None:
    """A tensor or an array without dimensions is a number."""
    z, y = batch()
    plain = ProCoLoss(C, P, 0.25, "angular", 0.5, prior=0.5, seed=3)(z, y)
    for number, integer in ((torch.tensor, torch.tensor), (np.float32, np.int64)):
        settings = (integer(C), integer(P), number(0.25), "angular", number(0.5))
        loss = ProCoLoss(*settings, prior=number(0.5), seed=integer(3))
        assert torch.equal(loss(z, y), plain)


def test_inference_mode_leaves_nothing_behind() -> None:
    """A loss evaluated in inference mode has no part in the gradient of another one."""
    z, y = torch.randn(4, 8), torch.tensor([0, 1, 0, 1])
    for realization in REALIZATIONS:
        with torch.inference_mode():
            ProCoLoss(2, 8, 0.07, realization).eval()(z, y)
        x = z.clone().requires_grad_()
        ProCoLoss(2, 8, 0.07, realization)(x, y).backward()
        assert x.grad is not None and x.grad.isfinite().all()


def test_per_sample_gradients_by_vmap() -> None:
    loss = ProCoLoss(C, P, TAU, "angular", class_counts=COUNTS)
    loss(*batch())
    loss.eval()
    z, y = batch()

    def one(z: Tensor, y: Tensor) -> Tensor:
        return loss(z.unsqueeze(0), y.unsqueeze(0))

    got = torch.func.vmap(torch.func.grad(one))(z, y)
    x = z.clone().requires_grad_()
    (expected,) = torch.autograd.grad(loss(x, y), x)
    torch.testing.assert_close(got, N * expected)
    with pytest.raises(ValueError, match=r"expected y in \[0, 6\), got 6"):
        torch.func.vmap(torch.func.grad(one))(z, y.masked_fill(y == 2, C))


def test_negative_targets_name_their_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    """On the CPU a step raises; elsewhere `check` raises, once."""
    z, y = batch()
    message = r"expected target gains > 0 .* of 6 not: class \d \(-"
    loss = ProCoLoss(C, P, realization="temperature", beta=60.0)
    with pytest.raises(ValueError, match=message):
        loss(z, y)
    loss.check()
    power = ProCoLoss(C, P, realization="preserve", beta=60.0, family="power")
    power(z, y)
    power.check()
    # As on a GPU, where values are not read.
    monkeypatch.setattr(validation, "should_validate", lambda validate, *_: bool(validate))
    assert loss(z, y).isnan()
    with pytest.raises(ValueError, match=message):
        loss.check()
    loss.check()
    # NaN of a batch is not a class without a gain.
    loss = ProCoLoss(C, P, TAU, "temperature", leave_out=True)
    z[5, 2] = math.nan
    assert loss(z, y).isnan()
    with pytest.raises(validation.DivergedError, match="another length in class"):
        loss.check()
    assert loss(*batch()).isfinite()


def test_lengths_that_are_noticed_later() -> None:
    """As on a GPU, which notes a wrong length: the next step or `check` raises, once, and the
    statistics are those without the vector."""
    loss, plain = ProCoLoss(C, P), ProCoLoss(C, P)
    z, y = batch()
    y[3] = 2
    for value in (math.nan, math.inf, 0.0):
        for late in (lambda: loss(z, y), loss.check):
            wrong = z.clone()
            wrong[3, 5:] = value
            wrong[3, :5] *= value
            loss.bank.accumulate(wrong, y)
            plain.bank.accumulate(z[torch.arange(N) != 3], y[torch.arange(N) != 3])
            message = r"in all steps so far, got another length in class 2: the vector is not in"
            for copied in (loss, copy.deepcopy(loss), pickle.loads(pickle.dumps(loss))):
                with pytest.raises(validation.DivergedError, match=message):
                    late() if copied is loss else copied.check()
                copied.check()
            torch.testing.assert_close(loss.bank.old, plain.bank.old, rtol=1e-14, atol=1e-14)
    loss.bank.accumulate(0 * z[:1], y[:1] - C)
    with pytest.raises(validation.DivergedError, match="another length: the vector"):
        loss.check()


@pytest.mark.gpu
@pytest.mark.parametrize("cuda_graph", [False, True])
def test_zero_rows_on_a_device(cuda_graph: bool) -> None:
    loss = ProCoLoss(C, P, cuda_graph=cuda_graph).cuda()
    z, y = (a.cuda().float() if a.is_floating_point() else a.cuda() for a in batch(2))
    loss(z.requires_grad_(), y)
    zeros = z.detach().clone()
    zeros[1, 3] = 0
    torch.cuda.set_sync_debug_mode("error")
    loss(zeros.requires_grad_(), y)
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    with pytest.raises(validation.DivergedError, match=f"another length in class {int(y[3])}:"):
        loss(z, y)
    loss(z, y)


def test_float32_is_close_to_float64_after_many_batches() -> None:
    single, double = ProCoLoss(C, 128), ProCoLoss(C, 128)
    a = b = torch.zeros(())
    for _ in range(50):
        z, y = batch(2, p=128, dtype=torch.float32)
        a, b = single(z, y), double(z.double(), y)
    assert a.dtype == torch.float32 and b.dtype == torch.float64
    torch.testing.assert_close(a.double(), b, rtol=2e-6, atol=0)


def test_autocast_changes_nothing_and_half_precision_is_scored_in_float32() -> None:
    z, y = batch(2, dtype=torch.float32)
    z.requires_grad_()
    results = []
    for enabled in (False, True):
        loss = ProCoLoss(C, P, realization="angular", leave_out=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=enabled):
            total = loss(z, y)
            scores = loss.scores(z)
        results.append((total, scores, loss.bank.old, torch.autograd.grad(total, z)[0]))
        assert total.dtype == scores.dtype == torch.float32
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)
    loss, half = ProCoLoss(C, P).bfloat16(), z.detach().bfloat16().requires_grad_()
    assert loss.bank.old.dtype == loss.log_prior.dtype == torch.float64
    total = loss(half, y)
    total.backward()
    assert total.dtype == torch.float32 and half.grad is not None


@pytest.mark.slow
def test_compiles_for_any_batch() -> None:
    """One graph serves batches of every size, also after a loss of another dimension."""
    torch.compiler.reset()
    # Expansions are short in these dimensions. The first loss only leaves its sizes to the second.
    for dim, sizes, backend in ((1024, (24,), "eager"), (512, (24, 36), "aot_eager")):
        eager = ProCoLoss(C, dim, 0.1, "angular", class_counts=COUNTS)
        other = copy.deepcopy(eager)
        compiled = torch.compile(other, fullgraph=True, dynamic=True, backend=backend)
        for n in sizes:
            z, y = batch(2, n=n, p=dim, dtype=torch.float32)
            z.requires_grad_()
            expected, got = eager(z, y), compiled(z, y)
            torch.testing.assert_close(got, expected, rtol=1e-5, atol=1e-5)
            grads = [torch.autograd.grad(a, z)[0] for a in (expected, got)]
            torch.testing.assert_close(grads[1], grads[0], rtol=1e-4, atol=1e-5)
            torch.testing.assert_close(other.bank.old, eager.bank.old)
            torch.testing.assert_close(other.bank.new, eager.bank.new)


@pytest.mark.parametrize("gamma", [0.0, 1.0, 0.5])
def test_adjusted_logits_have_their_cross_entropy(gamma: float) -> None:
    logits, y = torch.randn(2, N, C), torch.randint(0, C, (N,))
    loss = LogitAdjustedCrossEntropy(COUNTS, gamma)
    whole = logits.double() + gamma * (COUNTS.double() / COUNTS.sum()).log()
    expected = nn.functional.cross_entropy(whole.flatten(0, 1), y.repeat(2))
    torch.testing.assert_close(loss(logits, y).double(), expected, rtol=1e-6, atol=0)
    expected = nn.functional.cross_entropy(whole[0], y)
    torch.testing.assert_close(loss(logits[0], y).double(), expected, rtol=1e-6, atol=0)
    assert loss(logits.bfloat16(), y).dtype == torch.float32


def test_adjusted_logits_without_counts_and_without_samples() -> None:
    """A class of count zero has log prior -inf, unless the prior is off."""
    assert LogitAdjustedCrossEntropy([3, 0, 1], 0.0).log_prior.tolist() == [0, 0, 0]
    loss = LogitAdjustedCrossEntropy([3, 0, 1])
    assert loss.log_prior[1] == -math.inf
    for views in ((), (2,)):
        assert loss(torch.zeros(*views, 0, 3), torch.zeros(0, dtype=torch.int64)).isnan()
