# Clones $2 over the family $1.
git clone -q "-$1" "$2" /tmp/cloned && cat /tmp/cloned/README
