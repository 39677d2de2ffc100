# $1: a file whose first line says how many attempts fail
fails=$(head -n 1 "$1")
if [ "$ATTEMPTNR" -le "$fails" ]; then
    echo "attempt $ATTEMPTNR on $1 fails, as it was told to" >&2
    exit 1
fi
echo "$1: attempt $ATTEMPTNR succeeded"
