"""jedi-run, the transformation of prun's jobs (docs/panda.md#transformation).

    jedi-run --sourceURL URL -r RUNDIR -a SANDBOX -o "{'out.dat': 'LFN'}" -i "['f1']" -p COMMAND
    jedi-run -i SOURCES -o LIBRARY --sourceURL URL -r RUNDIR --bexec COMMAND      (build job)
    jedi-run -r RUNDIR -a SANDBOX --sourceURL URL [-j SCRIPT] IN1,IN2:OUT ...     (merge job)

It unpacks the user's archive, links input files into the run directory, runs the command and gives
outputs their final names. It returns the command's exit code. Its own errors have these codes:
"""
