package process

const (
	childSpec  = "PALYRA_TEST_SPEC"
	helperPath = "PALYRA_TEST_HELPER"
)

func childMain() int { return 1 }

func probe([]string) int { return 1 }
