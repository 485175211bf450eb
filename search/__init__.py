"""The search: measures a cluster, decides, and emits generated/alltoall.c."""
