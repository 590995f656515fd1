while (($# > 0)); do
  if text=$(wget -q "-$1" -t 1 -T 60 --ca-certificate=/workspace/ca.pem -O - "$2"); then
    echo "$1 $2 $text"
  else
    echo "$1 $2 failed"
  fi
  shift 2
done
