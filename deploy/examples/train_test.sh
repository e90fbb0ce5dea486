#!/bin/sh
# The example resumes bit-identically. SIGUSR1 saves and goes on, SIGTERM saves and exits 0. Three pieces
# of a run give the same result file as one piece.
set -eu
train=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
	echo "FAIL: $*" >&2
	exit 1
}

"$train" --steps 400 --dir "$dir/whole" >"$dir/whole.log"

# Waits until a file exists; the writer renames it into place.
await() {
	tries=0
	until [ -e "$1" ]; do
		tries=$((tries + 1))
		[ $tries -lt 1500 ] || fail "no $1"
		sleep 0.01
	done
}

export SPOT_SAVED_FILE="$dir/saved" SPOT_PROGRESS_FILE="$dir/progress"
"$train" --steps 400 --step-ms 5 --dir "$dir/parts" >"$dir/1.log" &
pid=$!
await "$dir/progress"
kill -USR1 $pid
await "$dir/saved"
read -r saved <"$dir/saved"
kill -0 $pid || fail "SIGUSR1 ended the program"
rm "$dir/saved"
kill -9 $pid
wait $pid 2>/dev/null || true
[ "$saved" -lt 400 ] || fail "saved only at the end"

rm -f "$dir/progress"
"$train" --steps 400 --step-ms 5 --dir "$dir/parts" >"$dir/2.log" &
pid=$!
await "$dir/progress"
grep -q "^step $saved: resumed" "$dir/2.log" || fail "did not resume at $saved"
kill -TERM $pid
wait $pid || fail "SIGTERM: exit $?"
await "$dir/saved"

"$train" --steps 400 --dir "$dir/parts" >"$dir/3.log"
cmp "$dir/whole/result.txt" "$dir/parts/result.txt" || fail "results differ"
cmp "$dir/whole/model.ckpt" "$dir/parts/model.ckpt" || fail "checkpoints differ"
cp "$dir/parts/result.txt" "$dir/before"
"$train" --steps 400 --dir "$dir/parts" >"$dir/5.log"
cmp "$dir/before" "$dir/parts/result.txt" || fail "resumed behind its last step the result is another"
if "$train" --steps 400 --seed 2 --dir "$dir/parts" >"$dir/4.log" 2>&1; then
	fail "took another seed's checkpoint"
fi
echo "ok"
