"""Checks of batches: ours pass, and each check finds an estimator that does not."""

from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import SGDClassifier
from sklearn.naive_bayes import MultinomialNB

from classifiers.labelled import sample
from resultant import CosinePrototypeClassifier, VMFClassifier, checks

OURS: list[Any] = [
    VMFClassifier(),
    VMFClassifier(whiten="within", shrinkage=0.3),
    VMFClassifier(prior=1.0, realization="preserve", beta=0.5, center=True),
    CosinePrototypeClassifier(),
]


@pytest.mark.parametrize("model", OURS, ids=str)
def test_ours_pass(model: Any) -> None:
    checks.check(model)
    X, y = sample(90)
    checks.check(model, X, np.array(["a", "b", "c", "d"])[y])


def test_others_pass_where_they_hold() -> None:
    checks.check_order(MultinomialNB())
    with pytest.raises(AssertionError, match="partial_fit to take a new label, got ValueError"):
        checks.check_new_class(MultinomialNB())
    with pytest.raises(AssertionError, match="expected a method merge of MultinomialNB, got none"):
        checks.check_merge(MultinomialNB())
    with pytest.raises(AssertionError, match="decision_function of one batch, got another by"):
        checks.check_order(SGDClassifier(random_state=0))


class Forgetful(VMFClassifier):
    """Forgets the first row alone, and merges into the other."""

    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Any:  # type: ignore[override]
        return super().forget(X[:1], y[:1])

    def merge(self, other: Any) -> Any:  # type: ignore[override]
        mine = super().merge(other)
        vars(other).update(vars(mine))
        return mine


def test_wrong_methods_are_found() -> None:
    with pytest.raises(AssertionError, match=r"a fit to the other rows, .* after forget"):
        checks.check_forget(Forgetful())
    with pytest.raises(AssertionError, match="leave the other classifier as it is"):
        checks.check_merge(Forgetful())
