"""Classes on the sphere, and the rules by which they are scored.

`statistics` sums samples and fits classes, `metric` centres and whitens samples, `rule` names a way
to score, `gain` computes angular and target gains, `scores` turns a rule and fitted classes into
scores, `finite_sample` corrects for small samples, `groups` are by class count.

Conventions of this folder, `resultant.decisions` and `resultant.theory`:

- N rows, C classes, P pairs, dimension p. ``z`` are unit vectors [N, p] and ``y`` their labels [N]
  int64; ``state`` holds C classes; ``rule`` is a `Rule`, whose ``realization`` is a name, and
  ``scores`` the `ClassScores` that `realize` makes of it; ``tau`` is a temperature > 0, a number or
  one per class [C]; ``offset`` are numbers [C] added to the scores, such as a log prior; ``pairs``
  [P, 2] int64 are pairs of different classes.
- An argument outside its stated shape, dtype, device or range is a ValueError that names the first
  bad value; ``Raises`` lists other errors alone.
- The values of tensors are checked by default on the CPU only, where the check costs no
  synchronisation; ``validate_args=True`` checks them on every device, ``False`` on none.
- Functions of numbers and tensors return the broadcast shape of their arguments.
"""

from resultant.classes.finite_sample import (
    cross_fit_temperature as cross_fit_temperature,
    expected_square_resultant as expected_square_resultant,
    fold_statistics as fold_statistics,
    held_out_state as held_out_state,
    leave_one_out_scores as leave_one_out_scores,
    self_inclusion as self_inclusion,
    unbiased_square_resultant as unbiased_square_resultant,
)
from resultant.classes.gain import angular_gain as angular_gain, target_gain as target_gain
from resultant.classes.metric import Metric as Metric
from resultant.classes.rule import Rule as Rule
from resultant.classes.scores import (
    ClassScores as ClassScores,
    class_scores as class_scores,
    realize as realize,
    target_temperature as target_temperature,
)
from resultant.classes.statistics import (
    ClassState as ClassState,
    ClassStatistics as ClassStatistics,
)
