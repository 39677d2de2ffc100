"""PanDA's wire for JEDI: its clients, pilots and harvester work with JEDI unmodified.

The service finds it by entry points (`jedi.wires`, `jedi.operations`). Bodies, names and codes of
PanDA become calls of service/, and answers become theirs (docs/panda.md).
"""

__version__ = "0.2.0"
