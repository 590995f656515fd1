#!/bin/sh
# Runs after the files are unpacked: as postinst of the deb ("configure", with the previous version
# at an upgrade), and as %post of the rpm (1 for an installation, 2 for an upgrade). It starts
# nothing. At an upgrade it restarts a running service, if the new palyrad would start.
set -eu

@CHECK@

systemd_runs() { [ -d /run/systemd/system ]; }

print_next_step() {
  start='run `palyrad --config /etc/palyra/palyra.toml` as the user palyra'
  if systemd_runs; then
    start='run `systemctl enable --now palyrad`'
  fi
  cat <<EOF
palyra is installed, and nothing was started. For a gateway of this machine, add a workspace to
/etc/palyra/palyra.toml and $start.
For a gateway of your own user, run \`palyra up\`.
EOF
}

is_running() { systemd_runs && systemctl is-active --quiet palyrad.service; }

# upgrade completes in any case: the files are replaced already, and a failed configuration would
# block every later package operation.
upgrade() {
  if ! report=$(check); then
    cat >&2 <<EOF
palyra: the new palyrad would not start:
$report
A running palyrad was not restarted; it continues with the previous program until it stops. Correct
the finding or install the previous package, and then run: systemctl restart palyrad
EOF
  elif is_running && ! systemctl restart palyrad.service; then
    echo 'palyra: palyrad did not restart; `journalctl -u palyrad` has the reason.' >&2
  fi
}

case "${1:-}" in
configure | 1 | 2)
  if systemd_runs; then
    systemctl daemon-reload || true
  fi
  if [ "$1" = 2 ] || [ -n "${2:-}" ]; then
    upgrade
  else
    print_next_step
  fi
  ;;
esac
