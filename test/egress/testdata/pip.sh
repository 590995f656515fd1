# Downloads a package of the index $1 and uses it.
cd /tmp
pip3 download -q --disable-pip-version-check --no-deps --retries 0 --index-url "$@" tiny &&
  PYTHONPATH=/tmp/tiny-1.0-py3-none-any.whl python3 -c 'import tiny; print(tiny.said)'
