package seccomp

import "golang.org/x/sys/unix"

// auditArch is AUDIT_ARCH_AARCH64 of <linux/audit.h>.
const auditArch = unix.AUDIT_ARCH_AARCH64

// compatBit exists only on x86; no number here reaches it.
const compatBit = 0x40000000

func legacyAllowed() []int { return nil }

func legacyDenied() []int { return nil }

func legacyHarmless() []int { return nil }

func legacyRules() map[int]rule { return map[int]rule{} }

func legacyName(int) string { return "" }
