"""Groups of prodSourceLabel, which separate production from analysis."""

PRODUCTION_LABELS = ("managed", "test")
