"""What `python -m search` can be told to do, and how to search."""

JOURNALS = ("compare-strategies", "families", "figures")
"""Those that read journals, or clusters, which are named."""
INSTALLATION = ("install", "uninstall", "installcheck")
STAGES = (
    "configure",
    "generic",
    "probe",
    "tune",
    "decide",
    "emit",
    "bench",
    "verify",
    "report",
    "figures",
    "timeline",
    "model",
    "broadcasts",
    "list",
    *INSTALLATION,
    *JOURNALS,
)
STRATEGIES = ("racing", "three-steps", "mgd", "smgd", "exhaustive")
