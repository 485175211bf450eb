"""The cluster: its hosts and switches, emulated or real, and how jobs are started on it."""
