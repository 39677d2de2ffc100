# $1: a file whose first line is the number of attempts that fail
fails=$(head -n 1 "$1")
if [ "$ATTEMPTNR" -le "$fails" ]; then
    echo "attempt $ATTEMPTNR on $1 fails on purpose" >&2
    exit 1
fi
echo "$1: attempt $ATTEMPTNR succeeded"
