# Downloads a package over the family $1 from the index $2 and uses it.
cd /tmp
export FAMILY=$1 PYTHONPATH=/workspace
shift
pip3 download -q --disable-pip-version-check --no-deps --retries 0 --timeout 60 --index-url "$@" tiny &&
  PYTHONPATH=/tmp/tiny-1.0-py3-none-any.whl python3 -c 'import tiny; print(tiny.said)'
