"""The service: sweeps of many users over one store, through an API and pages."""
