# check runs the check of the palyrad in /usr/bin as the user palyra: root must not open files in
# a directory that the user can change. It prints the report and returns the check's exit status.
check() {
  set -- /usr/bin/palyrad check --config /etc/palyra/palyra.toml
  if command -v setpriv >/dev/null; then
    set -- setpriv --reuid palyra --regid palyra --init-groups "$@"
  else
    set -- runuser -u palyra -- "$@"
  fi
  set -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/palyra timeout 120 "$@"
  (cd / && exec "$@" </dev/null 2>&1)
}
