#!/bin/sh
# Runs before the files are unpacked: as preinst of the deb ("install", "upgrade"), and as %pre of
# the rpm (1 for an installation, 2 for an upgrade). It creates the user palyra, who owns some of
# the files, and refuses a package whose palyrad could not read the store.
set -eu

@CHECK@

create_user() {
  if getent passwd palyra >/dev/null; then
    return
  fi
  if command -v systemd-sysusers >/dev/null; then
    echo '@SYSUSERS@' | systemd-sysusers -
  else
    useradd --system --user-group --home-dir /var/lib/palyra --no-create-home \
      --shell /usr/sbin/nologin --comment 'Palyra gateway' palyra
  fi
}

# stored_schema prints the schema version of the store, as the installed palyrad reports it. It
# prints nothing if there is no store. The header of the store's file would not do: a running
# palyrad may have the version in its write-ahead log.
stored_schema() {
  if [ -x /usr/bin/palyrad ]; then
    check | sed -n 's/.*the store has schema version \([0-9]\{1,9\}\).*/\1/p' | head -n 1
  fi
}

case "${1:-}" in
install | upgrade | 1 | 2)
  create_user
  stored=$(stored_schema)
  # Without a report, the versions decide. rpm refuses an older package by itself.
  if [ -z "$stored" ] && [ -n "${2:-}" ] && [ -n "$(ls -A /var/lib/palyra 2>/dev/null)" ] && dpkg --compare-versions "$2" gt '@VERSION@'; then
    cat >&2 <<EOF
palyra: refused: the installed palyra $2 is newer than @VERSION@, and it does not report the schema of
its store. Nothing was changed. \`palyrad check --config /etc/palyra/palyra.toml\` as the user palyra
has the reason.
EOF
    exit 1
  fi
  if [ "${stored:-0}" -gt '@SCHEMA@' ]; then
    cat >&2 <<EOF
palyra: refused: the store has schema version $stored; this package reads versions up to @SCHEMA@.
Nothing was changed. To go back to palyra @VERSION@, stop palyrad, move its state directory aside,
install this package, and run \`palyrad restore\` with the backup from before the upgrade. Keep the
directory that you moved: it is the record of the calls since then.
EOF
    exit 1
  fi
  ;;
esac
