"""Workloads and corpora, the job types, metrics, statistics, claims and ready-made specs."""
