"""The database: tables, states, leases, and every question asked of it."""
