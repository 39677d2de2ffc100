"""The pilot: runs jobs on a worker node. Standard library only; imports nothing else of JEDI.

Started as `python -I <this folder>` on any Python 3.9 or newer (Linux). One job passes through
`job` (its life), `stage` and `sandbox` (files in and out), `payload` (the pilot's side of the
running command) and `payload_monitor` (a process that starts, watches and ends the command);
`heart` talks to the service meanwhile, over `wire`.
"""
