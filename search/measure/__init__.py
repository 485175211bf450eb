"""Measuring: what to time next, who times it, and what is kept."""
