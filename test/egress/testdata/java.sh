# Java chooses its family once, by a property.
javac -d /tmp Fetch.java || exit 1
for family in 4 6; do
  pairs=()
  for ((i = 1; i < $#; i += 2)); do
    [[ ${!i} == "$family" ]] && j=$((i + 1)) && pairs+=("$family" "${!j}")
  done
  property=java.net.preferIPv4Stack
  [[ $family == 6 ]] && property=java.net.preferIPv6Addresses
  java -XX:TieredStopAtLevel=1 -D$property=true -cp /tmp Fetch "${pairs[@]}"
done
