# curl's -4 and -6 choose the family.
while (($# > 0)); do
  if text=$(curl -sSf -L "-$1" --max-time 60 "$2" 2>/dev/null); then
    echo "$1 $2 $text"
  else
    echo "$1 $2 failed"
  fi
  shift 2
done
