#!/bin/sh
# Runs before the files are removed: as prerm of the deb ("remove"), and as %preun of the rpm (0).
# At an upgrade it does nothing, so that palyrad runs until postinst restarts it.
set -eu

case "${1:-}" in
remove | 0)
  if [ -d /run/systemd/system ]; then
    systemctl stop palyrad.service || {
      echo 'palyra: not removed: palyrad does not stop; see `systemctl status palyrad`.' >&2
      exit 1
    }
    systemctl --no-reload --quiet disable palyrad.service || true
  fi
  ;;
esac
