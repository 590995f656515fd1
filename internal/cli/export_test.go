package cli

// ExitCodes are those of `palyra help exit-codes`.
func ExitCodes() []int {
	var codes []int
	for _, row := range exitCodes {
		codes = append(codes, row.code)
	}
	return codes
}
