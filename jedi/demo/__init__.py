"""The demonstration: four real tasks on one machine, checked against a direct computation."""
