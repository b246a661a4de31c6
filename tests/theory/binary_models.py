"""Matched binary models, and dimensions that grow."""

from __future__ import annotations

from hypothesis import strategies as st

from resultant.theory.binary_model import BinaryModel

DOUBLINGS = (256, 1024, 4096, 16384, 65536)

ORDERED = BinaryModel(2.0, 1.0, 0.3, tau=0.5, b_h=0.1)
# Here the offsets decide which class has the larger exponent.
CLOSE = BinaryModel(1.2, 1.0, -0.2, tau=1.0, b_h=0.05, b_t=-0.05)
CRITICAL = BinaryModel(2.0, 1.0, 0.3, tau=0.5)

models = st.builds(
    BinaryModel,
    lambda_h=st.floats(0.05, 20.0),
    lambda_t=st.floats(0.05, 20.0),
    cosine=st.floats(-1.0, 0.95),
    tau=st.floats(0.05, 2.0),
    b_h=st.floats(-2.0, 2.0),
    b_t=st.floats(-2.0, 2.0),
)
