"""What `python -m search` can be told to do, and how to search."""

JOURNALS = ("compare-strategies", "families")
"""Those that read journals which are named."""
INSTALLATION = ("install", "uninstall", "installcheck")
STAGES = (
    "configure",
    "generic",
    "probe",
    "tune",
    "decide",
    "emit",
    "bench",
    "report",
    "timeline",
    "model",
    "broadcasts",
    "list",
    *INSTALLATION,
    *JOURNALS,
)
STRATEGIES = ("racing", "three-steps", "mgd", "smgd", "exhaustive")
