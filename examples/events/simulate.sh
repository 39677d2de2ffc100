# A payload in plain shell that gets ranges of events while it runs (docs/payload-events.md).
# It asks for one range at a time: then the answer has one id, one file, one start and one end.
set -eu

ask() {
    echo "$1" >&"$JEDI_EVENTS_OUT"
    read -r answer <&"$JEDI_EVENTS_IN"
}

field() {
    printf '%s\n' "$answer" | sed -n "s/.*\"$1\":\"\{0,1\}\([^\",}]*\).*/\1/p"
}

while ask '{"get": 1}' && id=$(field id) && [ -n "$id" ]; do
    first=$(field start) last=$(field end)
    sed -n "${first},${last}p" "$(field lfn)" | awk -f simulate.awk > "events.$first.txt"
    ask "{\"finished\": \"$id\", \"outputs\": [\"events.$first.txt\"]}"
done
