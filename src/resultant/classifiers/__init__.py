"""scikit-learn classifiers and mixtures on the unit sphere, one search, and one calibration.

`vmf` and `cross_validated` are the classifiers, on `base` (fits), `scoring` (queries), `inputs`
(rows of users), `growing` and `sums` (rows that are added, forgotten and merged) and `files`.
`search` chooses settings on the rows of `validation`, in `folds`, each scored by classes without it
(`left_out`); `calibration` makes probabilities of scores, and `conformal` sets; `em` fits several
distributions, as `mixture` and `kmeans`; `refine` moves the classes by the rows that they get
wrong, also of features of `lift`. `module`: a classifier as a module of torch.
"""

from resultant.classifiers.calibration import (
    expected_calibration_error as expected_calibration_error,
)
from resultant.classifiers.cross_validated import VMFClassifierCV as VMFClassifierCV
from resultant.classifiers.kmeans import SphericalKMeans as SphericalKMeans
from resultant.classifiers.mixture import VMFMixture as VMFMixture
from resultant.classifiers.vmf import (
    CosinePrototypeClassifier as CosinePrototypeClassifier,
    VMFClassifier as VMFClassifier,
)
