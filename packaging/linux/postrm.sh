#!/bin/sh
# Runs after the files are removed: as postrm of the deb ("remove", "purge"), and as %postun of the
# rpm (0). The state stays also at a purge: it is the record of all calls, with the keys that
# prove it.
set -eu

state=/var/lib/palyra

case "${1:-}" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || true
  fi
  ;;
esac

case "${1:-}" in
purge | 0)
  if [ -n "$(ls -A "$state" 2>/dev/null)" ]; then
    cat <<EOF
palyra: $state stays, with the journal, the keys and pending approvals of the gateway, and so does
its owner, the user palyra. Remove the directory yourself when the record is no longer needed.
EOF
  fi
  ;;
esac
