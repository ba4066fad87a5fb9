"""What happens on a machine: threads, hardware record, running a batch, joining a cluster."""
