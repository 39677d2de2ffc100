"""From input to jobs: split rules and event ranges."""
