"""Clusters in clouds: files that start them, the machine types they are made of, and what these cost."""
