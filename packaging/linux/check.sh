# check runs the check of the palyrad in /usr/bin as the user palyra: root must not open files in
# a directory that the user can change. The user may also control the process: it has a session of
# its own, because a terminal accepts input from a process of its session (TIOCSTI), and limits of
# time and memory. It prints the report and returns the check's exit status.
check() {
  set -- /usr/bin/palyrad check --config /etc/palyra/palyra.toml
  if command -v setpriv >/dev/null; then
    set -- setpriv --reuid palyra --regid palyra --init-groups "$@"
  else
    set -- runuser -u palyra -- "$@"
  fi
  set -- env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/var/lib/palyra setsid -w timeout -k 10 120 "$@"
  (cd / && ulimit -v 4194304 && exec "$@" </dev/null 2>&1)
}
