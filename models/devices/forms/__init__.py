"""Device forms, one file a mechanism, found by scanning this package."""
