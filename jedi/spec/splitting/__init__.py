"""How input becomes jobs: split rules and event ranges."""
