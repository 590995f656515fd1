#!/usr/bin/env bash
# Drives real tool calls through a gateway of its own, from proposal to
# attestation: first alone, then in the run of a model, which plays a script
# here. Then it verifies the evidence with no daemon running.
#
# In a terminal it asks you to approve a patch. Without one, DEMO_APPROVE=allow
# or DEMO_APPROVE=deny answers (deny when it is not set: silence is no yes).
set -euo pipefail
cd "$(dirname "$0")/.."

palyra=${DEMO_BIN:-$PWD/bin}/palyra
palyrad=${DEMO_BIN:-$PWD/bin}/palyrad
work=$(mktemp -d "${TMPDIR:-/tmp}/palyra-demo.XXXXXX")
daemon=

cleanup() {
  status=$?
  if [[ -n $daemon ]] && kill -0 "$daemon" 2>/dev/null; then
    kill "$daemon"
    wait "$daemon" 2>/dev/null || true
  fi
  if ((status != 0 && status != 130)) && [[ -s $work/palyrad.log ]]; then
    echo "--- the last lines of palyrad's log" >&2
    tail -n 20 "$work/palyrad.log" >&2
  fi
  rm -rf "$work"
  exit "$status"
}
trap cleanup EXIT
trap 'echo; echo "interrupted; the demo leaves nothing behind"; exit 130' INT

interactive=false
if [[ -t 0 && -t 1 && -z ${DEMO_APPROVE:-} ]]; then interactive=true; fi
approve=${DEMO_APPROVE:-deny}
case $approve in
  allow | deny) ;;
  *)
    echo "DEMO_APPROVE is \"$approve\"; set it to allow or deny" >&2
    exit 2
    ;;
esac

bold() { if [[ -t 1 ]]; then printf '\n\033[1m%s\033[0m\n' "$*"; else printf '\n== %s\n' "$*"; fi; }

# run shows a command as a user would type it, then runs it.
run() {
  printf '$ palyra'
  printf ' %q' "$@"
  printf '\n'
  timeout --foreground 600 "$palyra" "$@"
}

# expect runs a command that must end with a given exit code.
expect() {
  local want=$1 got=0
  shift
  run "$@" || got=$?
  if ((got != want)); then
    echo "the demo expected exit code $want and got $got" >&2
    exit 1
  fi
  echo "(exit code $got)"
}

# --- a small git repository to work on
repo=$work/repo
mkdir "$repo"
cat >"$repo/greet.py" <<'PY'
import sys


def greet(name):
    return "Hello " + name


if __name__ == "__main__":
    print(greet(sys.argv[1] if len(sys.argv) > 1 else "world"))
PY
cat >"$repo/check.py" <<'PY'
import time

from greet import greet

time.sleep(0.5)
print("ok" if greet("Ada") == "Hello, Ada!" else "wrong: " + greet("Ada"))
PY
printf '# Greeter\n\nPrints a greeting.\n' >"$repo/README.md"
git -C "$repo" init -q -b main
git -C "$repo" -c user.name=Demo -c user.email=demo@palyra.dev add .
git -C "$repo" -c user.name=Demo -c user.email=demo@palyra.dev commit -q -m "A greeter"

# --- the operator's own policy, beside the defaults
mkdir -p "$work/policies"
cat >"$work/policies/10-demo.cedar" <<'CEDAR'
// Programs of the machine that may run unattended; the basename of a file in the
// workspace begins with "./" and never matches. Naming a sensitive tool without
// asking a human has to say so.
@id("demo.tools-unattended")
@reason("git, python and sleep may run unattended in the demo's workspace")
@waives("approval: the workspace is a throw-away repository and the sandbox is offline")
permit(principal, action == Action::"tool.execute/process.run", resource)
when {
  context has exec &&
  (["git", "sleep"].contains(context.exec.basename) || context.exec.basename like "python3*") &&
  context.egress.mode == "strict"
};

@id("demo.no-web")
@reason("the demo does not talk to the internet")
@remedy("Remove demo.no-web from 10-demo.cedar, then the call asks a human.")
forbid(principal, action == Action::"tool.execute/http.fetch", resource)
unless { context has host && context.host == "intranet.test" };
CEDAR
# --- what the model says; it reads what its calls return, denials included
cat >"$work/model.yaml" <<'YAML'
turns:
  - text: I look at the history, and run the check at the same time.
    calls:
      - tool: process.run
        input: {argv: [python3, check.py]}
      - tool: process.run
        input: {argv: [git, log, --oneline]}
  - expect:
      - {result: 1, matches: "wrong: Hello Ada"}
      - {result: 2, matches: A greeter}
    text: The check fails. I look up how greetings are written.
    calls:
      - tool: http.fetch
        input: {url: "https://example.com/greetings"}
  - expect:
      - {result: 1, failed: true, matches: "POLICY_DENIED.*Remove demo.no-web"}
    text: I may not use the web, so I go by the check.
    calls:
      - tool: fs.patch
        input:
          patch: |
            --- a/greet.py
            +++ b/greet.py
            @@ -2,7 +2,7 @@
             
             
             def greet(name):
            -    return "Hello " + name
            +    return f"Hello, {name}!"
             
             
             if __name__ == "__main__":
  - text: That is all that I can do here; the journal has every call of it.
YAML
cat >"$work/palyra.toml" <<TOML
state_dir = "$work/state"

[listen]
api = "127.0.0.1:0"
metrics = "127.0.0.1:0"
console = ""

[policy]
dir = "$work/policies"

[[workspaces]]
name = "default"
path = "$repo"

[process_runner]
allow_interpreters = true

[[models]]
name = "script"
provider = "scripted"
script = "$work/model.yaml"
TOML
export PALYRA_CONFIG=$work/palyra.toml
unset PALYRA_STATE_DIR PALYRA_ADDRESS PALYRA_CREDENTIALS

# Ubuntu 23.10 and later keep programs without an AppArmor profile from making
# user namespaces. The doctor says which profile palyrad needs.
restricted=/proc/sys/kernel/apparmor_restrict_unprivileged_userns
if [[ -r $restricted && $(<"$restricted") == 1 ]] && ! "$palyrad" doctor >"$work/doctor.txt" 2>&1; then
  cat "$work/doctor.txt" >&2
  exit 1
fi

bold "1. The operator's policy is checked before it loads"
run policy check "$work/policies"

bold "2. palyrad starts with a fresh state directory"
# In a process group of its own: Ctrl-C at a question is for the question.
setsid "$palyrad" >"$work/palyrad.log" 2>&1 &
daemon=$!
for _ in $(seq 600); do
  if "$palyra" status >/dev/null 2>&1; then break; fi
  if ! kill -0 "$daemon" 2>/dev/null; then exit 1; fi
  read -rt 0.1 <> <(:) || true
done
run status

bold "3. Reading needs no human"
run call fs.read path=greet.py -o table

bold "4. Programs run in Tier C: namespaces, no network, no capabilities"
run call process.run argv='["python3","greet.py","Ada"]' -o table

bold "5. A skill: signed tools in WebAssembly, which get fuel and nothing else"
run skills build examples/skills/json-transform --out "$work/json-transform.palyra-skill"
run skills keygen "$work/publisher.key"
run skills sign "$work/json-transform.palyra-skill" --key "$work/publisher.key"
key=$("$palyra" skills verify "$work/json-transform.palyra-skill" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["key_id"])')
run skills install "$work/json-transform.palyra-skill" --yes --key-id "$key"
run call json-transform/apply 'value:={"names": ["Ada", "Grace"]}' 'steps:=[{"do": "count", "at": "/names"}]' -o table
skill_call=$("$palyra" attest list -o name | sed -n 1p)
printf '$ palyra attest show %s | grep -E "executor|fuel"\n' "$skill_call"
"$palyra" attest show "$skill_call" | grep -E '^(executor|fuel)'

bold "6. A model works on a task: two calls side by side, one denied, one that asks"
task="make the check pass"
if $interactive; then
  run run "$task"
else
  echo "(no terminal asks you: DEMO_APPROVE=$approve answers)"
  printf '$ palyra run %q > run.out 2>&1 &\n' "$task"
  timeout --foreground 600 "$palyra" run "$task" >"$work/run.out" 2>&1 &
  agent=$!
  id=
  for _ in $(seq 600); do
    id=$("$palyra" approvals list --state pending -o name)
    if [[ -n $id ]]; then break; fi
    if ! kill -0 "$agent" 2>/dev/null; then
      cat "$work/run.out" >&2
      exit 1
    fi
    read -rt 0.1 <> <(:) || true
  done
  run approvals show "$id"
  digest=$("$palyra" approvals show "$id" -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["call_digest"])')
  if [[ $approve == allow ]]; then
    run approvals decide "$id" --allow once --digest "$digest"
  else
    run approvals decide "$id" --deny --reason "not today" --digest "$digest"
  fi
  wait "$agent"
  echo '$ cat run.out'
  cat "$work/run.out"
fi
run runs show "$("$palyra" runs list -o name)"
run call process.run argv='["python3","greet.py","Ada"]' -o table

bold "7. What policy forbids does not run, and says why"
expect 3 call http.fetch url=https://example.com/

bold "8. A call that runs into its deadline is stopped with everything it started"
expect 124 call process.run argv='["sleep","30"]' timeout_ms=1000

bold "9. The timeline"
run journal list

bold "10. The evidence verifies with no daemon running"
run journal export "$work/journal.ndjson"
echo '$ palyra attest keys -o json > keys.json'
"$palyra" attest keys -o json >"$work/keys.json"
last=$("$palyra" attest list -o name | sed -n 1p)
echo "\$ palyra attest show $last -o json > attestation.json"
"$palyra" attest show "$last" -o json >"$work/attestation.json"
kill "$daemon"
wait "$daemon"
daemon=
echo "palyrad has stopped"
run journal verify "$work/journal.ndjson" --keys "$work/keys.json"
run attest verify "$work/attestation.json" --keys "$work/keys.json"

bold "11. One changed byte is found"
python3 - "$work/journal.ndjson" <<'PY'
import sys

path = sys.argv[1]
data = bytearray(open(path, "rb").read())
data[len(data) // 2] ^= 1
open(path + ".tampered", "wb").write(data)
PY
expect 8 journal verify "$work/journal.ndjson.tampered" --keys "$work/keys.json"

bold "Done: every call above was decided, recorded, run in its sandbox and attested."
