#!/usr/bin/env bash
# Installs a build into a folder and runs what is there, from the data that are there.
#   install_test.sh BUILD
set -euo pipefail
build=$1
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cmake --install "$build" --prefix "$folder" >"$folder/log" 2>&1 || { cat "$folder/log"; exit 1; }
unset TRACECAST_DATA
cd "$folder"
# Not `| grep -q`, which ends at the first match and the program with it.
grep -q 'step time' <<<"$(bin/tracecast predict llama3-405b-16k)"
strings=$(bin/tracecast predict llama3-405b-16k --set parallel.tp=12 2>&1 || true)
grep -q "share/tracecast/scenarios" <<<"$strings"  # its own data, not those of the source tree
grep -q compiler <<<"$(bin/tracecast --version)"
grep -q '^.SS "tracecast predict"' share/man/man1/tracecast.1
bash -n share/bash-completion/completions/tracecast
completed=$(bash -c 'source share/bash-completion/completions/tracecast; COMP_WORDS=(tracecast pre); COMP_CWORD=1; _tracecast; echo "${COMPREPLY[@]}"')
[ "$completed" = predict ]
grep -q -- "-l html -r" share/fish/vendor_completions.d/tracecast.fish
grep -q compdef <<<"$(head -n 1 share/zsh/vendor-completions/_tracecast)"
echo "the installed program runs"
