#!/bin/sh
# Makes the datasets that the examples read, in a home that is up: sh prepare.sh
set -e
export LC_ALL=C
place=$(mktemp -d)
trap 'rm -r "$place"' EXIT
cd "$place"

texts=$(python3 -c 'import sysconfig; print(sysconfig.get_path("stdlib"))')
jedi dataset add demo:texts "$texts"/*.py
jedi dataset add demo:many $(ls "$texts"/*.py | head -n 14)

# a line is the number of attempts that fail
for file in good1=0 good2=0 good3=0 later=2 never=99; do echo "${file#*=}" > "${file%=*}.txt"; done
jedi dataset add demo:flaky good1.txt good2.txt good3.txt later.txt never.txt

for i in 1 2 3; do seq -f "line %g of file $i" 150 > lines$i.txt; done
jedi dataset add demo:lines lines1.txt lines2.txt lines3.txt

# a line is an event: its number and its seed
for i in 0 1 2 3; do
    seq $((60 * i + 1)) $((60 * i + 60)) | awk '{ print $1, 100000 + $1 }' > seeds$i.txt
done
jedi dataset add demo:seeds seeds0.txt seeds1.txt seeds2.txt seeds3.txt

for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i > slow$i.txt; done
jedi dataset add demo:slow slow*.txt

jedi dataset create user.me:run7 --open
jedi dataset add user.me:run7 lines1.txt lines2.txt lines3.txt
