"""The glossary of a page: every term in plain words, some with a small picture."""

from __future__ import annotations

import importlib.resources
import re
from dataclasses import dataclass
from functools import cache

from resultant._core.text import html_text


@dataclass(frozen=True)
class Term:
    """A term of the glossary.

    Attributes:
        slug: Anchor, and the name of the picture if there is one.
        name: Heading.
        text: Definition, in words first.
        aliases: Further words that the page links to the definition.
    """

    slug: str
    name: str
    text: str
    aliases: tuple[str, ...] = ()

    @property
    def picture(self) -> str:
        """The picture as SVG, or "" for a term without one."""
        file = importlib.resources.files("resultant.report") / "templates" / "pictures"
        path = file / f"{self.slug}.svg"
        return path.read_text(encoding="utf-8") if path.is_file() else ""


TERMS = (
    Term(
        "rule",
        "rule",
        "A way to predict the class of a row. Native takes the scores as they are; other rules "
        "change the gains first, or use the cosines alone.",
        ("rules",),
    ),
    Term(
        "row",
        "training row, held-out row",
        "A row is one example: its features and its class. Training rows fit the classes; held-out "
        "rows were not fitted and judge the rules.",
        ("held-out rows", "held-out row", "training rows", "training row"),
    ),
    Term(
        "direction",
        "direction, cosine",
        "Features are scaled to length one, so that a row is a direction. The cosine between a row "
        "and the mean direction of a class (its prototype) is 1 if they are equal, and 0 if they "
        "are at a right angle.",
        ("prototypes", "prototype", "mean direction", "direction of a class", "cosines", "cosine"),
    ),
    Term(
        "vmf",
        "vMF, von Mises-Fisher",
        "The bell curve of directions: rows of a class gather around the mean direction, and "
        "become rarer with the angle from it.",
        ("von Mises-Fisher", "vMF distribution", "vMF"),
    ),
    Term(
        "concentration",
        "concentration κ, mean resultant length A",
        "How tightly a class gathers around its mean direction. The mean of rows that all point "
        "the same way has length A = 1; rows in all directions have a mean near length 0. The "
        "concentration κ is the same quantity on a scale from 0 to infinity.",
        (
            "mean resultant length",
            "mean resultant",
            "mean length",
            "concentrations",
            "concentration",
        ),
    ),
    Term(
        "arc",
        "arc",
        "The shortest way on the sphere from the direction of one class to that of another, in "
        "degrees.",
    ),
    Term(
        "score",
        "score",
        "A number per row and class; the class with the highest score is predicted. Here it is the "
        "logarithm of the mean of exp(cosine / τ) over the fitted distribution of the class.",
        ("scores",),
    ),
    Term(
        "temperature",
        "temperature τ",
        "Divides all cosines before they become scores. A low temperature makes a rule sure of "
        "itself, a high one makes it hesitate.",
        ("temperatures", "temperature"),
    ),
    Term(
        "gain",
        "angular gain g",
        "How steeply the score of a class rises with the cosine: g = A / τ. Tight classes have a "
        "high gain, loose classes a low one, although all share one temperature. A class with a "
        "higher gain wins rows that are equally close to both.",
        ("angular gains", "angular gain", "mean gain", "gains", "gain"),
    ),
    Term(
        "spread",
        "spread of the gains",
        "The standard deviation of the gains divided by their mean: 0 % if all classes have one "
        "gain.",
        ("spread of the gains", "spread of gains", "spread"),
    ),
    Term(
        "beta",
        "β, strength of the differences",
        "The fraction of the differences between the gains that is kept. β = 1 changes nothing, "
        "β = 0 gives every class the mean gain, values between them go part of the way.",
        ("beta", "β"),
    ),
    Term(
        "realization",
        "realization",
        "A way to give the classes other gains. The same target can be reached by a temperature "
        "per class or by an added slope, and the ways differ in what else they change.",
        ("realizations",),
    ),
    Term(
        "native",
        "Native",
        "The exact score with its own gains, without any edit; the paper's Original vMF.",
        ("Original vMF",),
    ),
    Term(
        "direct-temperature",
        "Direct Temperature",
        "Reaches the target gain by a temperature per class. It also moves the score at cosine "
        "zero, the intercept.",
    ),
    Term(
        "intercept-preserving",
        "Intercept-Preserving",
        "A temperature per class, with the score at cosine zero put back where it was.",
    ),
    Term(
        "pure-angular",
        "Pure Angular",
        "Reaches the target gain by a straight slope that is added to the score. Nothing else "
        "changes: not the intercept, not the curvature.",
    ),
    Term(
        "cosine-rule",
        "Cosine",
        "Predicts the class with the nearest direction. All classes have one gain and no "
        "intercept.",
        ("cosine prototypes", "cosine classifier", "nearest direction"),
    ),
    Term(
        "intercept",
        "intercept",
        "The score of a class at cosine zero. A class with a higher intercept has a head start.",
        ("intercepts", "drift of the intercept"),
    ),
    Term(
        "prior",
        "prior, weight γ",
        "Adds γ times the logarithm of the share of each class in the training rows to the "
        "scores. γ = 1 expects the same shares as in training, γ = 0 expects nothing, γ = -1 "
        "favours rare classes.",
        ("log prior", "priors", "prior", "gamma", "γ"),
    ),
    Term(
        "scale",
        "scale",
        "One number that multiplies all scores of a rule so that its probabilities fit. It is "
        "fitted on rows that choose, not on rows that judge, and changes no prediction.",
        ("fitted scale",),
    ),
    Term(
        "boundary",
        "decision boundary",
        "The place between two classes where both scores are equal: rows on one side go to one "
        "class, rows on the other side to the other.",
        ("decision boundaries", "boundaries", "boundary"),
    ),
    Term(
        "margin",
        "margin",
        "The lead of the winning score over the second. A row with a small margin is a close call.",
        ("margins",),
    ),
    Term(
        "certificate",
        "certificate, residual range",
        "A proof for one row that two rules predict the same class. Pure Angular at β = 0 is the "
        "cosine rule plus a small rest per class; where the margin is larger than the range of "
        "that rest, the rest cannot change the winner.",
        ("certificates", "certificate", "certified", "residual range"),
    ),
    Term(
        "groups",
        "head, medium and tail",
        "Groups of classes by their training rows: head classes have many, tail classes few.",
        (
            *("head, medium and tail", "head classes", "medium classes", "tail classes"),
            *("head", "medium", "tail", "shot groups", "groups", "group"),
        ),
    ),
    Term(
        "accuracy",
        "accuracy, points",
        "The percentage of the held-out rows that get their true class. Differences of percentages "
        "are in points: from 40 % to 42 % are two points.",
        ("percentage points", "points", "accuracy", "accuracies"),
    ),
    Term(
        "balanced",
        "balanced accuracy",
        "The mean of the accuracies of the classes: every class counts the same, however many "
        "rows it has.",
        ("balanced",),
    ),
    Term(
        "log-loss",
        "log-loss",
        "The mean of minus the logarithm of the probability that a rule gives to the true class, "
        "in nats; smaller is better. Also called NLL or cross-entropy.",
        ("NLL", "cross-entropy"),
    ),
    Term(
        "calibration",
        "calibration error",
        "The mean difference between how sure a rule says it is and how often it is right, over "
        "15 equal bins of confidence (ECE). 0 % means that rows with confidence 0.8 are right "
        "four times out of five.",
        ("expected calibration error", "ECE", "calibration", "calibrated", "confidence"),
    ),
    Term(
        "interval",
        "95 % interval, tie",
        "Another sample of held-out rows would give a number within the interval about 19 times "
        "out of 20. Two rules tie if their difference is smaller than the margin of equivalence "
        "(equivalent), or if it could be zero (undecided).",
        (
            *("95 % interval", "95\u00a0% interval", "ties", "tie", "equivalent", "undecided"),
            "verdict",
        ),
    ),
    Term(
        "plainest",
        "plainest rule",
        "The rule nearest to Native at temperature 0.1 without a prior. It is taken among rules "
        "and settings that tie on the rows that choose: what these rows cannot tell apart is "
        "chance.",
        ("plainest",),
    ),
    Term(
        "p-value",
        "p, p-value",
        "How often chance alone would give a difference at least this large. Below 0.05 the "
        "difference is called shown.",
        ("p-value", "p =", "p <"),
    ),
    Term(
        "rank-correlation",
        "rank correlation",
        "Whether two quantities order the classes in the same way: +1 if they do, -1 if one order "
        "is the reverse of the other, 0 if they have nothing to do with each other.",
    ),
    Term(
        "cross-validation",
        "cross-validation, fold",
        "The training rows are split into parts (folds); each part judges a fit to the others. "
        "Settings are chosen this way if there is no split val, so that the held-out rows choose "
        "nothing.",
        ("5-fold cross-validation", "cross-validation", "folds", "fold"),
    ),
    Term(
        "mixture",
        "mixture per class",
        "Several vMF distributions for each class instead of one, for classes with several kinds "
        "of rows. They are fitted by several passes over the rows.",
        ("mixture of vMF", "mixtures", "mixture", "components"),
    ),
    Term(
        "time",
        "fit time, predict time",
        "Seconds to fit the classes to the training rows once, without the choice of settings, and "
        "seconds to predict all held-out rows.",
        ("fit time", "predict time"),
    ),
    Term(
        "estimator",
        "fit of the concentrations",
        "The concentration of a class can be fitted by maximum likelihood, with a correction for "
        "the bias of few rows, or from rows that were left out of the fit (leave-one-out, "
        "held-out).",
        ("fits of the classes", "leave-one-out", "maximum likelihood"),
    ),
    Term(
        "typical-margin",
        "typical margin",
        "The margin between two classes that a row at the usual angle from its own class has. "
        "Below zero the usual row is given to the other class.",
        ("typical margins",),
    ),
    Term(
        "distribution-function",
        "distribution function",
        "The fraction of rows that a fitted class expects at a smaller cosine than the cosine that "
        "is seen. If the fit is right, all fractions from 0 to 1 are equally common.",
    ),
    Term(
        "curvature",
        "residual, linear term",
        "The score is nearly a straight line in the cosine: intercept plus gain times cosine (the "
        "linear term). The residual is the small rest.",
        ("linear term", "residual"),
    ),
    Term(
        "self-inclusion",
        "self-inclusion",
        "A training row is part of the mean of its own class, and so raises its own score. Rows of "
        "small classes raise it most.",
    ),
    Term(
        "reference",
        "reference",
        "A standard classifier on the same rows, fitted by scikit-learn: logistic regression "
        "(plain and balanced), linear discriminant analysis with shrinkage (LDA), nearest "
        "neighbours by cosine (kNN), the nearest centroid, and a linear probe with normalised "
        "weights. The solver of logistic regression starts from an optimum that a faster solver "
        "found, which also chose C.",
        (
            *("references", "logistic regression", "balanced logistic regression", "LDA"),
            *("kNN", "kNN by cosine", "nearest centroid", "tau-normalized linear probe"),
        ),
    ),
)


@cache
def _pattern() -> tuple[re.Pattern[str], dict[str, str]]:
    slugs = {}
    for term in TERMS:
        for word in (term.name, *term.aliases):
            slugs[html_text(word).lower()] = term.slug
    # With a capital it is the rule.
    slugs |= {"cosine": "direction", "Cosine": "cosine-rule"}
    longest = sorted(slugs, key=len, reverse=True)
    words = "|".join(map(re.escape, longest))
    return re.compile(rf"(?<![\w-])({words})(?![\w-])", re.IGNORECASE), slugs


def link_terms(text: str, *, links: bool = True) -> str:
    """Return a text as HTML with its terms linked to the glossary, each term once.

    Args:
        text: Plain text.
        links: Within buttons and summaries, which cannot have links, False marks the terms alone;
            the mouse and the focus show their cards too.

    Example:
        >>> link_terms("a high gain & more gain")
        'a high <a class="term" href="#term-gain">gain</a> &amp; more gain'
    """
    pattern, slugs = _pattern()
    seen: set[str] = set()

    def link(match: re.Match[str]) -> str:
        slug = slugs.get(match[0]) or slugs[match[0].lower()]
        if slug in seen:
            return match[0]
        seen.add(slug)
        if not links:
            return f'<span class="term" data-term="term-{slug}">{match[0]}</span>'
        return f'<a class="term" href="#term-{slug}">{match[0]}</a>'

    return pattern.sub(link, html_text(text))


def find_term(text: str) -> str | None:
    """Return the anchor of the first term of a text.

    Example:
        >>> find_term("mean gain"), find_term("nothing")
        ('term-gain', None)
    """
    pattern, slugs = _pattern()
    match = pattern.search(html_text(text))
    return None if match is None else f"term-{slugs.get(match[0]) or slugs[match[0].lower()]}"
