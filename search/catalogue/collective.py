"""A collective operation: what is not the same for all of them."""

from __future__ import annotations

DEFAULT = "alltoall"
"""The collective that is tuned unless another is named."""
