"""Names of the realizations in the paper."""

RULE_NAMES = {
    "native": "Native",
    "temperature": "Direct Temperature",
    "preserve": "Intercept-Preserving",
    "angular": "Pure Angular",
    "cosine": "Cosine",
}
